// What the server answers, in the page's own types.

import { get, jobPath, sent, url } from "./client";
import type { Column, Columns } from "./columns";
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
  where: readonly string[],
  fields: readonly string[],
  signal: AbortSignal,
): Promise<Columns> {
  const answer = await get<{ count: number; columns: WireColumn[] }>(
    "jobs",
    { form: "columns", where, fields },
    signal,
  );
  return {
    count: answer.count,
    byName: new Map(answer.columns.map((column) => [column.name, columnOf(column)])),
  };
}

export interface Names {
  fields: { name: string; type: "text" | "integer" | "float"; meaning: string }[];
  metric: string[];
  user_defined: string[];
}

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
  series: Record<string, unknown>[];
}

export const tagsOf = ({ base, name }: JobId, signal?: AbortSignal) =>
  get<Tags>(`${jobPath(base, name)}/tags`, {}, signal);

interface WireSeries {
  curves: {
    number: number;
    device: number | null;
    superseded: boolean;
    rows: number;
    columns: Record<string, number>;
  }[];
  missing: number[];
}

export interface Wanted {
  start: number | null;
  stop: number | null;
  points: number;
  superseded: boolean;
}

/** Curves of one tag of some jobs. */
export async function series(
  jobs: readonly JobId[],
  tag: string,
  options: Wanted,
  signal: AbortSignal,
): Promise<Curve[]> {
  const wanted = jobs.map(({ base, name }) => ({ base, name, tag }));
  const response = await sent("POST", "series", { series: wanted, ...options, form: "columns" }, signal);
  return curvesOf(await response.arrayBuffer());
}

/** Four bytes that tell the header's length, the header, and from the next multiple of eight on float64 columns. */
export function curvesOf(buffer: ArrayBuffer): Curve[] {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length))) as WireSeries;
  const begin = Math.ceil((4 + length) / 8) * 8;
  return header.curves.map(({ number, device, superseded, rows, columns }) => ({
    job: number,
    device,
    superseded,
    columns: Object.fromEntries(
      Object.entries(columns).map(([name, place]) => [
        name,
        new Float64Array(buffer, begin + 8 * place, rows),
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

/** The jobs of a condition, or those named, with their lineage; at most `MOST_COMPARED`. */
export async function foundJobs(
  asked: { where?: string; ids?: readonly JobId[] },
  signal: AbortSignal,
): Promise<FoundJob[]> {
  const limit = MOST_COMPARED;
  if (!asked.ids)
    return (
      await get<{ jobs: FoundJob[] }>(
        "jobs",
        { where: terms(asked.where ?? ""), limit, count: false },
        signal,
      )
    ).jobs;
  const wanted = new Set(asked.ids.map(idText));
  const condition = JSON.stringify({ summary_dir: { in: asked.ids.map(({ name }) => `./${name}`) } });
  const { jobs } = await get<{ jobs: FoundJob[] }>("jobs", { condition, limit: 100, count: false }, signal);
  return jobs.filter((job) => wanted.has(idText({ base: job.base, name: nameOf(job) }))).slice(0, limit);
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

export const payloads = ({ base, name }: JobId, place: Place, signal: AbortSignal) =>
  get<{ count: number; payloads: PayloadRow[] }>(
    payloadPath("payloads", base, name),
    { ...place, limit: 10000 },
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
