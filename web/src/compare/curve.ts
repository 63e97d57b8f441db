// Curves as the server sends them, as samples or as buckets of samples, and the lines that are drawn of them. Pure.

import { extent } from "../scales";
import { smoothed } from "../smoothing";

export type X = "step" | "relative" | "wall";

export interface Curve {
  job: number; // index of the job in the comparison
  device: number | null;
  superseded: boolean;
  restarts: readonly number[]; // steps
  began: number; // when the tag's first sample was written, unix s; NaN: unknown
  thinned?: number; // number of samples that were thinned out
  columns: Readonly<Record<string, Float64Array>>;
}

/** A curve as it is drawn: a line, and a box for each bucket, if there are buckets. */
export interface Drawn {
  curve: Curve;
  x: Float64Array;
  y: Float64Array;
  boxes: { from: Float64Array; to: Float64Array; low: Float64Array; high: Float64Array } | null;
  /** The NaN and infinite samples. */
  odd: { x: number; kind: "nan" | "+inf" | "-inf"; count: number }[];
}

export function isBucketed(curve: Curve): boolean {
  return "first_step" in curve.columns;
}

export function drawn(curve: Curve, mode: X, halfLife: number, since: number): Drawn {
  return isBucketed(curve)
    ? ofBuckets(curve, mode, halfLife, since)
    : ofSamples(curve, mode, halfLife, since);
}

function ofSamples(curve: Curve, mode: X, halfLife: number, since: number): Drawn {
  const { step, wall_time, value } = curve.columns as Record<"step" | "wall_time" | "value", Float64Array>;
  const x = places(step, wall_time, mode, since);
  const odd: Drawn["odd"] = [];
  value.forEach((each, n) => {
    if (!Number.isFinite(each)) odd.push({ x: x[n]!, kind: kindOf(each), count: 1 });
  });
  return { curve, x, y: finite(smoothed(step, value, halfLife)), boxes: null, odd };
}

function ofBuckets(curve: Curve, mode: X, halfLife: number, since: number): Drawn {
  const c = curve.columns;
  const from = places(c.first_step!, c.first_wall_time!, mode, since);
  const to = places(c.last_step!, c.last_wall_time!, mode, since);
  const [low, high] = [c.min!, c.max!];
  const count = from.length;
  const x = new Float64Array(2 * count);
  const y = new Float64Array(2 * count);
  const steps = new Float64Array(2 * count);
  const odd: Drawn["odd"] = [];
  for (let n = 0; n < count; n += 1) {
    [x[2 * n], x[2 * n + 1]] = [from[n]!, to[n]!];
    [y[2 * n], y[2 * n + 1]] = [c.first![n]!, c.last![n]!];
    [steps[2 * n], steps[2 * n + 1]] = [c.first_step![n]!, c.last_step![n]!];
    const middle = (from[n]! + to[n]!) / 2;
    if (c.nan_count![n]! > 0) odd.push({ x: middle, kind: "nan", count: c.nan_count![n]! });
    if (high[n] === Infinity) odd.push({ x: middle, kind: "+inf", count: 1 });
    if (low[n] === -Infinity) odd.push({ x: middle, kind: "-inf", count: 1 });
  }
  return { curve, x, y: finite(smoothed(steps, y, halfLife)), boxes: { from, to, low, high }, odd };
}

function places(steps: Float64Array, times: Float64Array, mode: X, since: number): Float64Array {
  if (mode === "step") return steps;
  return mode === "wall" ? times : times.map((time) => time - since);
}

function finite(values: Float64Array): Float64Array {
  return values.map((value) => (Number.isFinite(value) ? value : Number.NaN));
}

function kindOf(value: number): "nan" | "+inf" | "-inf" {
  return Number.isNaN(value) ? "nan" : value > 0 ? "+inf" : "-inf";
}

type Measured = Readonly<Record<string, unknown>>;

/** A curve for each metric that several evaluations measured; `by` names its x axis. */
export function evaluated(rows: readonly Measured[]): { name: string; by: string; curve: Curve }[] {
  const of = new Map<string, Measured[]>();
  for (const row of rows) {
    const measured = of.get(String(row.name));
    if (measured) measured.push(row);
    else of.set(String(row.name), [row]);
  }
  return [...of]
    .filter(([, measured]) => measured.length > 1 && measured.some(({ value }) => typeof value === "number"))
    .map(([name, measured]) => {
      const [by, step] = placed(measured);
      const value = Float64Array.from(measured, (row) =>
        row.value === null ? Number.NaN : Number(row.value),
      );
      const columns = { step, value };
      return {
        name,
        by,
        curve: { job: 0, device: null, superseded: false, restarts: [], began: Number.NaN, columns },
      };
    });
}

/** The x axis of evaluations: their steps or epochs if these always increase, which a restart may prevent; otherwise
 * their numbers. */
function placed(measured: readonly Measured[]): [string, Float64Array] {
  for (const by of ["step", "epoch"]) {
    const at = Float64Array.from(measured, (row) => Number(row[by] ?? Number.NaN));
    if (at.every((each, n) => (n ? each > at[n - 1]! : !Number.isNaN(each)))) return [by, at];
  }
  return ["evaluation", Float64Array.from(measured, (row) => Number(row.evaluation_no))];
}

/** The time of the earliest first sample, from which relative time counts even in a zoomed chart. */
export function beginning(curves: readonly Curve[]): number {
  return Math.min(...curves.map(({ began }) => began).filter(Number.isFinite));
}

/** The places on the x axis where the training was restarted: of the first sample at or after the restart's step.
 * Superseded curves have none: their samples were written before the restart. */
export function restartsOf({ curve, x, boxes }: Drawn, mode: X): number[] {
  if (curve.superseded) return [];
  if (mode === "step") return [...curve.restarts];
  const { step, first_step = step } = curve.columns;
  return curve.restarts.flatMap(
    (at) => (boxes?.from ?? x)[first_step!.findIndex((each) => each >= at)] ?? [],
  );
}

/** The steps (end exclusive) of the samples between two places on the x axis, or null if there are none. */
export function stepsBetween(all: readonly Drawn[], low: number, high: number): [number, number] | null {
  let [first, last] = [Infinity, -Infinity];
  for (const { curve, x, boxes } of all) {
    const [from, to] = boxes ? [boxes.from, boxes.to] : [x, x];
    const { step, first_step = step, last_step = step } = curve.columns;
    for (let n = 0; n < from.length; n += 1) {
      if (to[n]! < low || from[n]! > high) continue;
      first = Math.min(first, first_step![n]!);
      last = Math.max(last, last_step![n]!);
    }
  }
  return first <= last ? [first, last + 1] : null;
}

/** A range of the y axis without the few outliers that would make the rest a flat line; null: no values. */
export function rangeOf(all: readonly Drawn[], log: boolean): [number, number] | null {
  const values: number[] = [];
  for (const { y, boxes } of all) {
    for (const part of boxes ? [y, boxes.low, boxes.high] : [y]) {
      for (const value of part) if (Number.isFinite(value) && (!log || value > 0)) values.push(value);
    }
  }
  if (!values.length) return null;
  const order = Float64Array.from(values).sort();
  const [least, greatest] = [order[0]!, order[order.length - 1]!];
  if (log) return [least, greatest === least ? least * 10 : greatest];
  const [low, high] = [0.005, 0.995].map((share) => order[Math.floor(share * (order.length - 1))]!) as [
    number,
    number,
  ];
  const spread = (high - low) * 1.5 || Math.abs(high) || 1;
  const shown: [number, number] = [Math.max(least, low - spread), Math.min(greatest, high + spread)];
  const margin = (shown[1] - shown[0]) * 0.04 || Math.abs(shown[1]) * 0.1 || 1;
  return [shown[0] - margin, shown[1] + margin];
}

/** The least and greatest x. They need not be the ends of a curve: a clock may have been set back. */
function endsOf(all: readonly Drawn[]): [number, number] {
  return extent(all.flatMap(({ x }) => extent(x) ?? [])) ?? [0, 1];
}

/** The range of the x axis that shows all curves. */
export function spanOf(all: readonly Drawn[]): [number, number] {
  const [low, high] = endsOf(all);
  const beside = low === high ? Math.max(1, Math.abs(low) * 1e-12) : 0;
  return [low - beside, high + beside];
}

/** Index of the greatest x up to a value, the last one among equals; −1: none. `x` need not be sorted. */
export function upTo(x: Float64Array, value: number): number {
  let found = -1;
  for (let n = 0; n < x.length; n += 1) {
    if (x[n]! <= value && (found < 0 || x[n]! >= x[found]!)) found = n;
  }
  return found;
}

const GRID = 400;

/** For each group the mean of its lines, with boxes from their least to their greatest value. */
export function means(all: readonly Drawn[], groupOf: (job: number) => number): Drawn[] {
  const groups = new Map<number, Drawn[]>();
  for (const each of all) {
    if (!each.curve.superseded && each.x.length)
      groups.set(groupOf(each.curve.job), [...(groups.get(groupOf(each.curve.job)) ?? []), each]);
  }
  return [...groups].map(([group, of]) => mean(group, of));
}

function mean(group: number, of: readonly Drawn[]): Drawn {
  const [low, high] = endsOf(of);
  const x = Float64Array.from({ length: GRID }, (_, n) => low + ((high - low) * n) / (GRID - 1));
  const [y, least, greatest] = [new Float64Array(GRID), new Float64Array(GRID), new Float64Array(GRID)];
  const lines = of.map((each) => along(each, x));
  x.forEach((_, n) => {
    const values = lines.map((line) => line[n]!).filter(Number.isFinite);
    y[n] = values.reduce((sum, value) => sum + value, 0) / values.length;
    [least[n], greatest[n]] = values.length
      ? [Math.min(...values), Math.max(...values)]
      : [Number.NaN, Number.NaN];
  });
  const half = (high - low) / (GRID - 1) / 2;
  const boxes = { from: x.map((at) => at - half), to: x.map((at) => at + half), low: least, high: greatest };
  return {
    curve: { job: group, device: null, superseded: false, restarts: [], began: Number.NaN, columns: {} },
    x,
    y,
    boxes,
    odd: of.flatMap(({ odd }) => odd),
  };
}

/** Interpolate a line at ascending places; NaN outside the line. */
function along(line: Drawn, places: Float64Array): Float64Array {
  const order = line.x.map((_, n) => n).sort((a, b) => line.x[a]! - line.x[b]!);
  const [x, y] = [order.map((n) => line.x[n]!), order.map((n) => line.y[n]!)];
  let n = -1;
  return places.map((at) => {
    while (n + 1 < x.length && x[n + 1]! <= at) n += 1;
    if (n < 0 || at > x[x.length - 1]!) return Number.NaN;
    if (n + 1 >= x.length) return y[n]!;
    return y[n]! + ((y[n + 1]! - y[n]!) * (at - x[n]!)) / (x[n + 1]! - x[n]!);
  });
}
