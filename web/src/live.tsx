// The changes of the store as signals, from one stream that all tabs share if the browser can do that.

import { computed, effect, signal } from "@preact/signals";
import { firstAnswer, url } from "./client";
import { type Address, follow, type Standing, type Told } from "./stream";

/** Increases with every change; views of many jobs then fetch again. */
export const revision = signal(0);
/** The jobs that changed last, by name, with the value of `revision` at their change. */
export const changed = signal<ReadonlyMap<string, number>>(new Map());
export const standing = signal<Standing>({ connection: "connecting", trouble: "" });
/** Whether the shown data may be out of date. */
export const stale = computed(() => standing.value.connection === "lost" || standing.value.trouble !== "");

const TOGETHER_MS = 500; // changes within this time are combined
let waiting: string[] = [];
let _timer: ReturnType<typeof setTimeout> | undefined;

/** Follow the changes from the token of the first answer, so that no change after any answer is missed. */
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

/** A notice that the shown data may be out of date, and why. */
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
