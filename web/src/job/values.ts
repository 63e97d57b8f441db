// Values as the store's views have them: what kind they are stands beside them, and a NaN is null. Pure.

import { numeric } from "../api";

type Row = Record<string, unknown>;

/** The number of a row, or whether it is true; null: it has none, or no value at all. */
export function measured({ value, kind }: Row): number | boolean | null {
  if (kind === "nan") return Number.NaN;
  if (value === null || value === undefined) return null;
  return kind === "bool" ? value === 1 : numeric(value as number | string);
}

/** The columns of a job that have a value; the kind of a number is told by the number. */
export function known(job: Row): [string, unknown][] {
  const isKind = (name: string) => name.endsWith("_kind") && name.slice(0, -"_kind".length) in job;
  return Object.entries(job)
    .filter(([name]) => !isKind(name))
    .map(([name, value]): [string, unknown] => {
      const kind = job[`${name}_kind`];
      return [name, kind ? measured({ value, kind }) : value];
    })
    .filter(([, value]) => value !== null && value !== "");
}
