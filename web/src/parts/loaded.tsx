// What is fetched for a view: shown while the next is under way, and when that fails, with what went wrong.

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
 * Fetch whenever a key changes, and again, once what is under way is there, when `again` does: `load` is then given what
 * there is. What was there stays until the new is. Problems that pass are tried again.
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

/** What went wrong; but where the frame of the page says already that nobody answers, what was there stands alone. */
export function Trouble({ problem, stale = false }: { problem: Problem; stale?: boolean }) {
  if (stale && problem.passes && away.value) return null;
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
