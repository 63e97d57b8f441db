// The jobs of a condition as columns, kept up to date: all are fetched once, then only those that change.

import type { Signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { jobColumns, named } from "../api";
import { type Columns, renewed } from "../columns";
import { changed, revision } from "../live";
import { type Loaded, useLoaded } from "../parts/loaded";
import { terms } from "./condition";

/** When more than so many changed at once, all are fetched again. */
const MOST_RENEWED = 100;

export function useJobs(where: string, fields: readonly string[] | null): Signal<Loaded<Columns>> {
  const seen = useRef(0);
  const load = async (signal: AbortSignal, before: Columns | null) => {
    const upTo = revision.peek();
    const names = [...changed.peek()].filter(([, at]) => at > seen.current).map(([name]) => name);
    const few = before !== null && names.length <= MOST_RENEWED;
    const condition = few ? named(names) : null;
    const part =
      few && !names.length ? null : await jobColumns({ where: terms(where), condition }, fields!, signal);
    seen.current = upTo;
    if (!part) return before!;
    return few ? renewed(before, part, new Set(names.map((name) => `./${name}`))) : part;
  };
  return useLoaded(fields && JSON.stringify([where, fields]), load, revision.value);
}
