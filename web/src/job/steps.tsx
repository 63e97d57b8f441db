// A tag and a step of it: what payload tabs are chosen by. Both are in the URL.

import { type JobId, type PayloadRow, type Place, payloads } from "../api";
import { bytes, number, time } from "../format";
import { changed } from "../live";
import { type Loaded, useLoaded } from "../parts/loaded";
import { parameter, set } from "../state";

/** The tag that is shown, of those that a plugin has. */
export function chosenTag(tags: readonly string[]): string {
  return tags.includes(parameter("tag")) ? parameter("tag") : (tags[0] ?? "");
}

/** The rows of a tag; never those of the tag before, whose steps it may not have. */
export function useRows(job: JobId, place: Place): Loaded<PayloadRow[]> {
  const grown = changed.value.get(job.name) ?? 0;
  const { value, problem } = useLoaded(
    place.tag ? JSON.stringify([job, place]) : null,
    async (signal) => ({ tag: place.tag, rows: (await payloads(job, place, signal)).payloads }),
    grown,
  ).value;
  const rows = value?.tag === place.tag ? value.rows : null;
  return { value: rows, problem, loading: !rows && !problem };
}

/** The row of the step in the URL, or the last one. */
export function chosenRow(rows: readonly PayloadRow[]): number {
  const step = parameter("step");
  const found = step ? rows.findIndex((row) => String(row.step) === step) : -1;
  return found >= 0 ? found : rows.length - 1;
}

export function TagPicker({ tags }: { tags: readonly string[] }) {
  return (
    <label>
      tag{" "}
      <select
        value={chosenTag(tags)}
        onChange={(event) =>
          set({ tag: event.currentTarget.value, step: null, part: null, node: null, open: null })
        }
      >
        {tags.map((tag) => (
          <option key={tag}>{tag}</option>
        ))}
      </select>
    </label>
  );
}

export function StepSlider({ rows }: { rows: readonly PayloadRow[] }) {
  const at = chosenRow(rows);
  const row = rows[at];
  if (!row) return null;
  const show = (place: number) =>
    set({ step: String(rows[Math.max(0, Math.min(rows.length - 1, place))]!.step) });
  return (
    <div class="bar">
      <button type="button" aria-label="Step before" disabled={at === 0} onClick={() => show(at - 1)}>
        ‹
      </button>
      <input
        type="range"
        aria-label="Step"
        min="0"
        max={rows.length - 1}
        value={at}
        style={{ flex: 1 }}
        aria-valuetext={`step ${row.step}`}
        onInput={(event) => show(Number(event.currentTarget.value))}
      />
      <button
        type="button"
        aria-label="Step behind"
        disabled={at === rows.length - 1}
        onClick={() => show(at + 1)}
      >
        ›
      </button>
      <span>
        step {number(row.step)}{" "}
        <small>
          {[
            typeof row.wall_time === "number" ? time(row.wall_time) : "",
            `${row.shape?.join(" × ") ?? ""} ${row.dtype ?? ""}`.trim(),
            row.device === null ? "" : `device ${row.device}`,
            bytes(row.size_bytes),
          ]
            .filter(Boolean)
            .join(" · ")}
        </small>
      </span>
    </div>
  );
}
