// What changes in the store, as the server tells it: one stream for all tabs where the browser can share one.

import { computed, effect, signal } from "@preact/signals";
import { firstAnswer, url } from "./client";
import { type Address, follow, type Standing, type Told } from "./stream";

/** Grows with every change; views that show many jobs look again when it does. */
export const revision = signal(0);
/** Jobs that changed last, by name, with the revision at which they did. */
export const changed = signal<ReadonlyMap<string, number>>(new Map());
export const standing = signal<Standing>({ connection: "connecting", trouble: "" });
/** Whether what is shown may be behind the store. */
export const stale = computed(() => standing.value.connection === "lost" || standing.value.trouble !== "");

const TOGETHER_MS = 500; // changes that come so close are told as one
let waiting: string[] = [];
let _timer: ReturnType<typeof setTimeout> | undefined;

/** Follow from where the first answer stood: whatever was fetched is not older. */
export async function listen(): Promise<void> {
  const address: Address = { url: url("events").href, since: await firstAnswer };
  if (typeof SharedWorker === "undefined") {
    follow(address, hear);
    return;
  }
  const worker = new SharedWorker(new URL("./streamWorker.ts", import.meta.url), {
    type: "module",
    name: "changes",
  });
  worker.onerror = () => follow(address, hear);
  worker.port.onmessage = ({ data }) => hear(data);
  worker.port.postMessage(address);
  addEventListener("pagehide", () => worker.port.postMessage(null));
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

function hear(told: Told): void {
  if (told.standing) standing.value = told.standing;
  if (told.changes) take(told.changes);
}

function take(jobs: readonly string[]): void {
  waiting.push(...jobs);
  _timer ??= setTimeout(() => {
    revision.value += 1;
    const next = new Map([...changed.value].slice(-1000));
    for (const job of waiting) next.set(job, revision.value);
    changed.value = next;
    waiting = [];
    _timer = undefined;
  }, TOGETHER_MS);
}

effect(() => {
  document.documentElement.classList.toggle("stale", stale.value);
});

export function Connection() {
  const { connection, trouble } = standing.value;
  const words = { connecting: "connecting …", connected: "live", lost: "connection lost, trying again" };
  const tone = { connecting: "quiet", connected: "good", lost: "bad" };
  return (
    <span class={trouble ? "bad" : tone[connection]} role="status">
      ● {trouble && connection === "connected" ? "database away, trying again" : words[connection]}
    </span>
  );
}

/** Why what is shown may not be the latest. */
export function Away() {
  const { connection, trouble } = standing.value;
  if (!stale.value) return null;
  return (
    <div class="notice bad" role="alert">
      <b>What you see is not the latest.</b> {connection === "lost" ? "The server does not answer." : trouble}{" "}
      <small>Trying again by itself.</small>
    </div>
  );
}
