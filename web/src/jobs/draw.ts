// Draws parallel coordinates on a canvas: thousands of jobs as thin lines.

import { ramp } from "../colours";
import type { Axis } from "./axes";

export interface Frame {
  width: number;
  height: number;
  top: number; // upper end of the axes
  bottom: number;
  lane: number; // y of missing values
  x: readonly number[]; // x of each axis
}

/** Few colours, because all lines of one colour are stroked at once. */
const COLOURS = 24;
/** Above this number of lines, they are more transparent. */
const DENSE = 2000;

export function frameOf(width: number, height: number, axes: number): Frame {
  const margin = 100; // room for 14 letters
  const step = axes > 1 ? (width - 2 * margin) / (axes - 1) : 0;
  return {
    width,
    height,
    top: 10,
    bottom: height - 24,
    lane: height - 8,
    x: Array.from({ length: axes }, (_, n) => margin + n * step),
  };
}

export function y(frame: Frame, place: number): number {
  return Number.isNaN(place) ? frame.lane : frame.bottom - place * (frame.bottom - frame.top);
}

/** Draw the lines of some jobs: all in the colour `quiet`, or each by the job's place on the axis `colour`. */
export function drawLines(
  context: CanvasRenderingContext2D,
  frame: Frame,
  axes: readonly Axis[],
  jobs: ArrayLike<number>,
  colour: Axis | null,
  quiet: string | null,
): void {
  context.lineWidth = 1;
  context.globalAlpha = quiet
    ? Math.max(0.02, Math.min(0.16, 200 / jobs.length))
    : jobs.length > DENSE
      ? Math.max(0.12, Math.min(0.35, 35 / Math.sqrt(jobs.length)))
      : jobs.length > 200
        ? 0.6
        : 0.9;
  // Lines without a colour are drawn first, below the others.
  const parts: number[][] = Array.from({ length: quiet ? 1 : COLOURS + 1 }, () => []);
  for (let n = 0; n < jobs.length; n += 1) {
    const job = jobs[n]!;
    const place = colour?.places[job] ?? Number.NaN;
    const part = quiet ? 0 : Number.isNaN(place) ? 0 : Math.min(COLOURS, 1 + Math.floor(place * COLOURS));
    parts[part]!.push(job);
  }
  parts.forEach((part, n) => {
    if (!part.length) return;
    context.strokeStyle = quiet ?? (n === 0 ? "#888" : ramp((n - 1) / (COLOURS - 1)));
    context.beginPath();
    for (const job of part) {
      context.moveTo(frame.x[0]!, y(frame, axes[0]!.places[job]!));
      for (let axis = 1; axis < axes.length; axis += 1)
        context.lineTo(frame.x[axis]!, y(frame, axes[axis]!.places[job]!));
    }
    context.stroke();
  });
  context.globalAlpha = 1;
}

/** The most lines that are drawn while an axis is being brushed; all are drawn when that ends. */
export const MOST_BRUSHED = 2500;

/** At most `most` of the jobs, evenly chosen. */
export function thinned(jobs: ArrayLike<number>, most: number): ArrayLike<number> {
  if (jobs.length <= most) return jobs;
  return Int32Array.from({ length: most }, (_, n) => jobs[Math.floor((n * jobs.length) / most)]!);
}

/** The job whose line is nearest to a point, or null if none is within 8 pixels. */
export function nearest(
  frame: Frame,
  axes: readonly Axis[],
  jobs: ArrayLike<number>,
  atX: number,
  atY: number,
): number | null {
  let before = 0;
  while (before < axes.length - 2 && frame.x[before + 1]! < atX) before += 1;
  const [from, to] = [axes[before], axes[before + 1] ?? axes[before]];
  if (!from || !to) return null;
  const span = (frame.x[before + 1] ?? frame.x[before]!) - frame.x[before]! || 1;
  const share = Math.min(1, Math.max(0, (atX - frame.x[before]!) / span));
  let [best, distance]: [number | null, number] = [null, 8];
  for (let n = 0; n < jobs.length; n += 1) {
    const job = jobs[n]!;
    const at = y(frame, from.places[job]!) * (1 - share) + y(frame, to.places[job]!) * share;
    if (Math.abs(at - atY) < distance) [best, distance] = [job, Math.abs(at - atY)];
  }
  return best;
}
