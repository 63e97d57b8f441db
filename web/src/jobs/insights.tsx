// Groups of jobs, any two fields as a scatter plot, and which hyper-parameters go with a metric.

import { useEffect, useRef } from "preact/hooks";
import { asNumbers, type Columns, grouped } from "../columns";
import { counted, number } from "../format";
import { dark } from "../parts/theme";
import { extent, fitting } from "../scales";
import { set } from "../state";
import { FEWEST_JOBS, rankCorrelation } from "../statistics";
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

export function Ranking({ columns, rows, target }: { columns: Columns; rows: Int32Array; target: string }) {
  const pick = (name: string) => {
    const values = columns.byName.get(name);
    return values?.kind === "number" ? Float64Array.from(rows, (row) => values.values[row]!) : null;
  };
  const wanted = pick(target);
  const found = [...columns.byName.keys()].flatMap((name) => {
    const values = name === target || name === "label" ? null : pick(name);
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
          Fewer than {FEWEST_JOBS} jobs have {titleOf(target)} and another number that differs: too few to say
          what goes with it.
        </p>
      )}
    </section>
  );
}

const SIZE = { width: 520, height: 260, left: 60, right: 16, top: 10, bottom: 36 };

interface ScatterProps {
  columns: Columns;
  rows: Int32Array;
  x: string;
  y: string;
  onOpen: (row: number) => void;
}

export function Scatter({ columns, rows, x, y, onOpen }: ScatterProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [xs, ys] = [x, y].map((name) => {
    const column = columns.byName.get(name);
    return column ? asNumbers(column) : new Float64Array(columns.count).fill(Number.NaN);
  }) as [Float64Array, Float64Array];
  const of = (values: Float64Array) => fitting(Float64Array.from(rows, (row) => values[row]!));
  const [across, up] = [of(xs), of(ys)];
  const left = (value: number) => SIZE.left + across.at(value) * (SIZE.width - SIZE.left - SIZE.right);
  const top = (value: number) =>
    SIZE.height - SIZE.bottom - up.at(value) * (SIZE.height - SIZE.top - SIZE.bottom);
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    context.clearRect(0, 0, SIZE.width, SIZE.height);
    context.fillStyle = dark.value ? "#7fb8f5" : "#0b5cad";
    context.globalAlpha = rows.length > 2000 ? 0.35 : 0.7;
    for (const row of rows) context.fillRect(left(xs[row]!) - 1.5, top(ys[row]!) - 1.5, 3, 3);
    context.globalAlpha = 1;
    context.fillStyle = dark.value ? "#a2acba" : "#59636f";
    context.font = "11px system-ui";
    context.textAlign = "center";
    for (const tick of across.ticks)
      context.fillText(number(tick, 3), left(tick), SIZE.height - SIZE.bottom + 14);
    context.fillText(titleOf(x), SIZE.width / 2, SIZE.height - 6);
    context.textAlign = "right";
    for (const tick of up.ticks) context.fillText(number(tick, 3), SIZE.left - 6, top(tick) + 4);
  }, [columns, rows, x, y, dark.value]);
  const near = (event: MouseEvent) => {
    let [best, distance]: [number | null, number] = [null, 64];
    for (const row of rows) {
      const away = (left(xs[row]!) - event.offsetX) ** 2 + (top(ys[row]!) - event.offsetY) ** 2;
      if (away < distance) [best, distance] = [row, away];
    }
    return best;
  };
  return (
    <figure style={{ flex: "none" }}>
      <figcaption>
        {titleOf(y)} over {titleOf(x)} of {counted(rows.length, "job")}{" "}
        <button type="button" onClick={() => set({ scatter: null })}>
          Close
        </button>
      </figcaption>
      <canvas
        ref={canvas}
        width={SIZE.width}
        height={SIZE.height}
        role="img"
        aria-label={`${titleOf(y)} over ${titleOf(x)}; the table below has the same`}
        onClick={(event) => {
          const row = near(event);
          if (row !== null) onOpen(row);
        }}
      />
    </figure>
  );
}
