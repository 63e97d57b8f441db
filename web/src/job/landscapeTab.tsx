// The loss landscape around a training's way: lines of equal loss, and the surface.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { numeric, type PayloadRow, type Place, payload } from "../api";
import { ramp } from "../colours";
import { number } from "../format";
import { Show, useLoaded } from "../parts/loaded";
import { dark } from "../parts/theme";
import { parameter, set } from "../state";
import { contours, levelsOf, type Matrix, seen } from "./contour";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, StepSlider, TagPicker, useRows } from "./steps";

const SIZE = 520;

export function LandscapeTab({ job, tags }: TabProps) {
  const all = tags.tags.landscape ?? [];
  const place = { plugin: "landscape", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No landscape was recorded.</p>;
  return (
    <section>
      {all.length > 1 && <TagPicker tags={all} />}
      <Show of={rows}>
        {(found) => (
          <>
            {found.length > 1 && <StepSlider rows={found} />}
            {found.length > 0 && <Landscape job={job} place={place} row={found[chosenRow(found)]!} />}
          </>
        )}
      </Show>
    </section>
  );
}

type Values = (number | string | null)[];
interface Wire {
  surface: { x: Values; y: Values; z: Values | Values[] };
}

function Landscape({ job, place, row }: { job: TabProps["job"]; place: Place; row: PayloadRow }) {
  const loaded = useLoaded(JSON.stringify([job, place, row.step]), async (signal) =>
    matrixOf(await payload<Wire>(job, place, row, {}, signal)),
  );
  const surface = parameter("as") === "surface";
  return (
    <>
      <label>
        as{" "}
        <select
          value={surface ? "surface" : "contour"}
          onChange={(event) => set({ as: event.currentTarget.value })}
        >
          <option value="contour">contour</option>
          <option value="surface">surface</option>
        </select>
      </label>
      <Show of={loaded.value}>{(z) => <Picture z={z} surface={surface} title={place.tag} />}</Show>
    </>
  );
}

function matrixOf({ surface: { x, z } }: Wire): Matrix {
  if (Array.isArray(z[0])) return (z as Values[]).map((row) => row.map(numeric));
  const width = x.length || Math.round(Math.sqrt(z.length));
  return Array.from({ length: Math.floor(z.length / width) }, (_, n) =>
    (z as Values).slice(n * width, (n + 1) * width).map(numeric),
  );
}

function Picture({ z, surface, title }: { z: Matrix; surface: boolean; title: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const turn = useSignal(0.6);
  const finite = z.flat().filter(Number.isFinite);
  const [low, high] = [
    finite.reduce((a, b) => Math.min(a, b), Infinity),
    finite.reduce((a, b) => Math.max(a, b), -Infinity),
  ];
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context || low > high) return;
    context.clearRect(0, 0, SIZE, SIZE);
    if (surface) paintSurface(context, z, low, high, turn.value);
    else paintContours(context, z, low, high);
  }, [z, surface, turn.value, dark.value]);
  return (
    <figure>
      <canvas
        ref={canvas}
        width={SIZE}
        height={SIZE}
        style={{ maxWidth: "100%" }}
        role="img"
        aria-label={`${title}: loss from ${number(low)} to ${number(high)}`}
      />
      {surface && (
        <div class="bar">
          <label>
            turn{" "}
            <input
              type="range"
              min="0"
              max="6.28"
              step="0.02"
              value={turn.value}
              onInput={(event) => (turn.value = Number(event.currentTarget.value))}
            />
          </label>
        </div>
      )}
      <figcaption>
        loss from {number(low)} to {number(high)}, {z.length} × {z[0]?.length ?? 0} points
      </figcaption>
    </figure>
  );
}

function paintContours(context: CanvasRenderingContext2D, z: Matrix, low: number, high: number): void {
  const scale = SIZE / Math.max(1, Math.max(z.length, z[0]?.length ?? 1) - 1);
  context.lineWidth = 1.5;
  for (const { level, x1, y1, x2, y2 } of contours(z, levelsOf(z))) {
    context.strokeStyle = ramp((level - low) / (high - low || 1));
    context.beginPath();
    context.moveTo(x1 * scale, y1 * scale);
    context.lineTo(x2 * scale, y2 * scale);
    context.stroke();
  }
}

function paintSurface(
  context: CanvasRenderingContext2D,
  z: Matrix,
  low: number,
  high: number,
  turn: number,
): void {
  const [rows, columns] = [z.length, z[0]?.length ?? 0];
  const point = (row: number, column: number) => {
    const height = (z[row]![column]! - low) / (high - low || 1) - 0.5;
    return {
      height,
      ...seen((2 * column) / (columns - 1) - 1, (2 * row) / (rows - 1) - 1, height, turn, 0.6),
    };
  };
  const patches = [];
  for (let row = 0; row + 1 < rows; row += 1) {
    for (let column = 0; column + 1 < columns; column += 1) {
      const corners = [
        point(row, column),
        point(row, column + 1),
        point(row + 1, column + 1),
        point(row + 1, column),
      ];
      if (corners.every(({ y }) => Number.isFinite(y)))
        patches.push({ corners, depth: corners.reduce((sum, each) => sum + each.depth, 0) });
    }
  }
  patches.sort((a, b) => a.depth - b.depth);
  for (const { corners } of patches) {
    context.beginPath();
    for (const { x, y } of corners) context.lineTo(SIZE / 2 + (x * SIZE) / 3, SIZE / 2 + (y * SIZE) / 3);
    context.closePath();
    context.fillStyle = ramp(corners.reduce((sum, { height }) => sum + height + 0.5, 0) / 4);
    context.fill();
    context.strokeStyle = dark.value ? "#15181d55" : "#ffffff88";
    context.stroke();
  }
}
