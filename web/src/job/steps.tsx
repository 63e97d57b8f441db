// The choice of tag, device and step in the tabs of payloads. All three are in the URL.

import type { ComponentChildren } from "preact";
import { type JobId, type PayloadRow, type Place, payloads } from "../api";
import { get, jobPath } from "../client";
import { bytes, number, time } from "../format";
import { changed } from "../live";
import { type Loaded, Show, useLoaded } from "../parts/loaded";
import { parameter, set } from "../state";

/** The tag in the URL if the plugin has it, otherwise the first one. */
export function chosenTag(tags: readonly string[]): string {
  return tags.includes(parameter("tag")) ? parameter("tag") : (tags[0] ?? "");
}

interface Rows {
  tag: string;
  devices: number[];
  rows: PayloadRow[];
}

/** Fetch the payloads of a tag on one device. While a tag loads, the rows of the previous tag are not returned. */
export function useRows(job: JobId, place: Place): Loaded<Rows> {
  const grown = changed.value.get(job.name) ?? 0;
  const { value, problem } = useLoaded(
    place.tag ? JSON.stringify([job, place, parameter("device")]) : null,
    async (signal) => {
      const devices = await devicesOf(job, place, signal);
      const device = devices.length > 1 ? chosenDevice(devices) : null;
      return { tag: place.tag, devices, rows: (await payloads(job, place, device, signal)).payloads };
    },
    grown,
  ).value;
  const found = value?.tag === place.tag ? value : null;
  return { value: found, problem, loading: !found && !problem };
}

/** Fetch the devices that recorded a tag: without a device, a request finds only one device's row of a step. */
async function devicesOf({ base, name }: JobId, place: Place, signal: AbortSignal): Promise<number[]> {
  type Series = Place & { device: number | null };
  const { series } = await get<{ series: Series[] }>(jobPath(base, name, "tags"), {}, signal);
  const found = series.filter(({ plugin, tag }) => plugin === place.plugin && tag === place.tag);
  return [...new Set(found.flatMap(({ device }) => device ?? []))].sort((a, b) => a - b);
}

/** The device in the URL, or the first one. */
function chosenDevice(devices: readonly number[]): number | null {
  return devices.find((device) => String(device) === parameter("device")) ?? devices[0] ?? null;
}

/** Show the rows, with a choice of device if several recorded the tag. */
export function ShowRows({
  of,
  children,
}: {
  of: Loaded<Rows>;
  children: (rows: PayloadRow[]) => ComponentChildren;
}) {
  return (
    <Show of={of}>
      {({ devices, rows }) => (
        <>
          {" "}
          {devices.length > 1 && <DevicePicker devices={devices} />}
          {children(rows)}
        </>
      )}
    </Show>
  );
}

function DevicePicker({ devices }: { devices: readonly number[] }) {
  return (
    <label>
      device{" "}
      <select
        value={String(chosenDevice(devices))}
        onChange={(event) => set({ device: event.currentTarget.value })}
      >
        {devices.map((device) => (
          <option key={device}>{device}</option>
        ))}
      </select>
    </label>
  );
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
