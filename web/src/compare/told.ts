// Texts about curves: places on the x axis, values, and notes on what a chart does not show. Pure.

import { counted, duration, number, time } from "../format";
import { type Drawn, rangeOf, type X } from "./curve";

/** The text of a place on the x axis. */
export function told(at: number, x: X, unit: string | undefined): string {
  if (x === "step") return `${unit ?? x} ${number(Math.round(at))}`;
  return x === "wall" ? time(at) : duration(at);
}

export function notes(all: readonly Drawn[], log: boolean, place: (at: number) => string): string {
  const nan = all.reduce(
    (sum, { odd }) => sum + odd.reduce((n, each) => n + (each.kind === "nan" ? each.count : 0), 0),
    0,
  );
  const range = rangeOf(all, log);
  let [beyond, farthest, where] = [0, 0, 0];
  if (range) {
    for (const { x, y, boxes } of all) {
      const [xs, lows, highs] = boxes ? [boxes.from, boxes.low, boxes.high] : [x, y, y];
      for (let n = 0; n < xs.length; n += 1) {
        const far = Math.max(highs[n]! - range[1], range[0] - lows[n]!);
        if (!(far > 0)) continue;
        beyond += 1;
        if (far > farthest) [farthest, where] = [far, xs[n]!];
      }
    }
  }
  const parts = [];
  const restarts = all.reduce((sum, { curve }) => sum + (curve.superseded ? 0 : curve.restarts.length), 0);
  if (restarts) parts.push(counted(restarts, "restart"));
  const thinned = all.reduce((sum, { curve }) => sum + (curve.superseded ? 0 : (curve.thinned ?? 0)), 0);
  if (thinned) parts.push(`thinned: ${number(thinned)} more samples were written`);
  if (beyond) parts.push(`${number(beyond)} beyond the axis, the farthest near ${place(where)}`);
  if (nan) parts.push(`${number(nan)} NaN`);
  return parts.join(" · ");
}

/** The job's name, with the device if the job has curves of several devices. */
export function nameIn(all: readonly Drawn[], { curve }: Drawn, { name }: { name: string }): string {
  const others = all.filter((each) => each.curve.job === curve.job && each.curve.device !== curve.device);
  return others.length ? `${name} device ${curve.device}` : name;
}

/** The value of point `n` of the line; for a bucket also its least and greatest value. */
export function inWords({ x, y, boxes }: Drawn, n: number): string {
  const bucket = boxes && (boxes.low.length === x.length ? n : n >> 1);
  const [low, high] = bucket === null ? [] : [boxes!.low[bucket]!, boxes!.high[bucket]!];
  return `${number(y[n]!)}${low! < high! ? ` (${number(low)} to ${number(high)})` : ""}`;
}
