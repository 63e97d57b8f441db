// The view of one job, with tabs for its facts, curves, evaluations, pipeline, payloads and log files.

import type { ComponentType } from "preact";
import { useMemo } from "preact/hooks";
import { type JobId, type Tags, tagsOf } from "../api";
import { get, jobPath, shownName } from "../client";
import { ofJob } from "../colours";
import { Chart } from "../compare/chart";
import { Charts } from "../compare/charts";
import { evaluated } from "../compare/curve";
import { number } from "../format";
import { Facts, type Finding, Findings, fact, titleOf } from "../health";
import { changed } from "../live";
import { Show, useLoaded } from "../parts/loaded";
import { href, route } from "../state";
import { DatasetTab } from "./datasetTab";
import { GraphTab } from "./graphTab";
import { HistogramsTab } from "./histogramsTab";
import { ImagesTab } from "./imagesTab";
import { LandscapeTab } from "./landscapeTab";
import { TensorsTab } from "./tensorsTab";
import { known, measured } from "./values";

export interface TabProps {
  job: JobId;
  tags: Tags;
}

type Row = Record<string, unknown>;
interface Report {
  job: Row;
  metrics: Row[];
  user_info: Row[];
  problems: Finding[];
}

const TABS: { name: string; title: string; of?: string; show: ComponentType<TabProps> }[] = [
  { name: "overview", title: "Overview", show: Overview },
  { name: "curves", title: "Curves", of: "scalar", show: Curves },
  { name: "evaluations", title: "Evaluations", show: Evaluations },
  { name: "dataset", title: "Dataset", show: DatasetTab },
  { name: "images", title: "Images", of: "image", show: ImagesTab },
  { name: "histograms", title: "Histograms", of: "histogram", show: HistogramsTab },
  { name: "tensors", title: "Tensors", of: "tensor", show: TensorsTab },
  { name: "graph", title: "Graph", of: "graph", show: GraphTab },
  { name: "landscape", title: "Landscape", of: "landscape", show: LandscapeTab },
  { name: "files", title: "Files", show: Files },
];

export function JobPage() {
  const [, base = "", name = "", tab = "overview"] = route.value;
  const job = { base, name };
  const grown = changed.value.get(name) ?? 0;
  const tags = useLoaded(JSON.stringify(job), (signal) => tagsOf(job, signal), grown);
  const shown = TABS.find((each) => each.name === tab) ?? TABS[0]!;
  return (
    <main>
      <h1>{shownName(name)}</h1>
      <Show of={tags.value}>
        {(found) => (
          <>
            <nav class="tabs" aria-label="Parts of the job">
              {TABS.map(({ name: to, title, of }) => {
                const count = of ? (found.tags[of]?.length ?? 0) : null;
                if (count === 0 && to !== shown.name) return null;
                return (
                  <a
                    key={to}
                    href={href(["job", base, name, to])}
                    aria-current={to === shown.name ? "page" : undefined}
                  >
                    {title} {count !== null && <small>{number(count)}</small>}
                  </a>
                );
              })}
            </nav>
            <shown.show key={`${base}/${name}`} job={job} tags={found} />
          </>
        )}
      </Show>
    </main>
  );
}

function Overview({ job }: TabProps) {
  const grown = changed.value.get(job.name) ?? 0;
  const report = useLoaded(
    JSON.stringify(job),
    (signal) => get<Report>(jobPath(job.base, job.name), {}, signal),
    grown,
  );
  return (
    <Show of={report.value}>
      {(found) => {
        const train_id = `./${job.name}`;
        const base_dir = String(found.job.base_dir ?? "BASE_DIR");
        const facts = known(found.job).filter(([name]) => name !== "revision");
        return (
          <>
            {found.problems.length > 0 && <Findings findings={found.problems} none="" />}
            <div class="split">
              <section>
                <h2>Job</h2>
                <Facts facts={facts} />
              </section>
              <section>
                <h2>Metrics of the last evaluation</h2>
                {found.metrics.length ? (
                  <Facts
                    verbatim
                    facts={found.metrics.map((row) => [String(row.name), measured(row) ?? row.text])}
                  />
                ) : (
                  <p class="quiet">None was recorded.</p>
                )}
                <h2>User-defined</h2>
                {found.user_info.length ? (
                  <Facts
                    verbatim
                    facts={found.user_info.map((row) => [String(row.key), measured(row) ?? row.text])}
                  />
                ) : (
                  <p class="quiet">None was recorded.</p>
                )}
                <h2>In Python</h2>
                <pre tabIndex={0}>{python(base_dir, train_id)}</pre>
                <h2>In SQL</h2>
                <pre tabIndex={0}>{sql(base_dir, train_id)}</pre>
              </section>
            </div>
          </>
        );
      }}
    </Show>
  );
}

function python(base_dir: string, train_id: string): string {
  return `from lineage_store import LineageStore\n\nwith LineageStore() as store:\n    job = store.job((${JSON.stringify(base_dir)}, ${JSON.stringify(train_id)}))\n    job.lineage()\n    job.scalars("TAG")`;
}

function sql(base_dir: string, train_id: string): string {
  const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
  return `SELECT * FROM v_job\nWHERE base_dir = ${quoted(base_dir)} AND train_id = ${quoted(train_id)};`;
}

function Curves({ job, tags }: TabProps) {
  return (
    <Charts
      jobs={[job]}
      named={[{ name: shownName(job.name), colour: ofJob(0) }]}
      tags={tags.tags.scalar ?? []}
    />
  );
}

function Evaluations({ job }: TabProps) {
  const loaded = useLoaded(
    JSON.stringify(job),
    (signal) => get<{ metrics: Row[] }>(jobPath(job.base, job.name, "evaluations"), {}, signal),
    changed.value.get(job.name) ?? 0,
  );
  return (
    <Show of={loaded.value}>
      {({ metrics }) => (
        <>
          <OverTime rows={metrics} />
          <Rows
            rows={metrics.map((row) => ({ ...row, value: measured(row) }))}
            none="No evaluation was recorded."
          />
        </>
      )}
    </Show>
  );
}

/** A chart of each metric over the evaluations, if there are several. */
function OverTime({ rows }: { rows: readonly Row[] }) {
  const curves = useMemo(() => evaluated(rows), [rows]);
  return (
    <div class="charts">
      {curves.map(({ name, by, curve }) => (
        <Chart
          key={`${name} ${by}`}
          title={`${name} by ${by}`}
          jobs={[{ name, colour: ofJob(0) }]}
          curves={[curve]}
          x="step"
          unit={by}
          log={false}
          halfLife={0}
          range={null}
          onRange={() => {}}
        />
      ))}
    </div>
  );
}

function Files({ job }: TabProps) {
  const grown = changed.value.get(job.name) ?? 0;
  const loaded = useLoaded(
    JSON.stringify(job),
    (signal) => get<{ files: Row[] }>(jobPath(job.base, job.name, "files"), {}, signal),
    grown,
  );
  return <Show of={loaded.value}>{({ files }) => <Rows rows={files} none="No log file is known." />}</Show>;
}

/** A table of a view's rows, without columns that are empty in all rows. */
function Rows({ rows, none }: { rows: readonly Row[]; none: string }) {
  if (!rows.length) return <p class="quiet">{none}</p>;
  const names = Object.keys(rows[0]!).filter((name) =>
    rows.some((row) => row[name] !== null && row[name] !== ""),
  );
  return (
    <section tabIndex={0} aria-label="Rows" style={{ overflow: "auto" }}>
      <table>
        <thead>
          <tr>
            {names.map((name) => (
              <th key={name}>{titleOf(name)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, n) => (
            <tr key={n}>
              {names.map((name) => (
                <Cell key={name} text={fact(name, row[name])} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Cell({ text }: { text: string }) {
  return <td class={text.length > 40 ? "" : "whole"}>{text}</td>;
}
