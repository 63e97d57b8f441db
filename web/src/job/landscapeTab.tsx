// The loss landscape around a training's path, as contour lines or as a surface.

import { useSignal } from "@preact/signals";
import { useCallback, useMemo } from "preact/hooks";
import { numeric, type PayloadRow, type Place, payload } from "../api";
import { ramp } from "../colours";
import { counted, number } from "../format";
import { Canvas, type Paint } from "../parts/canvas";
import { Show, useLoaded } from "../parts/loaded";
import { dark } from "../parts/theme";
import { extent, labelled, ticksBetween } from "../scales";
import { parameter, set } from "../state";
import { contours, levelsOf, type Matrix, type Spot, seen } from "./contour";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, ShowRows, StepSlider, TagPicker, useRows } from "./steps";

const WIDEST = 520;
const [LEFT, BOTTOM] = [52, 28]; // pixels for the axes

export function LandscapeTab({ job, tags }: TabProps) {
  const all = tags.tags.landscape ?? [];
  const place = { plugin: "landscape", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No landscape was recorded.</p>;
  return (
    <section>
      {all.length > 1 && <TagPicker tags={all} />}
      <ShowRows of={rows}>
        {(found) => (
          <>
            {found.length > 1 && <StepSlider rows={found} />}
            {found.length > 0 && <Landscape job={job} place={place} row={found[chosenRow(found)]!} />}
          </>
        )}
      </ShowRows>
    </section>
  );
}

type Values = (number | string | null)[];
interface Points {
  x: Values | Values[];
  y: Values | Values[];
  z: Values | Values[];
}
interface Wire {
  surface: Points;
  path: Points;
  convergence: Points;
  decomposition: string | null;
  unit: string | null;
}

/** The surface; on it, in shares of the two axes, the training's path (`way`) and the point of convergence (`end`). */
interface Picture {
  z: Matrix;
  x: [number, number];
  y: [number, number];
  way: Spot[];
  end: Spot[];
  about: string;
}

function Landscape({ job, place, row }: { job: TabProps["job"]; place: Place; row: PayloadRow }) {
  const loaded = useLoaded(JSON.stringify([job, place, row.step, row.device]), async (signal) =>
    pictureOf(await payload<Wire>(job, place, row, {}, signal)),
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
      <Show of={loaded.value}>{(found) => <Drawing of={found} surface={surface} title={place.tag} />}</Show>
    </>
  );
}

function pictureOf({ surface, path, convergence, decomposition, unit }: Wire): Picture {
  const [x, y] = [surface.x, surface.y].map((values) => extent(flat(values)) ?? [0, 1]) as [Ends, Ends];
  const spots = (points: Points | null): Spot[] => {
    if (!points) return [];
    const [xs, ys, zs] = [points.x, points.y, points.z].map(flat) as [number[], number[], number[]];
    return xs.map((each, n) => ({ x: share(each, x), y: share(ys[n]!, y), z: zs[n]! }));
  };
  return {
    z: matrixOf(surface),
    x,
    y,
    way: spots(path),
    end: spots(convergence),
    about: [decomposition && `axes by ${decomposition}`, unit && `a point each ${unit}`]
      .filter(Boolean)
      .join(", "),
  };
}

type Ends = [number, number];
const share = (value: number, [low, high]: Ends) => (value - low) / (high - low || 1);
const flat = (values: Values | Values[]): number[] => (values as Values[]).flat().map(numeric);

function matrixOf({ x, z }: Points): Matrix {
  if (Array.isArray(z[0])) return (z as Values[]).map((row) => row.map(numeric));
  const width = x.length || Math.round(Math.sqrt(z.length));
  return Array.from({ length: Math.floor(z.length / width) }, (_, n) =>
    (z as Values).slice(n * width, (n + 1) * width).map(numeric),
  );
}

function Drawing({ of, surface, title }: { of: Picture; surface: boolean; title: string }) {
  const turn = useSignal(0.6);
  const { z, way, end, about } = of;
  const ends = useMemo(() => extent(z.flat()), [z]);
  const [low, high] = ends ?? [0, 0];
  const paint = useCallback<Paint>(
    (context, size) => {
      if (!ends) return;
      if (surface) paintSurface(context, size, of, ends, turn.value);
      else paintContours(context, size, of, ends);
    },
    [of, surface, turn.value, dark.value],
  );
  return (
    <figure>
      <Canvas
        label={`${title}: loss from ${number(low)} to ${number(high)}`}
        widest={WIDEST}
        height={(width) => width - LEFT + BOTTOM / 2}
        paint={paint}
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
        {ends ? `loss from ${number(low)} (blue) to ${number(high)} (yellow)` : "no finite loss"}, {z.length}{" "}
        × {z[0]?.length ?? 0} points{about && `, ${about}`}
        <br />
        {way.length > 0 &&
          `The line is the way of the training, ${counted(way.length, "point")} from ○ (loss ${number(way[0]!.z)}) to ● (loss ${number(way.at(-1)!.z)}). `}
        {end.length > 0 && `× is where it converged, at loss ${number(end[0]!.z)}.`}
      </figcaption>
    </figure>
  );
}

const ink = () => (dark.value ? "#e8ebf0" : "#16191f");

function paintContours(
  context: CanvasRenderingContext2D,
  size: number,
  of: Picture,
  [low, high]: Ends,
): void {
  const room = size - LEFT - BOTTOM;
  const at = (x: number, y: number): [number, number] => [LEFT + x * room, (1 - y) * room + BOTTOM / 2];
  const [rows, columns] = [Math.max(1, of.z.length - 1), Math.max(1, (of.z[0]?.length ?? 1) - 1)];
  context.lineWidth = 1.5;
  for (const { level, x1, y1, x2, y2 } of contours(of.z, levelsOf(of.z))) {
    context.strokeStyle = ramp(share(level, [low, high]));
    context.beginPath();
    context.moveTo(...at(x1 / columns, y1 / rows));
    context.lineTo(...at(x2 / columns, y2 / rows));
    context.stroke();
  }
  context.fillStyle = dark.value ? "#a2acba" : "#59636f";
  context.textAlign = "center";
  for (const { value, text } of labelled(ticksBetween(...of.x)))
    context.fillText(text, at(share(value, of.x), 0)[0], at(0, 0)[1] + 16, room / 6);
  context.textAlign = "right";
  for (const { value, text } of labelled(ticksBetween(...of.y)))
    context.fillText(text, LEFT - 6, at(0, share(value, of.y))[1] + 4, LEFT - 8);
  context.beginPath();
  context.rect(...at(0, 1), room, room);
  context.strokeStyle = context.fillStyle;
  context.lineWidth = 1;
  context.stroke();
  context.clip();
  paintWay(context, of, ({ x, y }) => at(x, y));
}

/** Draw the training's path, from a ring to a dot, and a cross at the point of convergence. */
function paintWay(
  context: CanvasRenderingContext2D,
  { way, end }: Picture,
  at: (spot: Spot) => [number, number],
): void {
  context.strokeStyle = ink();
  context.fillStyle = ink();
  context.lineWidth = 1.5;
  context.beginPath();
  for (const spot of way) context.lineTo(...at(spot));
  context.stroke();
  way.forEach((spot, n) => {
    const isEnd = n === 0 || n === way.length - 1;
    context.beginPath();
    context.arc(...at(spot), isEnd ? 5 : 2, 0, 2 * Math.PI);
    if (n) context.fill();
    else context.stroke();
  });
  for (const spot of end) {
    const [x, y] = at(spot);
    context.beginPath();
    context.moveTo(x - 5, y - 5);
    context.lineTo(x + 5, y + 5);
    context.moveTo(x - 5, y + 5);
    context.lineTo(x + 5, y - 5);
    context.stroke();
  }
}

function paintSurface(
  context: CanvasRenderingContext2D,
  size: number,
  of: Picture,
  ends: Ends,
  turn: number,
): void {
  const { z } = of;
  const [rows, columns] = [z.length, z[0]?.length ?? 0];
  const place = (x: number, y: number, loss: number) => {
    const height = share(loss, ends) - 0.5;
    return { height, ...seen(2 * x - 1, 2 * y - 1, height, turn, 0.6) };
  };
  const point = (row: number, column: number) =>
    place(column / (columns - 1), row / (rows - 1), z[row]![column]!);
  const at = ({ x, y }: { x: number; y: number }): [number, number] => [
    size / 2 + (x * size) / 3,
    size * 0.45 + (y * size) / 3,
  ];
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
    for (const corner of corners) context.lineTo(...at(corner));
    context.closePath();
    context.fillStyle = ramp(corners.reduce((sum, { height }) => sum + height + 0.5, 0) / 4);
    context.fill();
    context.strokeStyle = dark.value ? "#15181d55" : "#ffffff88";
    context.stroke();
  }
  paintWay(context, of, ({ x, y, z: loss }) => at(place(x, y, loss)));
}
