// A notice on every page when no ingester keeps the store up to date or one is late, with the age of the data.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get } from "./client";
import { duration } from "./format";
import type { Health } from "./health";
import { href } from "./state";

const FIRST_LOOK_MS = 3000; // later than the requests of the view itself
const LOOKS_EVERY_MS = 60_000;
const LATE = ["unattended_base_dir", "unsearched_base_dir"];

export function Behind() {
  const late = useSignal<{ subject: string; age: number | null; more: number } | null>(null);
  useEffect(() => {
    const look = async () => {
      if (document.hidden) return;
      const { findings, base_dirs } = await get<Health>("health").catch(() => ({
        findings: [],
        base_dirs: [],
      }));
      const found = findings.filter(({ kind }) => LATE.includes(kind));
      const row = base_dirs.find(({ base_dir }) => base_dir === found[0]?.subject);
      const age = typeof row?.last_cycle_age_s === "number" ? row.last_cycle_age_s : null;
      late.value = found[0] ? { subject: found[0].subject, age, more: found.length - 1 } : null;
    };
    const first = setTimeout(look, FIRST_LOOK_MS);
    const every = setInterval(look, LOOKS_EVERY_MS);
    return () => {
      clearTimeout(first);
      clearInterval(every);
    };
  }, []);
  if (!late.value) return null;
  const { subject, age, more } = late.value;
  return (
    <div class="notice" role="status" aria-label="Age of what is shown">
      Nobody brings <span class="mono">{subject}</span>
      {more > 0 && ` and ${more} more`} up to date
      {age !== null && `; what is shown is ${duration(age)} old`}. <a href={href(["health"])}>What to do</a>
    </div>
  );
}
