// What the jobs page shows, out of its URL and the columns that were loaded.

import type { Names } from "../api";
import { type Brush, type Columns, type SortKey, wordOf, wordsInOrder } from "../columns";
import { joined, list, parameter } from "../state";

/** What the table shows unless somebody chooses. */
export const DEFAULT_COLUMNS = [
  "state",
  "network",
  "optimizer",
  "learning_rate",
  "batch_size",
  "epoch",
  "loss",
];
const DEFAULT_AXES = ["network", "optimizer", "learning_rate", "batch_size", "epoch", "loss"];
const MOST_AXES = 8;
const NUMERIC = ["integer", "float"];
const RESULTS = ["loss", "tag"];
/** Columns that the server gives with every job. */
export const OF_EVERY_JOB = ["train_id", "state", "updated_at", "label", "remark", "base_dir"];

export function chosenColumns(names: Names): string[] {
  const chosen = list("cols");
  return chosen.length
    ? chosen
    : [...DEFAULT_COLUMNS, ...names.metric.slice(0, 3).map((name) => `metric/${name}`)];
}

/** Those of the table, the pinned first: what people write stands in it always. */
export function shownColumns(columns: Columns, names: Names): string[] {
  const several = !list("cols").length && varies(columns, "base_dir");
  const all = [...new Set([...(several ? ["base_dir"] : []), ...chosenColumns(names), "label", "remark"])];
  return [...pinnedOf(all), ...all.filter((name) => !pinnedOf(all).includes(name))];
}

/** Which of some columns stay in view when the table is scrolled aside. */
export function pinnedOf(columns: readonly string[]): string[] {
  return list("pin").filter((name) => columns.includes(name));
}

export function wantedAxes(names: Names): string[] {
  const chosen = list("axes");
  return chosen.length
    ? chosen
    : [...DEFAULT_AXES, ...names.metric.slice(0, 3).map((name) => `metric/${name}`)];
}

/** Numbers that a training was given: what a metric may go with. */
export function hyperParameters(names: Names): string[] {
  const given = names.fields.filter(({ name, type }) => NUMERIC.includes(type) && !RESULTS.includes(name));
  return [...given.map(({ name }) => name), ...names.user_defined.map((name) => `user_defined/${name}`)];
}

/** All fields that the view needs, but for those of every job. */
export function neededFields(names: Names): string[] {
  const needed = [
    ...chosenColumns(names),
    ...wantedAxes(names),
    ...brushed().map(({ name }) => name),
    ...sortKeys().map(({ name }) => name),
    ...list("scatter"),
    ...["colour", "group", "ranking"].map(parameter),
    ...(parameter("ranking") ? hyperParameters(names) : []),
  ];
  return [...new Set(needed)].filter((name) => name && !OF_EVERY_JOB.includes(name));
}

/** The axes to draw: those chosen; else those on which jobs differ. */
export function axesOf(columns: Columns, wanted: readonly string[]): string[] {
  if (list("axes").length) return wanted.filter((name) => columns.byName.has(name));
  return wanted.filter((name) => varies(columns, name)).slice(0, MOST_AXES);
}

function varies(columns: Columns, name: string): boolean {
  const column = columns.byName.get(name);
  if (!column) return false;
  if (column.kind === "word") return column.words.length > 1;
  const first = column.values.find((value) => !Number.isNaN(value));
  return first !== undefined && column.values.some((value) => !Number.isNaN(value) && value !== first);
}

export function sortKeys(): SortKey[] {
  return list("sort").map((text) =>
    text.startsWith("-") ? { name: text.slice(1), down: true } : { name: text, down: false },
  );
}

export function sortText(keys: readonly SortKey[]): string {
  return joined(keys.map(({ name, down }) => `${down ? "-" : ""}${name}`));
}

/** Sorting by a column: down first (the best of most metrics), then up, then not at all. */
export function resorted(keys: readonly SortKey[], name: string, also: boolean): SortKey[] {
  const before = keys.find((key) => key.name === name);
  const others = also ? keys.filter((key) => key.name !== name) : [];
  if (!before) return [...others, { name, down: true }];
  return before.down ? [...others, { name, down: false }] : others;
}

const brushed = () =>
  list("brush").flatMap((text) => {
    const [, name, ...ends] = /^(.+)~([^~]*)~([^~]*)$/s.exec(text) ?? [];
    return name ? [{ name, ends: ends.map(unescaped) as [string, string] }] : [];
  });

/** Ends in words are those of the alphabet between them: their places change when a job brings a new word. */
export function brushes(columns: Columns): Brush[] {
  return brushed().map(({ name, ends: [low, high] }) => {
    const column = columns.byName.get(name);
    if (column?.kind !== "word") return { name, low: Number(low), high: Number(high) };
    const words = wordsInOrder(column);
    const places = [...words.keys()].filter((place) => low <= words[place]! && words[place]! <= high);
    return { name, low: (places[0] ?? words.length) - 0.5, high: (places.at(-1) ?? words.length) + 0.5 };
  });
}

export function brushText(columns: Columns, found: readonly Brush[]): string {
  return joined(
    found.map(({ name, low, high }) => {
      const column = columns.byName.get(name);
      if (column?.kind !== "word") return `${name}~${low}~${high}`;
      const words = wordsInOrder(column);
      const end = (place: number) => words[Math.min(words.length - 1, Math.max(0, place))] ?? "";
      return [name, ...[end(Math.floor(low + 0.5)), end(Math.ceil(high - 0.5))].map(escaped)].join("~");
    }),
  );
}

const escaped = (word: string) => word.replace(/[%~]/g, (each) => (each === "%" ? "%25" : "%7E"));
const unescaped = (word: string) => word.replaceAll("%7E", "~").replaceAll("%25", "%");

export function grouping(): string {
  return parameter("group");
}

/** A column's title: without the prefix that its kind has, unless it would be taken for a field. */
export function titleOf(name: string): string {
  const short = name.replace(/^(metric|user_defined)\//, "");
  return DEFAULT_COLUMNS.includes(short) ? name : short;
}

export function word(columns: Columns, name: string, row: number): string {
  const column = columns.byName.get(name);
  return (column?.kind === "word" ? wordOf(column, row) : null) ?? "";
}

export function numberAt(columns: Columns, name: string, row: number): number | null {
  const column = columns.byName.get(name);
  const value = column?.kind === "number" ? column.values[row]! : Number.NaN;
  return Number.isNaN(value) ? null : value;
}
