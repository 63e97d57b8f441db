// Jobs: a condition, parallel coordinates, a table; groups, a scatter plot and what goes with a metric.

import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { idText, type JobId, type Names } from "../api";
import { get, url } from "../client";
import { type Columns, sorted, within, wordOf } from "../columns";
import { counted, number, time } from "../format";
import { revision } from "../live";
import { Trouble, useLoaded } from "../parts/loaded";
import { Table, type TableColumn } from "../parts/table";
import { go, href, joined, list, parameter, set } from "../state";
import { Label, Remark } from "./annotation";
import { axisOf } from "./axes";
import { Choices } from "./choices";
import { everyName, terms } from "./condition";
import { ConditionBar } from "./conditionBar";
import { Empty } from "./empty";
import { Groups, Ranking, Scatter } from "./insights";
import { useJobs } from "./loaded";
import { Parallel } from "./parallel";
import { Ranges } from "./ranges";
import * as view from "./view";

/** New names are rare: so often changes are told before they are asked for again. */
const NAMES_AFTER = 20;
const NO_NAMES: Names = { fields: [], metric: [], metric_best: [], metric_first: [], user_defined: [] };

export function JobsPage() {
  const names = useLoaded(
    "names",
    (signal) => get<Names>("names", {}, signal),
    Math.floor(revision.value / NAMES_AFTER),
  );
  const known = names.value.value ?? NO_NAMES;
  const where = parameter("where");
  const fields = names.value.value
    ? [
        ...new Set([
          ...view.chosenColumns(known),
          ...view.wantedAxes(known),
          view.grouping(),
          ...list("scatter"),
        ]),
      ].filter((name) => name && !view.OF_EVERY_JOB.includes(name))
    : null;
  const loaded = useJobs(where, fields);
  const problem = loaded.value.problem ?? names.value.problem;
  const columns = loaded.value.value;
  return (
    <main class="fill">
      <h1 class="hidden">Jobs</h1>
      <ConditionBar
        value={where}
        names={known}
        problem={problem && !problem.passes ? problem : null}
        onChange={(text) => set({ where: text, brush: null }, true)}
      />
      {problem?.passes && <Trouble problem={problem} stale={columns !== null} />}
      {columns ? (
        <Jobs columns={columns} names={known} where={where} />
      ) : (
        !problem && <p class="empty">Loading …</p>
      )}
    </main>
  );
}

function Jobs({ columns, names, where }: { columns: Columns; names: Names; where: string }) {
  const brushes = view.brushes();
  const brushText = parameter("brush");
  const sortText = parameter("sort");
  const keys = view.sortKeys();
  const everything = useMemo(() => Int32Array.from({ length: columns.count }, (_, n) => n), [columns]);
  const picked = useMemo(
    () => (brushes.length ? within(columns, brushes) : everything),
    [columns, brushText],
  );
  const rows = useMemo(() => sorted(columns, picked, keys), [picked, sortText]);
  const wanted = view.axesOf(columns, view.wantedAxes(names));
  const axisNames = wanted.join("\n");
  const axes = useMemo(
    () =>
      wanted.flatMap((name) => axisOf(columns, name, view.titleOf(name), (value) => number(value, 3)) ?? []),
    [columns, axisNames],
  );
  const hovered = useSignal<number | null>(null);
  const selected = useSignal<ReadonlySet<string>>(new Set(list("select")));
  const colour = parameter("colour") || wanted.at(-1) || "";
  const idOf = (row: number): JobId => ({
    base: word(columns, "base", row),
    name: word(columns, "train_id", row).replace(/^\.\//, ""),
  });
  const open = (row: number) => go(href(["job", idOf(row).base, idOf(row).name]));
  const choose = (id: string) => {
    const next = new Set(selected.value);
    if (!next.delete(id)) next.add(id);
    selected.value = next;
    set({ select: joined([...next]) });
  };
  if (!columns.count) return <Empty where={where} />;
  return (
    <>
      <Tools columns={columns} names={names} rows={rows} where={where} selected={selected.value} />
      {axes.length > 1 && (
        <Parallel
          axes={axes}
          jobs={everything}
          picked={picked}
          brushes={brushes}
          pick={(next) => (next.length ? within(columns, next) : everything)}
          colour={colour}
          hovered={hovered.value}
          nameOf={(row) => idOf(row).name}
          onBrush={(next) => set({ brush: view.brushText(next) })}
          onMove={(name, to) => {
            const others = wanted.filter((each) => each !== name);
            set({ axes: joined([...others.slice(0, to), name, ...others.slice(to)]) });
          }}
          onColour={(name) => set({ colour: name })}
          onHover={(row) => (hovered.value = row)}
          onOpen={open}
        />
      )}
      {view.grouping() && <Groups columns={columns} rows={rows} by={view.grouping()} of={colour} />}
      {parameter("ranking") && <Ranking columns={columns} rows={rows} target={parameter("ranking")} />}
      {list("scatter").length === 2 && (
        <Scatter
          columns={columns}
          rows={rows}
          x={list("scatter")[0]!}
          y={list("scatter")[1]!}
          onOpen={open}
        />
      )}
      <JobTable {...{ columns, names, rows, keys, idOf, open, choose, hovered }} selected={selected.value} />
    </>
  );
}

function Tools({
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
  const numeric = axes.filter((name) => columns.byName.get(name)?.kind === "number");
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
        onReset={() => set({ cols: null })}
      />
      <Choices
        label="Axes"
        all={all}
        chosen={axes}
        onChange={(next) => set({ axes: joined(next) })}
        onReset={() => set({ axes: null })}
      />
      <Ranges columns={columns} axes={axes} brushes={view.brushes()} />
      <Pick label="Group by" value={view.grouping()} all={all} onChange={(name) => set({ group: name })} />
      <Pick
        label="What goes with"
        value={parameter("ranking")}
        all={numeric}
        onChange={(name) => set({ ranking: name })}
      />
      <Pick
        label="Scatter x"
        value={list("scatter")[0] ?? ""}
        all={numeric}
        onChange={(name) =>
          set({ scatter: name ? joined([name, list("scatter")[1] ?? numeric.at(-1) ?? name]) : null })
        }
      />
      {list("scatter").length === 2 && (
        <Pick
          label="y"
          value={list("scatter")[1]!}
          all={numeric}
          onChange={(name) => set({ scatter: name ? joined([list("scatter")[0]!, name]) : null })}
        />
      )}
      {parameter("brush") && (
        <button type="button" onClick={() => set({ brush: null })}>
          Clear brushes
        </button>
      )}
      <button type="button" onClick={() => download(columns, rows, ["train_id", ...chosen])}>
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

interface TableProps {
  columns: Columns;
  names: Names;
  rows: Int32Array;
  keys: ReturnType<typeof view.sortKeys>;
  idOf: (row: number) => JobId;
  open: (row: number) => void;
  choose: (id: string) => void;
  selected: ReadonlySet<string>;
  hovered: { value: number | null };
}

function JobTable({ names, keys, idOf, open, choose, selected, hovered, ...loaded }: TableProps) {
  const at = useSignal<number | null>(null);
  const editing = useSignal<string | null>(null);
  const still = useRef(loaded); // while a remark is written, no row moves away under the hands
  if (editing.value === null) still.current = loaded;
  const { columns, rows } = still.current;
  const written = useSignal<ReadonlyMap<string, { remark?: string; label?: number }>>(new Map());
  const shown = useComputed<TableColumn[]>(() => [
    { name: "select", title: "", width: 30, hint: "Select" },
    { name: "train_id", title: "job", width: 220 },
    ...view.chosenColumns(names).map((name) => columnOf(columns, name)),
    ...(view.chosenColumns(names).includes("label") ? [] : [columnOf(columns, "label")]),
    ...(view.chosenColumns(names).includes("remark") ? [] : [columnOf(columns, "remark")]),
  ]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.target as Element).matches("input, textarea, select") || event.ctrlKey || event.metaKey)
        return;
      const row = at.value === null ? null : rows[at.value];
      if (event.key === "j" || event.key === "k") {
        const next = (at.value ?? -1) + (event.key === "j" ? 1 : -1);
        at.value = Math.max(0, Math.min(rows.length - 1, next));
        hovered.value = rows[at.value] ?? null;
      } else if (event.key === "x" && row !== null && row !== undefined) choose(idText(idOf(row)));
      else if (event.key === "Enter" && row !== null && row !== undefined && event.target === document.body)
        open(row);
      else if (event.key === "e" && row !== null) {
        event.preventDefault();
        editing.value = idText(idOf(row!));
      } else if (event.key === "c") document.querySelector<HTMLAnchorElement>("#compare")?.click();
      else if (event.key === "Escape") set({ brush: null });
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [rows, choose]);
  const note = (id: string, what: { remark?: string; label?: number }) => {
    written.value = new Map(written.value).set(id, { ...written.value.get(id), ...what });
  };
  const cell = (place: number, name: string) => {
    const row = rows[place]!;
    const job = idOf(row);
    const id = idText(job);
    if (name === "select")
      return (
        <input
          type="checkbox"
          aria-label={`Select ${job.name}`}
          checked={selected.has(id)}
          onChange={() => choose(id)}
        />
      );
    if (name === "train_id") {
      return (
        <a href={href(["job", job.base, job.name])} title={job.name}>
          {job.name}
        </a>
      );
    }
    const kept = written.value.get(id);
    if (name === "remark") {
      const done = (remark: string) => {
        note(id, { remark });
        editing.value = null;
      };
      return (
        <Remark
          job={job}
          value={kept?.remark ?? word(columns, "remark", row)}
          editing={editing.value === id}
          onEdit={() => {
            editing.value = id;
          }}
          onDone={done}
        />
      );
    }
    if (name === "label") {
      const label = kept?.label ?? numberAt(columns, "label", row);
      return <Label job={job} value={label} onDone={(next) => note(id, { label: next })} />;
    }
    const text = shownAt(columns, name, row);
    return <span title={text}>{text}</span>;
  };
  return (
    <Table
      label="Jobs"
      columns={shown.value}
      rows={rows.length}
      cell={cell}
      keyOf={(place) => idText(idOf(rows[place]!))}
      sort={keys}
      onSort={(name, also) =>
        name !== "select" && set({ sort: view.sortText(view.resorted(keys, name, also)) })
      }
      pinned={innerWidth > 700 ? 2 : 0}
      current={at.value}
      selected={(place) => selected.has(idText(idOf(rows[place]!)))}
      onOpen={(place) => open(rows[place]!)}
    />
  );
}

function columnOf(columns: Columns, name: string): TableColumn {
  const right = columns.byName.get(name)?.kind === "number" && name !== "label";
  const widths: Record<string, number> = { state: 84, updated_at: 150, label: 70, remark: 200 };
  return {
    name,
    title: view.titleOf(name),
    width: widths[name] ?? Math.max(110, 30 + 8 * view.titleOf(name).length),
    right,
    hint: name,
  };
}

function word(columns: Columns, name: string, row: number): string {
  const column = columns.byName.get(name);
  return (column?.kind === "word" ? wordOf(column, row) : null) ?? "";
}

function numberAt(columns: Columns, name: string, row: number): number | null {
  const column = columns.byName.get(name);
  const value = column?.kind === "number" ? column.values[row]! : Number.NaN;
  return Number.isNaN(value) ? null : value;
}

function shownAt(columns: Columns, name: string, row: number): string {
  if (name === "updated_at") return time(word(columns, name, row));
  return columns.byName.get(name)?.kind === "number"
    ? number(numberAt(columns, name, row))
    : word(columns, name, row);
}

/** A file for spreadsheets: what they would take for a formula stands behind a quote. */
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
