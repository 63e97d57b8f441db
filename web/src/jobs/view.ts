// The state of the view Jobs, read from its URL and the loaded columns.

import type { Names } from "../api";
import { type Brush, type Columns, type SortKey, wordOf, wordsInOrder } from "../columns";
import { joined, list, parameter } from "../state";

/** The default columns of the table. */
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
/** Columns that every answer has. */
export const OF_EVERY_JOB = ["train_id", "state", "updated_at", "label", "remark", "base_dir"];

export function chosenColumns(names: Names): string[] {
  const chosen = list("cols");
  return chosen.length
    ? chosen
    : [...DEFAULT_COLUMNS, ...names.metric.slice(0, 3).map((name) => `metric/${name}`)];
}

/** The columns of the table, pinned ones first; label and remark are always among them. */
export function shownColumns(columns: Columns, names: Names): string[] {
  const several = !list("cols").length && varies(columns, "base_dir");
  const all = [...new Set([...(several ? ["base_dir"] : []), ...chosenColumns(names), "label", "remark"])];
  return [...pinnedOf(all), ...all.filter((name) => !pinnedOf(all).includes(name))];
}

/** Which of the columns stay in view when the table is scrolled sideways. */
export function pinnedOf(columns: readonly string[]): string[] {
  return list("pin").filter((name) => columns.includes(name));
}

export function wantedAxes(names: Names): string[] {
  const chosen = list("axes");
  return chosen.length
    ? chosen
    : [...DEFAULT_AXES, ...names.metric.slice(0, 3).map((name) => `metric/${name}`)];
}

/** Names of numeric inputs of a training, with which a metric may correlate. */
export function hyperParameters(names: Names): string[] {
  const given = names.fields.filter(({ name, type }) => NUMERIC.includes(type) && !RESULTS.includes(name));
  return [...given.map(({ name }) => name), ...names.user_defined.map((name) => `user_defined/${name}`)];
}

/** All fields that the view needs, except those that every answer has. */
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

/** The axes to draw: the chosen ones, or else those on which jobs differ. */
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

/** The sort keys after a click on a column: first descending, then ascending, then not sorted by it. */
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

/** The brushes. The URL has the words at their ends, because the index of a word changes when a new word comes. */
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

/** A column's title: without the prefix of its kind, unless it would be mistaken for a field. */
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
