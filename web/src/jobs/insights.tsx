// Groups of jobs, a scatter plot of two fields, and the correlation of hyper-parameters with a metric.

import { useCallback, useMemo, useRef } from "preact/hooks";
import { asNumbers, type Columns, grouped } from "../columns";
import { counted, number } from "../format";
import { Canvas, type Paint } from "../parts/canvas";
import { dark } from "../parts/theme";
import { extent } from "../scales";
import { set } from "../state";
import { FEWEST_JOBS, rankCorrelation } from "../statistics";
import { scaleOf, short, ticksOf } from "./axes";
import { titleOf } from "./view";

const MOST_GROUPS = 100;

export function Groups({
  columns,
  rows,
  by,
  of,
}: {
  columns: Columns;
  rows: Int32Array;
  by: string;
  of: string;
}) {
  const column = columns.byName.get(of);
  const values = column?.kind === "number" ? column.values : null;
  const all = grouped(columns, rows, by, number);
  const groups = all.slice(0, MOST_GROUPS);
  return (
    <section
      aria-label={`Groups by ${titleOf(by)}`}
      style={{ maxHeight: "200px", overflow: "auto", flex: "none" }}
    >
      <table>
        <thead>
          <tr>
            <th>{titleOf(by)}</th>
            <th>jobs</th>
            {values &&
              ["least", "mean", "greatest"].map((word) => <th key={word}>{`${word} ${titleOf(of)}`}</th>)}
          </tr>
        </thead>
        <tbody>
          {groups.map(({ word, rows: mine }) => {
            const found = values ? mine.map((row) => values[row]!).filter(Number.isFinite) : [];
            const mean = found.reduce((sum, value) => sum + value, 0) / found.length;
            const [least, greatest] = extent(found) ?? [0, 0];
            return (
              <tr key={word}>
                <td>{word || <span class="quiet">none</span>}</td>
                <td>{number(mine.length)}</td>
                {values &&
                  [least, mean, greatest].map((value, n) => (
                    <td key={["least", "mean", "greatest"][n]}>{found.length ? number(value) : "–"}</td>
                  ))}
              </tr>
            );
          })}
        </tbody>
      </table>
      {all.length > MOST_GROUPS && <small>and {number(all.length - MOST_GROUPS)} smaller groups</small>}
    </section>
  );
}

export function Ranking({
  columns,
  rows,
  target,
  among,
}: {
  columns: Columns;
  rows: Int32Array;
  target: string;
  among: readonly string[];
}) {
  const pick = (name: string) => {
    const values = columns.byName.get(name);
    return values?.kind === "number" ? Float64Array.from(rows, (row) => values.values[row]!) : null;
  };
  const wanted = pick(target);
  const found = among.flatMap((name) => {
    const values = name === target ? null : pick(name);
    const correlation = values && wanted ? rankCorrelation(values, wanted) : null;
    return correlation ? [{ name, ...correlation }] : [];
  });
  found.sort((a, b) => Math.abs(b.rho) - Math.abs(a.rho));
  return (
    <section aria-label={`What goes with ${titleOf(target)}`} style={{ flex: "none" }}>
      {found.length ? (
        <table>
          <thead>
            <tr>
              <th>what goes with {titleOf(target)}</th>
              <th title="Spearman: −1 to 1">rank correlation</th>
              <th>jobs</th>
              <th>chance</th>
            </tr>
          </thead>
          <tbody>
            {found.slice(0, 8).map(({ name, rho, jobs, chance }) => (
              <tr key={name}>
                <td>{titleOf(name)}</td>
                <td>{number(rho, 2)}</td>
                <td>{number(jobs)}</td>
                <td class="quiet">
                  {chance > 0.05 ? "may be chance" : chance > 0.001 ? "hardly chance" : "no chance"}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="quiet">
          Fewer than {FEWEST_JOBS} jobs have {titleOf(target)} and a hyper-parameter that is a number and
          differs: too few to say what goes with it.
        </p>
      )}
    </section>
  );
}

const SIZE = { width: 520, height: 260, left: 100, right: 16, top: 10, bottom: 36 };

interface ScatterProps {
  columns: Columns;
  rows: Int32Array;
  x: string;
  y: string;
  onOpen: (row: number) => void;
}

export function Scatter({ columns, rows, x, y, onOpen }: ScatterProps) {
  const of = (name: string) => {
    const column = columns.byName.get(name) ?? { kind: "number", values: new Float64Array() };
    const all = asNumbers(column);
    const values = Float64Array.from(rows, (row) => all[row]!);
    const scale = scaleOf(column, values);
    return { values, scale, ticks: ticksOf(column, scale) };
  };
  const [across, up] = useMemo(() => [of(x), of(y)] as const, [columns, rows, x, y]);
  const width = useRef(0);
  const left = (place: number) => SIZE.left + place * (width.current - SIZE.left - SIZE.right);
  const top = (place: number) => SIZE.height - SIZE.bottom - place * (SIZE.height - SIZE.top - SIZE.bottom);
  const at = (n: number) =>
    [left(across.scale.at(across.values[n]!)), top(up.scale.at(up.values[n]!))] as const;
  const missing = rows.reduce((sum, _, n) => sum + Number(at(n).some(Number.isNaN)), 0);
  const paint = useCallback<Paint>(
    (context, wide) => {
      width.current = wide;
      context.fillStyle = dark.value ? "#7fb8f5" : "#0b5cad";
      context.globalAlpha = rows.length > 2000 ? 0.35 : 0.7;
      for (let n = 0; n < rows.length; n += 1) context.fillRect(at(n)[0] - 1.5, at(n)[1] - 1.5, 3, 3);
      context.globalAlpha = 1;
      context.fillStyle = dark.value ? "#a2acba" : "#59636f";
      context.textAlign = "center";
      let taken = -Infinity;
      for (const { place, text } of across.ticks) {
        const half = context.measureText(short(text)).width / 2;
        if (left(place) - half < taken) continue;
        context.fillText(short(text), left(place), SIZE.height - SIZE.bottom + 14);
        taken = left(place) + half + 8;
      }
      context.fillText(titleOf(x), (SIZE.left + wide) / 2, SIZE.height - 6);
      context.textAlign = "right";
      for (const { place, text } of up.ticks)
        context.fillText(short(text), SIZE.left - 6, top(place) + 4, SIZE.left - 8);
    },
    [across, up, dark.value],
  );
  const near = (event: MouseEvent) => {
    let [best, distance]: [number | null, number] = [null, 64];
    for (let n = 0; n < rows.length; n += 1) {
      const away = (at(n)[0] - event.offsetX) ** 2 + (at(n)[1] - event.offsetY) ** 2;
      if (away < distance) [best, distance] = [rows[n]!, away];
    }
    return best;
  };
  return (
    <figure style={{ flex: "none" }}>
      <figcaption>
        {titleOf(y)} over {titleOf(x)} of {counted(rows.length - missing, "job")}
        {missing > 0 && <small>, {number(missing)} lack one of the two</small>}{" "}
        <button type="button" onClick={() => set({ scatter: null })}>
          Close
        </button>
      </figcaption>
      <Canvas
        label={`${titleOf(y)} over ${titleOf(x)}; the table below has the same`}
        widest={SIZE.width}
        height={() => SIZE.height}
        paint={paint}
        onClick={(event) => {
          const row = near(event);
          if (row !== null) onOpen(row);
        }}
      />
    </figure>
  );
}
