// The tools above the plots: the choice of columns and axes, grouping, ranking, and the download of the jobs.

import type { Names } from "../api";
import { url } from "../client";
import type { Columns } from "../columns";
import { counted, number } from "../format";
import { href, joined, list, parameter, set } from "../state";
import { Choices } from "./choices";
import { everyName, terms } from "./condition";
import { Ranges } from "./ranges";
import * as view from "./view";
import { numberAt, word } from "./view";

export function Tools({
  columns,
  names,
  rows,
  where,
  selected,
}: {
  columns: Columns;
  names: Names;
  rows: Int32Array;
  where: string;
  selected: ReadonlySet<string>;
}) {
  const all = [...new Set([...view.OF_EVERY_JOB.slice(1), ...everyName(names).map((each) => each.name)])];
  const chosen = view.chosenColumns(names);
  const axes = view.axesOf(columns, view.wantedAxes(names));
  const metrics = all.filter((name) => name === "loss" || name.startsWith("metric"));
  const [across, up] = list("scatter");
  const total =
    rows.length === columns.count
      ? counted(columns.count, "job")
      : `${number(rows.length)} of ${counted(columns.count, "job")}`;
  const compared = selected.size ? { jobs: joined([...selected]) } : where ? { where } : null;
  return (
    <div class="bar" role="toolbar" aria-label="View">
      <b role="status">{total}</b>
      {selected.size > 0 && <span class="quiet">{selected.size} selected</span>}
      {compared && (
        <a href={href(["compare"], compared)} id="compare">
          Compare {selected.size ? counted(selected.size, "job") : "these"}
        </a>
      )}
      <Choices
        label="Columns"
        all={all}
        chosen={chosen}
        onChange={(next) => set({ cols: joined(next) })}
        onReset={() => set({ cols: null, pin: null })}
        pinned={view.pinnedOf(chosen)}
        onPin={(next) => set({ pin: joined(next) })}
      />
      <Choices
        label="Axes"
        all={all}
        chosen={axes}
        onChange={(next) => set({ axes: joined(next) })}
        onReset={() => set({ axes: null })}
      />
      <Ranges columns={columns} axes={axes} brushes={view.brushes(columns)} />
      <Pick label="Group by" value={view.grouping()} all={all} onChange={(name) => set({ group: name })} />
      <Pick
        label="What goes with"
        value={parameter("ranking")}
        all={metrics}
        onChange={(name) => set({ ranking: name })}
      />
      <Pick
        label="Scatter x"
        value={across ?? ""}
        all={all}
        onChange={(name) => set({ scatter: name ? joined([name, up ?? axes.at(-1) ?? name]) : null })}
      />
      {across && up && (
        <Pick
          label="y"
          value={up}
          all={all}
          onChange={(name) => set({ scatter: name ? joined([across, name]) : null })}
        />
      )}
      {parameter("brush") && (
        <button type="button" onClick={() => set({ brush: null })}>
          Clear brushes
        </button>
      )}
      <button
        type="button"
        onClick={() => download(columns, rows, ["train_id", ...view.shownColumns(columns, names)])}
      >
        CSV
      </button>
      <a href={url("jobs", { where: terms(where) }).href} target="_blank" rel="noreferrer">
        JSON
      </a>
    </div>
  );
}

function Pick({
  label,
  value,
  all,
  onChange,
}: {
  label: string;
  value: string;
  all: readonly string[];
  onChange: (name: string | null) => void;
}) {
  return (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => onChange(event.currentTarget.value || null)}>
        <option value="">–</option>
        {all.map((name) => (
          <option key={name} value={name}>
            {view.titleOf(name)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Download the rows as CSV, with a quote before texts that a spreadsheet would run as a formula. */
function download(columns: Columns, rows: Int32Array, names: readonly string[]): void {
  const cellOf = (text: string) => {
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const exact = (name: string, row: number) =>
    String(numberAt(columns, name, row) ?? word(columns, name, row));
  const lines = [names, ...Array.from(rows, (row) => names.map((name) => exact(name, row)))];
  const file = new Blob([lines.map((line) => line.map(cellOf).join(",")).join("\r\n")], { type: "text/csv" });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(file);
  link.download = "jobs.csv";
  link.click();
  URL.revokeObjectURL(link.href);
}
