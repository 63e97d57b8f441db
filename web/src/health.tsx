// Health: base dirs with their lag, who leads them, and what is not well, each with what to do.

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

export interface Health {
  findings: Finding[];
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
        {({ findings, base_dirs, standby }) => (
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
              base_dirs.map((row) => <BaseDir key={String(row.base_dir ?? row.path)} row={row} />)
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

function BaseDir({ row }: { row: Record<string, unknown> }) {
  const facts = Object.entries(row).filter(([, value]) => value !== null && value !== "");
  return (
    <details open>
      <summary class="mono">{String(row.base_dir ?? row.path)}</summary>
      <Facts facts={facts} />
    </details>
  );
}

/** Names and values, each written as its unit has it. */
export function Facts({ facts }: { facts: readonly [string, unknown][] }) {
  return (
    <table class="facts">
      <tbody>
        {facts.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{titleOf(name)}</th>
            <td>{fact(name, value)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function fact(name: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (/(^|_)bytes$/.test(name) && typeof value === "number") return bytes(value);
  if (/_(s|seconds)$/.test(name) && typeof value === "number") return duration(value);
  if (/_(at|time)$/.test(name)) return time(value as string | number);
  return typeof value === "number"
    ? number(value)
    : typeof value === "string"
      ? value
      : JSON.stringify(value);
}

/** A column's name without the unit that its value is written with. */
export function titleOf(name: string): string {
  return name.replace(/_(s|at|seconds)$/, "").replaceAll("_", " ");
}
