// The histograms of a tag over its steps, as ridges or as a heat map.

import { useCallback, useMemo } from "preact/hooks";
import { type JobId, numeric, type PayloadRow, type Place, payload } from "../api";
import { ramp } from "../colours";
import { number } from "../format";
import { Canvas, type Paint } from "../parts/canvas";
import { Show, useLoaded } from "../parts/loaded";
import { dark } from "../parts/theme";
import { labelled, ticksBetween } from "../scales";
import { parameter, set } from "../state";
import { type Heat, type Histogram, heatOf } from "./heat";
import type { TabProps } from "./page";
import { chosenTag, ShowRows, TagPicker, useRows } from "./steps";

/** The most histograms that are shown, evenly spread over the steps, including the last one. */
const MOST = 40;
const WIDEST = 900;
const SIZE = { height: 420, left: 56, right: 30, bottom: 30, top: 10 };

export function HistogramsTab({ job, tags }: TabProps) {
  const all = tags.tags.histogram ?? [];
  const place = { plugin: "histogram", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No histogram was recorded.</p>;
  return (
    <section>
      <div class="bar">
        <TagPicker tags={all} />
        <label>
          as{" "}
          <select
            value={parameter("as") || "ridges"}
            onChange={(event) => set({ as: event.currentTarget.value })}
          >
            <option value="ridges">ridges</option>
            <option value="heat">heat map</option>
          </select>
        </label>
      </div>
      <ShowRows of={rows}>{(found) => <Histograms job={job} place={place} rows={found} />}</ShowRows>
    </section>
  );
}

interface Wire {
  step: number;
  left: (number | string)[];
  width: (number | string)[];
  count: number[];
  statistics: { nan_count: number; pos_inf_count: number; neg_inf_count: number };
}

function Histograms({ job, place, rows }: { job: JobId; place: Place; rows: readonly PayloadRow[] }) {
  const chosen = evenly(rows, MOST);
  const loaded = useLoaded(
    JSON.stringify([job, place, chosen.map(({ step, device }) => [step, device])]),
    (signal) => Promise.all(chosen.map((row) => payload<Wire>(job, place, row, {}, signal))),
  );
  return (
    <>
      <p class="quiet">
        {number(rows.length)} steps{chosen.length < rows.length && `, ${chosen.length} of them shown`}
      </p>
      <Show of={loaded.value}>
        {(all) => (
          <>
            <Beside all={all} />
            <Picture all={all} ridges={parameter("as") !== "heat"} title={place.tag} />
          </>
        )}
      </Show>
    </>
  );
}

function histogramOf({ step, left, width, count }: Wire): Histogram {
  return { step, buckets: left.map((from, n) => [numeric(from), numeric(width[n]), count[n]!]) };
}

/** A note on values that no bucket counts. */
function Beside({ all }: { all: readonly Wire[] }) {
  const sum = (of: (statistics: Wire["statistics"]) => number) =>
    all.reduce((total, { statistics }) => total + of(statistics), 0);
  const [nan, infinite] = [sum((s) => s.nan_count), sum((s) => s.pos_inf_count + s.neg_inf_count)];
  if (!nan && !infinite) return null;
  return (
    <p class="warn">
      Not drawn: {number(nan)} NaN, {number(infinite)} infinite
    </p>
  );
}

function evenly<T>(all: readonly T[], most: number): T[] {
  if (all.length <= most) return [...all];
  return Array.from({ length: most }, (_, n) => all[Math.round((n * (all.length - 1)) / (most - 1))]!);
}

function Picture({ all, ridges, title }: { all: readonly Wire[]; ridges: boolean; title: string }) {
  const histograms = useMemo(() => all.map(histogramOf), [all]);
  const paint = useCallback<Paint>(
    (context, width) => {
      const heat = heatOf(histograms, ridges ? 96 : 64);
      if (heat) (ridges ? paintRidges : paintHeat)(context, width, heat, histograms);
    },
    [histograms, ridges, dark.value],
  );
  return (
    <Canvas
      label={`${title}: ${histograms.length} histograms from step ${histograms[0]?.step} to ${histograms.at(-1)?.step}`}
      widest={WIDEST}
      height={() => SIZE.height}
      paint={paint}
    />
  );
}

const ink = () => (dark.value ? "#a2acba" : "#59636f");

function paintHeat(
  context: CanvasRenderingContext2D,
  wide: number,
  heat: Heat,
  histograms: readonly Histogram[],
): void {
  const [width, height] = [wide - SIZE.left - SIZE.right, SIZE.height - SIZE.bottom - SIZE.top];
  const rows = heat.columns[0]?.length ?? 1;
  heat.columns.forEach((column, n) => {
    column.forEach((share, row) => {
      if (!share) return;
      context.fillStyle = ramp(Math.sqrt(share / heat.greatest));
      const left = SIZE.left + (n * width) / heat.columns.length;
      context.fillRect(
        left,
        SIZE.top + height - ((row + 1) * height) / rows,
        Math.ceil(width / heat.columns.length),
        Math.ceil(height / rows),
      );
    });
  });
  context.fillStyle = ink();
  context.textAlign = "right";
  for (const { value, text } of labelled(ticksBetween(heat.low, heat.high)))
    context.fillText(
      text,
      SIZE.left - 6,
      SIZE.top + height * (1 - (value - heat.low) / (heat.high - heat.low)) + 4,
      SIZE.left - 8,
    );
  context.textAlign = "center";
  for (const n of new Set([0, Math.floor((histograms.length - 1) / 2), histograms.length - 1])) {
    context.fillText(
      `step ${number(histograms[n]!.step)}`,
      SIZE.left + ((n + 0.5) * width) / histograms.length,
      SIZE.height - 10,
    );
  }
}

function paintRidges(
  context: CanvasRenderingContext2D,
  wide: number,
  heat: Heat,
  histograms: readonly Histogram[],
): void {
  const width = wide - SIZE.left - SIZE.right;
  const step = (SIZE.height - SIZE.bottom - SIZE.top - 60) / Math.max(1, heat.columns.length - 1);
  const rows = heat.columns[0]?.length ?? 1;
  context.textAlign = "right";
  context.fillStyle = ink();
  context.fillText("step", SIZE.left - 6, SIZE.top + 40);
  heat.columns.forEach((column, n) => {
    const foot = SIZE.top + 60 + n * step;
    context.beginPath();
    context.moveTo(SIZE.left, foot);
    column.forEach((share, row) => {
      context.lineTo(SIZE.left + ((row + 0.5) * width) / rows, foot - (share / heat.greatest) * 60);
    });
    context.lineTo(SIZE.left + width, foot);
    context.globalAlpha = 0.75;
    context.fillStyle = ramp(n / Math.max(1, heat.columns.length - 1));
    context.fill();
    context.globalAlpha = 1;
    context.strokeStyle = dark.value ? "#15181d" : "#fff";
    context.stroke();
    if (n % Math.ceil(heat.columns.length / 12) === 0) {
      context.fillStyle = ink();
      context.fillText(number(histograms[n]!.step), SIZE.left - 6, foot + 4);
    }
  });
  context.fillStyle = ink();
  context.textAlign = "center";
  for (const { value, text } of labelled(ticksBetween(heat.low, heat.high, Math.min(8, width / 50))))
    context.fillText(
      text,
      SIZE.left + ((value - heat.low) / (heat.high - heat.low)) * width,
      SIZE.height - 8,
      50,
    );
}
