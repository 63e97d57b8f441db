// The view Jobs: a condition, parallel coordinates, a table, groups, a scatter plot and correlations with a metric.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { idText, type JobId, type Names } from "../api";
import { get } from "../client";
import { type Columns, sorted, within } from "../columns";
import { number, time } from "../format";
import { revision } from "../live";
import { useKeys } from "../parts/keys";
import { Trouble, useLoaded } from "../parts/loaded";
import { Table, type TableColumn } from "../parts/table";
import { go, href, joined, list, parameter, set } from "../state";
import { Label, Refused, Remark } from "./annotation";
import { axisOf } from "./axes";
import { ConditionBar } from "./conditionBar";
import { Empty } from "./empty";
import { Groups, Ranking, Scatter } from "./insights";
import { useJobs } from "./loaded";
import { Parallel } from "./parallel";
import { Tools } from "./tools";
import * as view from "./view";
import { numberAt, word } from "./view";

/** Names are fetched again after this many changes only, because new names are rare. */
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
  const fields = names.value.value ? view.neededFields(known) : null;
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
  const brushes = view.brushes(columns);
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
    () => wanted.flatMap((name) => axisOf(columns, name, view.titleOf(name)) ?? []),
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
          onBrush={(next) => set({ brush: view.brushText(columns, next) })}
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
      {parameter("ranking") && (
        <Ranking
          columns={columns}
          rows={rows}
          target={parameter("ranking")}
          among={view.hyperParameters(names)}
        />
      )}
      {list("scatter").length === 2 && (
        <Scatter
          columns={columns}
          rows={rows}
          x={list("scatter")[0]!}
          y={list("scatter")[1]!}
          onOpen={open}
        />
      )}
      <Refused />
      <JobTable {...{ columns, names, rows, keys, idOf, open, choose, hovered }} selected={selected.value} />
    </>
  );
}

interface Annotation {
  remark?: string | undefined;
  label?: number | undefined;
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
  const current = useSignal<{ place: number; id: string } | null>(null);
  const editing = useSignal<string | null>(null);
  const still = useRef(loaded); // rows do not move while a remark is being edited
  if (editing.value === null) still.current = loaded;
  const { columns, rows } = still.current;
  // Annotations made here, until the next answer of the server, which may have newer ones.
  const written = useSignal<ReadonlyMap<string, Annotation>>(new Map());
  useLayoutEffect(() => {
    written.value = new Map();
  }, [columns]);
  const whereNow = () => placeNow(current.value, rows, (row) => idText(idOf(row)));
  const at = useMemo(whereNow, [current.value, rows]);
  const shown: TableColumn[] = [
    { name: "select", title: "", width: 30, hint: "Select" },
    { name: "train_id", title: "job", width: 220 },
    ...view.shownColumns(columns, names).map((name) => columnOf(columns, name)),
  ];
  useKeys((event) => {
    const place = whereNow(); // keys may be pressed faster than the table is redrawn
    const row = place === null ? null : rows[place]!;
    if (event.key === "j" || event.key === "k") {
      const next = (place ?? -1) + (event.key === "j" ? 1 : -1);
      const to = Math.max(0, Math.min(rows.length - 1, next));
      const found = rows[to];
      if (found === undefined) return;
      current.value = { place: to, id: idText(idOf(found)) };
      hovered.value = found;
    } else if (event.key === "x" && row !== null) choose(idText(idOf(row)));
    else if (event.key === "Enter" && row !== null && !isPressed(event.target)) open(row);
    else if (event.key === "e" && row !== null) {
      event.preventDefault();
      editing.value = idText(idOf(row));
    } else if (event.key === "c") document.querySelector<HTMLAnchorElement>("#compare")?.click();
    else if (event.key === "Escape") set({ brush: null });
  });
  const note = (id: string, what: Annotation) => {
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
          {job.name || word(columns, "train_id", row)}
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
      return <Label job={job} value={label} onEdit={(next) => note(id, { label: next })} />;
    }
    const text = shownAt(columns, name, row);
    return <span title={text}>{text}</span>;
  };
  return (
    <Table
      label="Jobs"
      columns={shown}
      rows={rows.length}
      cell={cell}
      keyOf={(place) => idText(idOf(rows[place]!))}
      sort={keys}
      onSort={(name, also) =>
        name !== "select" && set({ sort: view.sortText(view.resorted(keys, name, also)) })
      }
      pinned={innerWidth > 700 ? 2 + view.pinnedOf(view.shownColumns(columns, names)).length : 0}
      current={at}
      selected={(place) => selected.has(idText(idOf(rows[place]!)))}
      onOpen={(place) => open(rows[place]!)}
    />
  );
}

/** The current place of the job chosen by keys, which moves as other jobs come and go. */
function placeNow(
  current: { place: number; id: string } | null,
  rows: Int32Array,
  idAt: (row: number) => string,
): number | null {
  if (!current) return null;
  if (current.place < rows.length && idAt(rows[current.place]!) === current.id) return current.place;
  const place = rows.findIndex((row) => idAt(row) === current.id);
  return place < 0 ? null : place;
}

/** Whether Enter activates the focused element. */
function isPressed(target: EventTarget | null): boolean {
  return target instanceof Element && target.matches("a, button, summary");
}

function columnOf(columns: Columns, name: string): TableColumn {
  const right = columns.byName.get(name)?.kind === "number" && !["label", "remark"].includes(name);
  const widths: Record<string, number> = {
    state: 84,
    updated_at: 150,
    label: 70,
    remark: 200,
    base_dir: 200,
  };
  return {
    name,
    title: view.titleOf(name),
    width: widths[name] ?? Math.max(110, 30 + 8 * view.titleOf(name).length),
    right,
    hint: name,
  };
}

function shownAt(columns: Columns, name: string, row: number): string {
  if (name === "updated_at") return time(word(columns, name, row));
  return columns.byName.get(name)?.kind === "number"
    ? number(numberAt(columns, name, row))
    : word(columns, name, row);
}
