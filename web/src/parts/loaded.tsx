// Fetches data for a view. The old data stays while new data loads, and stays with a message if that fails.

import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Problem } from "../client";
import { stale as away } from "../live";

export interface Loaded<T> {
  value: T | null;
  problem: Problem | null;
  loading: boolean;
}

const AGAIN_MS = 3000;

/**
 * Fetch when `key` changes, and again when `again` changes, after any fetch under way; `load` then gets the last value
 * of this key. The old value stays until the new one has arrived. Problems that may pass are retried.
 */
export function useLoaded<T>(
  key: string | null,
  load: (signal: AbortSignal, before: T | null) => Promise<T>,
  again = 0,
): Signal<Loaded<T>> {
  const state = useSignal<Loaded<T>>({ value: null, problem: null, loading: key !== null });
  const latest = useRef(load);
  latest.current = load;
  const look = useRef(() => {});
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    let later: ReturnType<typeof setTimeout> | undefined;
    let [busy, anew] = [false, false];
    let before: T | null = null;
    const run = async () => {
      anew = busy;
      if (busy) return;
      busy = true;
      clearTimeout(later);
      state.value = { ...state.value, loading: true };
      try {
        const value = await latest.current(abort.signal, before);
        if (abort.signal.aborted) return;
        before = value;
        state.value = { value, problem: null, loading: false };
      } catch (error) {
        if (abort.signal.aborted) return;
        const problem =
          error instanceof Problem ? error : new Problem("page", 0, String(error), "Reload the page.");
        state.value = { ...state.value, problem, loading: false };
        if (problem.passes) later = setTimeout(run, AGAIN_MS);
      }
      busy = false;
      if (anew && !abort.signal.aborted) run();
    };
    look.current = run;
    run();
    return () => {
      abort.abort();
      clearTimeout(later);
      look.current = () => {};
    };
  }, [key]);
  const seen = useRef(again);
  useEffect(() => {
    if (seen.current !== again) look.current();
    seen.current = again;
  }, [again]);
  return state;
}

/** The message of a problem; nothing if there is old data and the frame of the page already shows the reason. */
export function Trouble({ problem, stale = false }: { problem: Problem; stale?: boolean }) {
  if (stale && problem.passes && away.value) return null;
  return (
    <div class="notice bad" role="alert">
      <b>{stale ? "What you see is not the latest. " : ""}</b>
      {problem.message} <small>{problem.remedy}</small>
    </div>
  );
}

/** Show loaded data, the problem, or that it is loading. */
export function Show<T>({ of, children }: { of: Loaded<T>; children: (value: T) => ComponentChildren }) {
  return (
    <>
      {of.problem && <Trouble problem={of.problem} stale={of.value !== null} />}
      {of.value !== null ? children(of.value) : of.loading && <p class="empty">Loading …</p>}
    </>
  );
}
