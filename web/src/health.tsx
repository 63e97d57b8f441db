// The view Health: base dirs with their lag and leader, and the findings with their remedies.

import { get } from "./client";
import { ago, bytes, duration, lag, number, type Standby, time } from "./format";
import { revision } from "./live";
import { Show, useLoaded } from "./parts/loaded";

export interface Finding {
  kind: string;
  title: string;
  severity: string;
  subject: string;
  what: string;
  remedy: string;
  docs: string;
  since: string | null;
}

export interface Backlog {
  base_dir: string;
  files: number;
  bytes: number;
  bytes_per_s: number | null;
  left_s: number | null;
}

export interface Health {
  findings: Finding[];
  backlogs: Backlog[];
  base_dirs: Record<string, unknown>[];
  standby: Standby | null;
}

const TONES: Record<string, string> = { standstill: "bad", "some files": "bad", note: "quiet" };

export function HealthPage() {
  const health = useLoaded("health", (signal) => get<Health>("health", {}, signal), revision.value);
  return (
    <main>
      <h1>Health</h1>
      <Show of={health.value}>
        {({ findings, backlogs, base_dirs, standby }) => (
          <>
            <Findings findings={findings} none="All is well." />
            {standby && (
              <>
                <h2>The standby that answers</h2>
                <p>{lag(standby)}</p>
              </>
            )}
            <h2>Base dirs</h2>
            {base_dirs.length ? (
              base_dirs.map((row) => {
                const path = String(row.base_dir ?? row.path);
                const backlog = backlogs.find((each) => each.base_dir === path);
                return <BaseDir key={path} row={row} backlog={backlog} />;
              })
            ) : (
              <p class="quiet">The store follows no base dir yet: lineage-store daemon BASE_DIR</p>
            )}
          </>
        )}
      </Show>
    </main>
  );
}

export function Findings({ findings, none }: { findings: readonly Finding[]; none: string }) {
  if (!findings.length) return <p class="good">{none}</p>;
  return (
    <ul style={{ padding: 0, listStyle: "none" }}>
      {findings.map((each) => (
        <li class="notice" key={`${each.kind} ${each.subject}`} style={{ margin: "6px 0" }}>
          <b class={TONES[each.severity] ?? "warn"}>{each.title}</b> <span class="mono">{each.subject}</span>
          <div>{each.what}</div>
          {each.remedy && <div class="quiet">{each.remedy}</div>}
          {each.since && <small title={time(each.since)}>since {ago(each.since)}</small>}
        </li>
      ))}
    </ul>
  );
}

function BaseDir({ row, backlog }: { row: Record<string, unknown>; backlog: Backlog | undefined }) {
  const facts = Object.entries(row).filter(([, value]) => value !== null && value !== "");
  return (
    <details open>
      <summary class="mono">{String(row.base_dir ?? row.path)}</summary>
      {backlog && <Waiting backlog={backlog} whole={Number(row.log_bytes)} />}
      <Facts facts={facts} />
    </details>
  );
}

/** How much of a base dir is read, and how long the rest takes. */
function Waiting({ backlog, whole }: { backlog: Backlog; whole: number }) {
  const { files, bytes: left, bytes_per_s, left_s } = backlog;
  const pace =
    bytes_per_s !== null && left_s !== null
      ? `${bytes(bytes_per_s)}/s, about ${duration(left_s)} left`
      : "none was read lately";
  return (
    <p class="waiting">
      <progress value={Math.max(0, whole - left)} max={Math.max(1, whole)} aria-label="read" />{" "}
      <span>
        {number(files)} log files ({bytes(left)}) wait to be read: {pace}
      </span>
    </p>
  );
}

const NONE = "–";
/** Digits of users' numbers: they may have been written as 32-bit floats, which have no more. */
const MOST_DIGITS = 7;

/** A table of names and values; values of the store get units by their names, values of users (`verbatim`) do not. */
export function Facts({
  facts,
  verbatim = false,
}: {
  facts: readonly [string, unknown][];
  verbatim?: boolean;
}) {
  return (
    <table class="facts">
      <tbody>
        {facts.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{verbatim ? name : titleOf(name)}</th>
            <td>{verbatim ? plain(value, MOST_DIGITS) : fact(name, value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The text of a value in one of the store's columns, whose name implies the unit. */
export function fact(name: string, value: unknown): string {
  if (typeof value === "number" && /(^|_)bytes$/.test(name)) return bytes(value);
  if (typeof value === "number" && /_(s|seconds)$/.test(name)) return duration(value);
  if (/_(at|time)$/.test(name)) return time(value as string | number) || NONE;
  return plain(value);
}

function plain(value: unknown, digits = 4): string {
  if (value === null || value === undefined || value === "") return NONE;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return number(value, digits);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A column's name without the suffix for its unit. */
export function titleOf(name: string): string {
  return name.replace(/_(s|at|seconds)$/, "").replaceAll("_", " ");
}
