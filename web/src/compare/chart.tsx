// The chart of one tag of some jobs: its axes, the values at the pointer, the selection of a range.

import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { duration } from "../format";
import { dark } from "../parts/theme";
import { labelled, logarithmic, ticksBetween } from "../scales";
import {
  beginning,
  type Curve,
  type Drawn,
  drawn,
  means,
  rangeOf,
  spanOf,
  stepsBetween,
  upTo,
  type X,
} from "./curve";
import { paint } from "./paint";
import { inWords, nameIn, notes, told } from "./told";

export interface Named {
  name: string;
  colour: string;
}

interface Props {
  title: string;
  jobs: readonly Named[];
  curves: readonly Curve[];
  x: X;
  unit?: string; // name of the numbers on the x axis; default: step
  log: boolean;
  halfLife: number;
  range: [number, number] | null; // steps
  span?: [number, number] | null; // the visible range of x, if x is time
  height?: number;
  /** Returns the group of a job, as an index of `jobs`; null: each job is drawn by itself. */
  groupOf?: ((job: number) => number) | null;
  onRange: (range: [number, number] | null, span: [number, number] | null) => void;
}

const [MINUTE, HOUR, DAY] = [60, 3600, 86400];
/** Allowed distances of ticks on an axis of durations, in seconds. */
const DURATIONS = [
  ...[0.001, 0.01, 0.1, 1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].map((days) => days * DAY),
];
const DATE = "{YYYY}-{MM}-{DD}";
/** In uPlot's form: the texts of ticks by their least distance, with the date at ticks where it changes. */
const TIMES = [
  [360 * DAY, "{YYYY}"],
  [28 * DAY, "{YYYY}-{MM}"],
  [DAY, DATE],
  [MINUTE, "{HH}:{mm}", `\n${DATE}`],
  [1, "{HH}:{mm}:{ss}", `\n${DATE}`],
  [0.001, "{HH}:{mm}:{ss}.{fff}", `\n${DATE}`],
].map(([apart, text, date = null]) => [apart, text, date, null, date, null, null, null, 1]);

const WIDE = 84; // pixels of the longest text of a step or time

/** Our own ticks: uPlot has none beyond 1e32, and its texts do not depend on the distance of ticks. */
const OURS: uPlot.Axis = {
  space: 0,
  incrs: [1e308], // keeps uPlot from dropping ticks for lack of room
  filter: (_, ticks) => ticks,
  values: (_, ticks) => labelled(ticks).map(({ text }) => text),
};
const ACROSS: Record<X, object> = {
  step: {
    ...OURS,
    splits: ({ width }: uPlot, _: number, low: number, high: number) =>
      ticksBetween(low, high, Math.max(3, Math.floor(width / WIDE) - 2)).filter(Number.isInteger),
  },
  relative: {
    space: 1.4 * WIDE,
    incrs: DURATIONS,
    values: (_: uPlot, ticks: number[], __: number, ___: number, apart: number) =>
      ticks.map((tick) => duration(tick, apart)),
  },
  wall: { space: WIDE, values: TIMES },
};

export function Chart(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const { curves, x, log, halfLife, jobs } = props;
  const lines = useMemo(() => {
    const of = new Map<number, number>();
    return curves.map((curve) => {
      const since = of.get(curve.job) ?? beginning(curves.filter((each) => each.job === curve.job));
      of.set(curve.job, since);
      return drawn(curve, x, curve.superseded ? 0 : halfLife, since);
    });
  }, [curves, x, halfLife]);
  const all = useMemo(() => (props.groupOf ? means(lines, props.groupOf) : lines), [lines, props.groupOf]);
  const latest = useRef({ ...props, lines, all });
  latest.current = { ...props, lines, all };
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = new uPlot(
      options(element, latest),
      [
        [0, 1],
        [null, null],
      ],
      element,
    );
    plot.current = made;
    const seen = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: props.height ?? 260 }),
    );
    seen.observe(element);
    return () => {
      seen.disconnect();
      made.destroy();
    };
  }, [log, x, dark.value]);
  useEffect(() => {
    const zoomed = x === "step" ? stepsOf(props.range) : props.span;
    const ends = zoomed || spanOf(all);
    plot.current?.setScale("x", { min: ends[0], max: ends[1] });
  }, [all, props.range, props.span?.join(), log, x, jobs, dark.value]);
  const beyond = useMemo(() => notes(all, log, (at) => told(at, x, props.unit)), [all, log]);
  return (
    <figure class="chart">
      <figcaption>
        <span title={props.title}>{props.title}</span> <small>{beyond}</small>
      </figcaption>
      <div ref={box} role="img" aria-label={`${props.title} of ${jobs.length} jobs`} />
      <div class="readout" aria-live="off" />
    </figure>
  );
}

type Latest = { current: Props & { lines: Drawn[]; all: Drawn[] } };

function options(element: HTMLElement, latest: Latest): uPlot.Options {
  const { x, unit, log, height = 260 } = latest.current;
  const [ink, grid] = dark.value ? ["#aab3c0", "#2a303b"] : ["#5a6472", "#e4e8ee"];
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  return {
    width: element.clientWidth || 400,
    height,
    legend: { show: false },
    padding: [null, 32, null, null],
    cursor: {
      sync: { key: `x-${unit ?? x}` },
      drag: { x: true, y: false, setScale: false },
      points: { show: false },
    },
    scales: {
      x: { time: x === "wall" },
      y: { distr: log ? 3 : 1, range: () => rangeOf(latest.current.all, log) ?? (log ? [0.1, 10] : [0, 1]) },
    },
    axes: [
      {
        ...axis,
        ...(unit && { label: unit, labelSize: 20 }),
        ...ACROSS[x],
      },
      {
        ...axis,
        ...OURS,
        size: (_, texts) => Math.max(62, 20 + 7.5 * Math.max(...(texts ?? []).map((text) => text.length))),
        splits: (_, __, low, high) => (log ? [...logarithmic(low, high).ticks] : ticksBetween(low, high)),
      },
    ],
    series: [{}, { stroke: "transparent" }],
    hooks: {
      draw: [(plot) => paint(plot, latest.current)],
      setCursor: [(plot) => readOut(plot, element, latest.current)],
      setSelect: [(plot) => select(plot, latest.current)],
      ready: [(plot) => plot.over.addEventListener("dblclick", () => latest.current.onRange(null, null))],
    },
  };
}

/** The first and last visible step of a range, whose end is exclusive. */
function stepsOf(range: [number, number] | null): [number, number] | null {
  return range && [range[0], Math.max(range[1] - 1, range[0] + 1)];
}

function readOut(plot: uPlot, element: HTMLElement, { all, jobs, x, unit, curves }: Latest["current"]): void {
  const readout = element.parentElement?.querySelector<HTMLElement>(".readout");
  const left = plot.cursor.left ?? -1;
  if (!readout) return;
  if (left < 0 || !curves.length) {
    readout.textContent = "";
    return;
  }
  const at = plot.posToVal(left, "x");
  const head = told(at, x, unit);
  const values = all.flatMap((each) => {
    const n = upTo(each.x, at);
    if (n < 0 || Number.isNaN(each.y[n]!)) return [];
    const job = jobs[each.curve.job]!;
    return [{ value: each.y[n]!, colour: job.colour, text: `${nameIn(all, each, job)} ${inWords(each, n)}` }];
  });
  values.sort((a, b) => b.value - a.value);
  const shown = values.slice(0, 8).map(({ colour, text }) => {
    const item = document.createElement("span");
    item.style.setProperty("--colour", colour);
    item.textContent = text;
    return item;
  });
  readout.replaceChildren(head, ...shown, values.length > 8 ? `and ${values.length - 8} more` : "");
}

function select(plot: uPlot, { onRange, x, lines, range }: Latest["current"]): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  if (x === "step") onRange([Math.floor(from), Math.ceil(to) + 1], null);
  else onRange(stepsBetween(lines, from, to) ?? range, [from, to]);
}
