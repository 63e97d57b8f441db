// The curves of some jobs: one chart per tag, grouped by the beginning of the tags' names. Options are in the URL.

import { useMemo } from "preact/hooks";
import { idText, type JobId, series } from "../api";
import { counted } from "../format";
import { changed } from "../live";
import { InView } from "../parts/inView";
import { Trouble, useLoaded } from "../parts/loaded";
import { list, parameter, set } from "../state";
import { Chart, type Named } from "./chart";
import type { X } from "./curve";

const POINTS = 1000;
const HEIGHT = 320;

interface Props {
  jobs: readonly JobId[];
  named: readonly Named[];
  tags: readonly string[];
  groupOf?: ((job: number) => number) | null;
}

export function Charts({ jobs, named, tags, groupOf = null }: Props) {
  const wanted = parameter("find").toLowerCase();
  const chosen = list("tags");
  const shown = tags.filter(
    (tag) => (!chosen.length || chosen.includes(tag)) && tag.toLowerCase().includes(wanted),
  );
  const groups = useMemo(() => byPrefix(shown), [shown.join("\n")]);
  if (!tags.length) return <p class="empty">No scalars were recorded.</p>;
  return (
    <>
      <div class="bar" role="toolbar" aria-label="Charts">
        <input
          type="search"
          aria-label="Search tags"
          placeholder={`search ${counted(tags.length, "tag")}`}
          value={parameter("find")}
          onInput={(event) => set({ find: event.currentTarget.value })}
        />
        <label>
          x{" "}
          <select
            value={parameter("x") || "step"}
            onChange={(event) =>
              set({ x: event.currentTarget.value === "step" ? null : event.currentTarget.value, span: null })
            }
          >
            <option value="step">step</option>
            <option value="relative">time since the beginning</option>
            <option value="wall">time</option>
          </select>
        </label>
        <label>
          smooth over{" "}
          <input
            type="number"
            min="0"
            step="any"
            value={parameter("smooth") || "0"}
            onChange={(event) =>
              set({ smooth: Number(event.currentTarget.value) > 0 ? event.currentTarget.value : null })
            }
          />{" "}
          steps
        </label>
        <Switch name="log" text="log" />
        <Switch name="superseded" text="superseded steps" />
        {parameter("range") && (
          <button type="button" onClick={() => set({ range: null, span: null })}>
            All steps
          </button>
        )}
      </div>
      {groups.map(({ prefix, tags: mine }) => (
        <details key={prefix} open>
          <summary>
            {prefix || "scalars"} <small>{mine.length}</small>
          </summary>
          <div class="charts">
            {mine.map((tag) => (
              <InView key={tag} height={HEIGHT}>
                {() => <TagChart jobs={jobs} named={named} tag={tag} groupOf={groupOf} />}
              </InView>
            ))}
          </div>
        </details>
      ))}
      {!shown.length && <p class="empty">No tag is called so.</p>}
    </>
  );
}

function TagChart({
  jobs,
  named,
  tag,
  groupOf,
}: {
  jobs: readonly JobId[];
  named: readonly Named[];
  tag: string;
  groupOf: Props["groupOf"];
}) {
  const range = rangeOf(parameter("range"));
  const span = rangeOf(parameter("span"));
  const superseded = parameter("superseded") === "1";
  const grown = Math.max(0, ...jobs.map(({ name }) => changed.value.get(name) ?? 0));
  const timed = parameter("x") !== "";
  const key = JSON.stringify([jobs.map(idText), tag, range, superseded, timed]);
  const load = (signal: AbortSignal) =>
    series(
      jobs,
      tag,
      { start: range?.[0] ?? null, stop: range?.[1] ?? null, points: POINTS, superseded },
      timed,
      signal,
    );
  const loaded = useLoaded(key, load, grown);
  const { value, problem } = loaded.value;
  return (
    <>
      {problem && <Trouble problem={problem} stale={value !== null} />}
      {value && (
        <Chart
          title={tag}
          jobs={named}
          curves={value}
          x={(parameter("x") || "step") as X}
          log={parameter("log") === "1"}
          halfLife={Number(parameter("smooth")) || 0}
          range={range}
          span={span}
          groupOf={groupOf ?? null}
          onRange={(steps, times) => set({ range: steps?.join("~") ?? null, span: times?.join("~") ?? null })}
        />
      )}
    </>
  );
}

export function Switch({ name, text }: { name: string; text: string }) {
  return (
    <label>
      <input
        type="checkbox"
        checked={parameter(name) === "1"}
        onChange={(event) => set({ [name]: event.currentTarget.checked ? "1" : null })}
      />{" "}
      {text}
    </label>
  );
}

function rangeOf(text: string): [number, number] | null {
  const [from, to] = text.split("~").map(Number);
  return from !== undefined && to !== undefined && Number.isFinite(from) && from < to ? [from, to] : null;
}

function byPrefix(tags: readonly string[]): { prefix: string; tags: string[] }[] {
  const groups = new Map<string, string[]>();
  for (const tag of tags) {
    const prefix = tag.includes("/") ? tag.slice(0, tag.indexOf("/")) : "";
    const of = groups.get(prefix);
    if (of) of.push(tag);
    else groups.set(prefix, [tag]);
  }
  return [...groups].sort(([a], [b]) => (a < b ? -1 : 1)).map(([prefix, of]) => ({ prefix, tags: of }));
}
