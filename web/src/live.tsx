// What changes in the store, as the server tells it: one stream a browser tab, mended by the browser itself.

import { signal } from "@preact/signals";
import { url } from "./client";

/** Grows with every change; views that show many jobs look again when it does. */
export const revision = signal(0);
/** Jobs that changed last, by name, with the revision at which they did. */
export const changed = signal<ReadonlyMap<string, number>>(new Map());
export const connected = signal<"connecting" | "connected" | "lost">("connecting");

const TOGETHER_MS = 500; // changes that come so close are told as one
let waiting: string[] = [];
let _timer: ReturnType<typeof setTimeout> | undefined;

export function listen(): void {
  const source = new EventSource(url("events"));
  source.onopen = () => {
    connected.value = "connected";
  };
  source.onerror = () => {
    connected.value = "lost";
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  };
  source.addEventListener("changes", (event) => take(JSON.parse(event.data).changes));
}

function take(changes: readonly { train_id: string | null }[]): void {
  for (const { train_id } of changes) waiting.push((train_id ?? "").replace(/^\.\//, ""));
  _timer ??= setTimeout(() => {
    revision.value += 1;
    const next = new Map([...changed.value].slice(-1000));
    for (const job of waiting) next.set(job, revision.value);
    changed.value = next;
    waiting = [];
    _timer = undefined;
  }, TOGETHER_MS);
}

export function Connection() {
  const words = { connecting: "connecting …", connected: "live", lost: "connection lost, trying again" };
  const tone = { connecting: "quiet", connected: "good", lost: "bad" };
  return (
    <span class={tone[connected.value]} role="status">
      ● {words[connected.value]}
    </span>
  );
}
