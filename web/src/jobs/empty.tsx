// Shown when no job matches: how to fill the store, or which term of the condition to leave out.

import { idsOf } from "../api";
import { counted } from "../format";
import { useLoaded } from "../parts/loaded";
import { set } from "../state";
import { terms } from "./condition";

export function Empty({ where }: { where: string }) {
  if (where) return <NoMatch where={where} />;
  return (
    <div class="empty">
      <p>The store has no jobs yet. Fill it:</p>
      <pre>lineage-store ingest BASE_DIR</pre>
      <p>or let it be kept up to date: lineage-store daemon BASE_DIR</p>
    </div>
  );
}

const MOST_TERMS = 12;

function NoMatch({ where }: { where: string }) {
  const all = terms(where);
  const without = useLoaded(all.length > 1 ? where : null, (signal) =>
    Promise.all(all.slice(0, MOST_TERMS).map((_, left) => jobsWithout(all, left, signal))),
  );
  const found = (without.value.value ?? []).filter(({ jobs }) => jobs > 0).sort((a, b) => b.jobs - a.jobs);
  const [most, ...others] = found;
  const button = (text: string, next: string) => (
    <button type="button" onClick={() => set({ where: next, brush: null }, true)}>
      {text}
    </button>
  );
  return (
    <div class="empty" role="status">
      <p>
        No job matches <span class="mono">{where}</span>.
      </p>
      {most && (
        <p>
          <span class="mono">{most.term}</span> excludes most:{" "}
          {button(
            `Without it there ${most.jobs === 1 ? "is" : "are"} ${counted(most.jobs, "job")}`,
            most.rest,
          )}
        </p>
      )}
      {others.map(({ term, rest, jobs }) => (
        <p key={term}>{button(`Without ${term}: ${counted(jobs, "job")}`, rest)}</p>
      ))}
      {without.value.value && !most && all.length > 1 && <p>None of its terms alone is why.</p>}
      <p>{button("Show all jobs", "")}</p>
    </div>
  );
}

async function jobsWithout(all: readonly string[], left: number, signal: AbortSignal) {
  const rest = all.filter((_, n) => n !== left);
  const text = rest.join(" and ");
  return { term: all[left]!, rest: text, jobs: (await idsOf(text, signal)).length };
}
