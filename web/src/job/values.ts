// Reads values from rows of the store's views, which have the kind of a value in a column beside it. Pure.

import { numeric } from "../api";

type Row = Record<string, unknown>;

/** The number or boolean of a row (NaN if its kind says so), or null if it has none. */
export function measured({ value, kind }: Row): number | boolean | null {
  if (kind === "nan") return Number.NaN;
  if (value === null || value === undefined) return null;
  return kind === "bool" ? value === 1 : numeric(value as number | string);
}

/** The columns of a job that have a value, without the columns of kinds. */
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
