// The axes of the parallel coordinates, and the place of each job on them. Pure.

import { asNumbers, type Column, type Columns, wordsInOrder } from "../columns";
import { fitting, labelled, type Scale } from "../scales";

export interface Axis {
  name: string;
  title: string;
  column: Column;
  /** The place of each job, from 0 (low) to 1; NaN: missing. */
  places: Float32Array;
  values: Float64Array;
  scale: Scale;
  ticks: { place: number; text: string; value: number }[];
}

/** How far the jobs with one word are spread around its tick, as a share of the distance of ticks. */
const JITTER = 0.28;

export function axisOf(columns: Columns, name: string, title: string): Axis | null {
  const column = columns.byName.get(name);
  if (!column) return null;
  const values = asNumbers(column);
  const scale = scaleOf(column, values);
  const jitter = column.kind === "word" ? JITTER / Math.max(1, column.words.length) : 0;
  const places = Float32Array.from(values, (value, job) => placed(scale, value) + jitter * spread(job));
  return { name, title, column, values, scale, places, ticks: ticksOf(column, scale) };
}

/** Words at equal distances; numbers on the scale that fits them. */
export function scaleOf(column: Column, values: ArrayLike<number>): Scale {
  return column.kind === "word" ? wordScale(column.words.length) : fitting(values);
}

function placed(scale: Scale, value: number): number {
  const place = scale.at(value);
  return Number.isNaN(place) ? place : Math.min(1, Math.max(0, place));
}

/** A scale with each word in the middle of an equal share of the axis. */
function wordScale(count: number): Scale {
  const low = -0.5;
  const span = Math.max(1, count);
  return {
    kind: "linear",
    low,
    high: low + span,
    ticks: [],
    at: (value) => (value - low) / span,
    value: (place) => low + place * span,
  };
}

export function ticksOf(column: Column, scale: Scale): Axis["ticks"] {
  if (column.kind === "word") {
    const words = wordsInOrder(column);
    const every = Math.max(1, Math.ceil(words.length / 24));
    return words.flatMap((text, value) =>
      value % every ? [] : [{ place: scale.at(value), text: text || "(empty)", value }],
    );
  }
  return labelled(scale.ticks).map((tick) => ({ ...tick, place: scale.at(tick.value) }));
}

/** Shorten a tick's text to the room for it; the full text is in a tooltip or the table. */
export function short(text: string): string {
  return text.length > 14 ? `${text.slice(0, 13)}…` : text;
}

/** An offset between −1 and 1 that depends on the job's number only, evenly distributed. */
function spread(job: number): number {
  return (((job * 0.61803398875) % 1) - 0.5) * 2;
}
