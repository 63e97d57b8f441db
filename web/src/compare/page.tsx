// The view Compare: the curves of up to fifty jobs, and the differences of their hyper-parameters and pipelines.

import { useMemo } from "preact/hooks";
import { type FoundJob, foundJobs, idOf, type JobId, MOST_COMPARED, nameOf, type Tags, tagsOf } from "../api";
import { ofJob } from "../colours";
import { counted, number } from "../format";
import { changed, revision } from "../live";
import { Show, useLoaded } from "../parts/loaded";
import { href, list, parameter, set } from "../state";
import { Charts, Switch } from "./charts";
import { Pipelines } from "./pipelines";

export function ComparePage() {
  const ids = list("jobs").slice(0, MOST_COMPARED);
  const where = parameter("where");
  const asked = ids.length > 0 || where !== "";
  const grown = ids.length
    ? Math.max(...ids.map((id) => changed.value.get(idOf(id).name) ?? 0))
    : revision.value;
  const jobs = useLoaded(
    asked ? JSON.stringify([ids, where]) : null,
    (signal) => foundJobs(ids.length ? { ids: ids.map(idOf) } : { where }, signal),
    grown,
  );
  if (!asked) {
    return (
      <main class="empty">
        Nothing is chosen yet. <a href={href(["jobs"])}>Select jobs</a>, or compare those of a condition.
      </main>
    );
  }
  return (
    <main>
      <Show of={jobs.value}>
        {(found) =>
          found.length ? (
            <Compared
              jobs={found}
              where={ids.length ? "" : where}
              missing={ids.length && ids.length - found.length}
            />
          ) : (
            <p class="empty">No such jobs are there.</p>
          )
        }
      </Show>
    </main>
  );
}

function Compared({ jobs, where, missing }: { jobs: FoundJob[]; where: string; missing: number }) {
  const ids = useMemo<JobId[]>(() => jobs.map((job) => ({ base: job.base, name: nameOf(job) })), [jobs]);
  const names = useMemo(() => labels(jobs), [jobs]);
  const field = parameter("group");
  const words = jobs.map((job) => shown(valueIn(job, field)) || "none");
  const groups = [...new Set(words)];
  const named = useMemo(
    () => (field ? groups : names).map((name, n) => ({ name, colour: ofJob(n) })),
    [ids, field],
  );
  const groupOf = useMemo(() => (field ? (job: number) => groups.indexOf(words[job]!) : null), [ids, field]);
  const grown = Math.max(0, ...ids.map(({ name }) => changed.value.get(name) ?? 0));
  const tags = useLoaded(
    JSON.stringify(ids),
    (signal) => Promise.all(ids.map((id) => tagsOf(id, signal))),
    grown,
  );
  const differing = useMemo(() => differences(jobs), [jobs]);
  return (
    <>
      <div class="bar">
        <h1>{where ? `Jobs with ${where}` : counted(jobs.length, "job")}</h1>
        {missing > 0 && <small>{number(missing)} more are not in the store</small>}
        {jobs.length === MOST_COMPARED && list("jobs").length !== MOST_COMPARED && (
          <small>the first {MOST_COMPARED} of them</small>
        )}
        <label>
          Mean and band by{" "}
          <select value={field} onChange={(event) => set({ group: event.currentTarget.value || null })}>
            <option value="">– (each job)</option>
            {differing.map(({ name }) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <Switch name="diff" text="differences" />
        <Switch name="pipelines" text="dataset pipelines" />
      </div>
      <div class="legend">
        {named.map(({ name, colour }, n) => (
          <span class="key" key={n} style={{ "--colour": colour }}>
            {field ? name : <a href={href(["job", ids[n]!.base, ids[n]!.name])}>{name}</a>}
          </span>
        ))}
      </div>
      {parameter("diff") === "1" && <Differences jobs={jobs} names={names} rows={differing} />}
      {parameter("pipelines") === "1" && <Pipelines ids={ids} names={names} />}
      <Show of={tags.value}>
        {(found) => <Charts jobs={ids} named={named} tags={scalarsOf(found)} groupOf={groupOf} />}
      </Show>
    </>
  );
}

/** The names of jobs, with the base dir for names that occur twice. */
function labels(jobs: readonly FoundJob[]): string[] {
  const names = jobs.map((job) => nameOf(job) || job.train_id);
  return names.map((name, n) =>
    names.indexOf(name) === names.lastIndexOf(name) ? name : `${name} in ${jobs[n]!.base_dir}`,
  );
}

function scalarsOf(found: readonly Tags[]): string[] {
  return [...new Set(found.flatMap(({ tags }) => tags.scalar ?? []))].sort();
}

function valueIn(job: FoundJob, name: string): unknown {
  const [kind, rest] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
  if (kind === "metric") return job.metric[rest];
  return kind === "user_defined" ? job.user_defined[rest] : job.fields[name];
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return "";
  return typeof value === "number"
    ? number(value)
    : typeof value === "string"
      ? value
      : JSON.stringify(value);
}

interface Row {
  name: string;
  values: unknown[];
}

/** The fields whose values differ between the jobs. */
function differences(jobs: readonly FoundJob[]): Row[] {
  const names = new Set(
    jobs.flatMap((job) => [
      ...Object.keys(job.fields),
      ...Object.keys(job.metric).map((name) => `metric/${name}`),
      ...Object.keys(job.user_defined).map((name) => `user_defined/${name}`),
    ]),
  );
  return [...names]
    .map((name) => ({ name, values: jobs.map((job) => valueIn(job, name)) }))
    .filter(({ values }) => new Set(values.map((value) => JSON.stringify(value ?? null))).size > 1);
}

interface Differing {
  jobs: readonly FoundJob[];
  names: readonly string[];
  rows: readonly Row[];
}

function Differences({ jobs, names, rows }: Differing) {
  if (!rows.length) return <p class="quiet">Nothing that is known of these jobs differs.</p>;
  return (
    <section aria-label="Differences" tabIndex={0} style={{ overflow: "auto", maxHeight: "420px" }}>
      <table>
        <thead>
          <tr>
            <th>only what differs</th>
            {jobs.map((job, n) => (
              <th key={`${job.base} ${job.train_id}`}>{names[n]}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ name, values }) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              {values.map((value, n) => (
                <td key={`${jobs[n]!.base} ${jobs[n]!.train_id}`}>{shown(value) || "–"}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
