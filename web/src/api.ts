// Requests to the server's API, with answers in the page's own types.

import { get, jobPath, Problem, sent, url } from "./client";
import { type Column, type Columns, wordOf } from "./columns";
import type { Curve } from "./compare/curve";
import { terms } from "./jobs/condition";

interface WireColumn {
  name: string;
  numbers?: (number | string | null)[] | null;
  words?: unknown[] | null;
  codes?: (number | null)[] | null;
}

const ODD: Record<string, number> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  "-Infinity": Number.NEGATIVE_INFINITY,
};

export function numeric(value: number | string | null | undefined): number {
  if (value === null || value === undefined) return Number.NaN;
  return typeof value === "number" ? value : (ODD[value] ?? Number.NaN);
}

export function columnOf({ numbers, words, codes }: WireColumn): Column {
  if (numbers) return { kind: "number", values: Float64Array.from(numbers, numeric) };
  const shown = (words ?? []).map((word) => (typeof word === "string" ? word : JSON.stringify(word)));
  return { kind: "word", words: shown, codes: Int32Array.from(codes ?? [], (code) => code ?? -1) };
}

export async function jobColumns(
  asked: { where: readonly string[]; condition: object | null },
  fields: readonly string[],
  signal: AbortSignal,
): Promise<Columns> {
  const answer = await get<{ count: number; columns: WireColumn[] }>(
    "jobs",
    {
      form: "columns",
      every: true,
      where: asked.where,
      condition: asked.condition ? JSON.stringify(asked.condition) : null,
      fields,
    },
    signal,
  );
  return {
    count: answer.count,
    byName: new Map(answer.columns.map((column) => [column.name, columnOf(column)])),
  };
}

export interface Names {
  fields: { name: string; type: "text" | "integer" | "float" | "time"; meaning: string }[];
  metric: string[];
  metric_best: string[];
  metric_first: string[];
  user_defined: string[];
}

export interface KnownValue {
  value: string | number;
  jobs: number;
}

/** Fetch the values that jobs have in a field; of texts, those that contain `part`. */
export const knownValues = async (name: string, part: string, signal: AbortSignal) =>
  (await get<{ values: KnownValue[] }>("values", { name, part }, signal)).values;

export interface JobId {
  base: string;
  name: string; // train id without ./
}

export function idText({ base, name }: JobId): string {
  return `${base}/${name}`;
}

export function idOf(text: string): JobId {
  const [base = "", ...rest] = text.split("/");
  return { base, name: rest.join("/") };
}

export interface Tags {
  tags: Record<string, string[]>;
}

export const tagsOf = ({ base, name }: JobId, signal?: AbortSignal) =>
  get<Tags>(jobPath(base, name, "tags"), { series: false }, signal);

interface WireSeries {
  curves: {
    number: number;
    device: number | null;
    superseded: boolean;
    restarts: number[];
    began_at: number | string | null;
    thinned_count: number;
    rows: number;
    columns: Record<string, number | null>; // offset; null: all zeros
  }[];
  missing: number[];
}

const OF_STEPS = ["step", "value", "first_step", "last_step", "first", "last", "min", "max", "nan_count"];
const OF_TIMES = ["wall_time", "first_wall_time", "last_wall_time"];

export interface Wanted {
  start: number | null;
  stop: number | null;
  points: number;
  superseded: boolean;
}

/** Fetch the curves of a tag of some jobs, with the columns that charts need; `timed`: wall times too. */
export async function series(
  jobs: readonly JobId[],
  tag: string,
  options: Wanted,
  timed: boolean,
  signal: AbortSignal,
): Promise<Curve[]> {
  const wanted = jobs.map(({ base, name }) => ({ base, name, tag }));
  const columns = timed ? [...OF_STEPS, ...OF_TIMES] : OF_STEPS;
  const response = await sent(
    "POST",
    "series",
    { series: wanted, columns, ...options, form: "columns" },
    signal,
  );
  return curvesOf(await response.arrayBuffer());
}

/** Decode: the header's length (4 bytes), the header, and from the next multiple of eight on columns of float64. */
export function curvesOf(buffer: ArrayBuffer): Curve[] {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as WireSeries;
  const begin = Math.ceil((4 + length) / 8) * 8;
  return header.curves.map(({ number, began_at, thinned_count, rows, columns, ...told }) => ({
    job: number,
    device: told.device,
    superseded: told.superseded,
    restarts: told.restarts,
    began: typeof began_at === "number" ? began_at : Number.NaN,
    thinned: thinned_count,
    columns: Object.fromEntries(
      Object.entries(columns).map(([name, place]) => [
        name,
        place === null ? new Float64Array(rows) : new Float64Array(buffer, begin + 8 * place, rows),
      ]),
    ),
  }));
}

export interface FoundJob {
  base: string;
  base_dir: string;
  train_id: string;
  state: string | null;
  updated_at: string | null;
  label: number | null;
  remark: string | null;
  fields: Record<string, unknown>;
  metric: Record<string, unknown>;
  user_defined: Record<string, unknown>;
}

export function nameOf(job: { train_id: string }): string {
  return job.train_id.replace(/^\.\//, "");
}

/** Fetch the jobs that match a condition, or those in `ids`, with their lineage; at most `MOST_COMPARED`. */
export async function foundJobs(
  asked: { where?: string; ids?: readonly JobId[] },
  signal: AbortSignal,
): Promise<FoundJob[]> {
  const ids = (asked.ids ?? (await idsOf(asked.where ?? "", signal))).slice(0, MOST_COMPARED);
  const bases = [...new Set(ids.map(({ base }) => base))];
  const jobs = (await Promise.all(bases.map((base) => withLineage(base, ids, signal)))).flat();
  const known = new Map(jobs.map((job) => [idText({ base: job.base, name: nameOf(job) }), job]));
  const found = await Promise.all(ids.map((id) => known.get(idText(id)) ?? withoutLineage(id, signal)));
  return found.filter((job) => job !== null);
}

/** Fetch the ids of all jobs that match a condition, including jobs without lineage. */
export async function idsOf(where: string, signal: AbortSignal): Promise<JobId[]> {
  const { count, byName } = await jobColumns({ where: terms(where), condition: null }, ["network"], signal);
  const [bases, names] = [byName.get("base"), byName.get("train_id")];
  if (bases?.kind !== "word" || names?.kind !== "word") return [];
  return Array.from({ length: count }, (_, row) => ({
    base: wordOf(bases, row) ?? "",
    name: nameOf({ train_id: wordOf(names, row) ?? "" }),
  }));
}

async function withLineage(base: string, ids: readonly JobId[], signal: AbortSignal): Promise<FoundJob[]> {
  const names = ids.filter((id) => id.base === base).map(({ name }) => name);
  const asked = { condition: JSON.stringify(named(names)), base, limit: MOST_COMPARED, count: false };
  try {
    return (await get<{ jobs: FoundJob[] }>("jobs", asked, signal)).jobs;
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return []; // the base dir is not in the store
    throw error;
  }
}

/** Fetch a job that has no lineage, or null if it does not exist: a job without lineage has curves too. */
async function withoutLineage({ base, name }: JobId, signal: AbortSignal): Promise<FoundJob | null> {
  try {
    const { job } = await get<{ job: FoundJob }>(jobPath(base, name), {}, signal);
    return { ...job, base, train_id: `./${name}`, fields: {}, metric: {}, user_defined: {} };
  } catch (error) {
    if (error instanceof Problem && error.status === 404) return null;
    throw error;
  }
}

/** Return the condition that finds jobs by name. Names that are not Unicode come escaped from the server. */
export function named(names: readonly string[]): object {
  const unescaped = (text: string) =>
    text.replace(/\\x([0-9a-f]{2})|\\u([0-9a-f]{4})/g, (_, byte?: string, unit?: string) => {
      const code = Number.parseInt(unit ?? byte ?? "", 16);
      return String.fromCharCode(unit || code < 0x80 ? code : 0xdc00 + code);
    });
  return { summary_dir: { in: names.map((name) => `./${unescaped(name)}`) } };
}

export const MOST_COMPARED = 50;

export interface PayloadRow {
  step: number;
  wall_time: number | string | null;
  device: number | null;
  dtype: string | null;
  shape: number[] | null;
  size_bytes: number;
}

export interface Place {
  plugin: string;
  tag: string;
}

export const payloads = ({ base, name }: JobId, place: Place, device: number | null, signal: AbortSignal) =>
  get<{ count: number; payloads: PayloadRow[] }>(
    payloadPath("payloads", base, name),
    { ...place, device, limit: 10000 },
    signal,
  );

export function payload<T>(
  { base, name }: JobId,
  place: Place,
  row: PayloadRow,
  more: Record<string, string>,
  signal: AbortSignal,
): Promise<T> {
  return get<T>(
    payloadPath("payload", base, name),
    { ...place, step: row.step, device: row.device, ...more },
    signal,
  );
}

export function payloadUrl({ base, name }: JobId, place: Place, row: PayloadRow, form: string): string {
  return url(payloadPath("payload", base, name), { ...place, step: row.step, device: row.device, form }).href;
}

function payloadPath(kind: string, base: string, name: string): string {
  return `${kind}/${encodeURIComponent(base)}/${encodeURIComponent(name)}`;
}
