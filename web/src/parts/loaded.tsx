// What is fetched for a view: shown while the next is under way, and when that fails, with what went wrong.

import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Problem } from "../client";

export interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  loading: boolean;
}

const AGAIN_MS = 3000;

/** Fetch whenever a key changes; what was there stays until the new is. Problems that pass are tried again. */
export function useLoaded<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
): Signal<Loaded<T>> {
  const state = useSignal<Loaded<T>>({ value: null, problem: null, loading: key !== null });
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    let again: ReturnType<typeof setTimeout> | undefined;
    const run = async () => {
      state.value = { ...state.value, loading: true };
      try {
        const value = await load(abort.signal);
        if (!abort.signal.aborted) state.value = { value, problem: null, loading: false };
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem =
          error instanceof Problem ? error : new Problem("page", 0, String(error), "Reload the page.");
        state.value = { ...state.value, problem, loading: false };
        if (problem.passes) again = setTimeout(run, AGAIN_MS);
      }
    };
    run();
    return () => {
      abort.abort();
      clearTimeout(again);
    };
  }, [key]);
  return state;
}

export function Trouble({ problem, stale = false }: { problem: Problem; stale?: boolean }) {
  return (
    <div class="notice bad" role="alert">
      <b>{stale ? "What you see is not the latest. " : ""}</b>
      {problem.message} <small>{problem.remedy}</small>
    </div>
  );
}

/** A part of the page that shows what was loaded. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {of.problem && <Trouble problem={of.problem} stale={of.value !== null} />}
      {of.value !== null ? children(of.value) : of.loading && <p class="empty">Loading …</p>}
    </>
  );
}
