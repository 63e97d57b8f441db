// Draws curves on a chart's canvas: lines, boxes and marks, each in the colour of its job.

import type uPlot from "uplot";
import { type Drawn, restartsOf, type X } from "./curve";

interface Painted {
  all: readonly Drawn[];
  jobs: readonly { colour: string }[];
  log: boolean;
  x: X;
}

const MARK = 5;

/** Draw the curves, clipped to the area between the axes. */
export function paint(plot: uPlot, { all, jobs, log, x }: Painted): void {
  const { ctx: context, bbox } = plot;
  context.save();
  context.beginPath();
  context.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  context.clip();
  for (const each of all) {
    const colour = jobs[each.curve.job]?.colour ?? "#888";
    paintRestarts(plot, restartsOf(each, x), colour);
    context.globalAlpha = each.curve.superseded ? 0.45 : 1;
    if (each.boxes) paintBoxes(plot, each.boxes, colour, log);
    paintLine(plot, each, colour);
    context.globalAlpha = 1;
  }
  for (const each of all) paintMarks(plot, each, jobs[each.curve.job]?.colour ?? "#888", log);
  context.restore();
}

/** Draw a dotted line at each restart of the training. */
function paintRestarts(plot: uPlot, restarts: readonly number[], colour: string): void {
  const { ctx: context, bbox } = plot;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash([2, 4]);
  context.beginPath();
  for (const step of restarts) {
    const left = plot.valToPos(step, "x", true);
    context.moveTo(left, bbox.top);
    context.lineTo(left, bbox.top + bbox.height);
  }
  context.stroke();
  context.setLineDash([]);
}

function paintBoxes(
  plot: uPlot,
  { from, to, low, high }: NonNullable<Drawn["boxes"]>,
  colour: string,
  log: boolean,
): void {
  const { ctx: context, scales } = plot;
  const [least, greatest] = [scales.y!.min!, scales.y!.max!];
  const alpha = context.globalAlpha;
  context.globalAlpha = alpha * 0.22;
  context.fillStyle = colour;
  for (let n = 0; n < from.length; n += 1) {
    if (Number.isNaN(low[n]!) || (log && high[n]! <= 0)) continue;
    const left = plot.valToPos(from[n]!, "x", true);
    const right = plot.valToPos(to[n]!, "x", true);
    const top = plot.valToPos(Math.min(high[n]!, greatest), "y", true);
    const bottom = plot.valToPos(Math.max(low[n]!, least), "y", true);
    context.fillRect(left, top, Math.max(1, right - left), Math.max(1, bottom - top));
  }
  context.globalAlpha = alpha;
}

function paintLine(plot: uPlot, { x, y, curve }: Drawn, colour: string): void {
  const { ctx: context } = plot;
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.setLineDash(curve.superseded ? [4, 3] : []);
  context.beginPath();
  let open = false;
  for (let n = 0; n < x.length; n += 1) {
    if (Number.isNaN(y[n]!)) {
      open = false;
      continue;
    }
    const [left, top] = [plot.valToPos(x[n]!, "x", true), plot.valToPos(y[n]!, "y", true)];
    if (open) context.lineTo(left, top);
    else context.moveTo(left, top);
    if (!open && (n + 1 === x.length || Number.isNaN(y[n + 1]!))) context.arc(left, top, 1.5, 0, 2 * Math.PI);
    open = true;
  }
  context.stroke();
  context.setLineDash([]);
}

/** Draw ticks at the lower edge for NaN, and triangles at both edges for values beyond the axis. */
function paintMarks(plot: uPlot, each: Drawn, colour: string, log: boolean): void {
  const { ctx: context, bbox, scales } = plot;
  const [least, greatest] = [scales.y!.min!, scales.y!.max!];
  context.fillStyle = colour;
  const triangle = (at: number, up: boolean) => {
    const left = plot.valToPos(at, "x", true);
    const [tip, foot] = up
      ? [bbox.top, bbox.top + 2 * MARK]
      : [bbox.top + bbox.height, bbox.top + bbox.height - 2 * MARK];
    context.beginPath();
    context.moveTo(left, tip);
    context.lineTo(left - MARK, foot);
    context.lineTo(left + MARK, foot);
    context.fill();
  };
  for (const { x, kind } of each.odd) {
    if (kind === "nan")
      context.fillRect(plot.valToPos(x, "x", true) - 1, bbox.top + bbox.height - 2 * MARK, 2, 2 * MARK);
    else triangle(x, kind === "+inf");
  }
  const [xs, lows, highs] = each.boxes
    ? [each.boxes.from, each.boxes.low, each.boxes.high]
    : [each.x, each.y, each.y];
  for (let n = 0; n < xs.length; n += 1) {
    if (highs[n]! > greatest) triangle(xs[n]!, true);
    if (lows[n]! < least && !(log && lows[n]! <= 0)) triangle(xs[n]!, false);
  }
}
