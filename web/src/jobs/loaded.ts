// The jobs that match a condition, as columns: all are fetched once, then only those that change.

import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { jobColumns, named } from "../api";
import { get } from "../client";
import { type Column, type Columns, renewed } from "../columns";
import { changed, revision } from "../live";
import { type Loaded, useLoaded } from "../parts/loaded";
import { terms } from "./condition";

/** A cache of the paths of base dirs, by key. */
let paths: ReadonlyMap<string, string> = new Map();

/** Add a column with the path of each job's base dir, because keys mean nothing to people. */
async function withPaths(columns: Columns, signal: AbortSignal): Promise<Columns> {
  const keys = columns.byName.get("base");
  if (keys?.kind !== "word") return columns;
  if (!keys.words.every((key) => paths.has(key))) {
    const told = await get<{ base_dirs: { key: string; path: string }[] }>("base-dirs", {}, signal);
    paths = new Map(told.base_dirs.map(({ key, path }) => [key, path]));
  }
  const column: Column = { ...keys, words: keys.words.map((key) => paths.get(key) ?? key) };
  return { ...columns, byName: new Map(columns.byName).set("base_dir", column) };
}

/** If more jobs change at once, all are fetched again. */
const MOST_RENEWED = 100;

export function useJobs(where: string, fields: readonly string[] | null): Signal<Loaded<Columns>> {
  const seen = useRef(0);
  const load = async (signal: AbortSignal, before: Columns | null) => {
    const upTo = revision.peek();
    const names = [...changed.peek()].filter(([, at]) => at > seen.current).map(([name]) => name);
    const few = before !== null && names.length <= MOST_RENEWED;
    const condition = few ? named(names) : null;
    const part =
      few && !names.length
        ? null
        : await withPaths(await jobColumns({ where: terms(where), condition }, fields!, signal), signal);
    seen.current = upTo;
    if (!part) return before!;
    return few ? renewed(before, part, new Set(names.map((name) => `./${name}`))) : part;
  };
  return useLoaded(fields && JSON.stringify([where, fields]), load, revision.value);
}
