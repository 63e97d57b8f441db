// The route and its parameters. All state of a view is in the URL, so that a link restores it.

import { computed, signal } from "@preact/signals";

const base = new URL(document.baseURI).pathname.replace(/\/$/, "");
const current = signal(new URL(location.href));

/** Decode a part of an address; a malformed one, such as of a truncated link, is returned unchanged. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The decoded parts of the path below the page's base. An empty part may be the name of a job. */
export const route = computed(() =>
  current.value.pathname.slice(base.length).split("/").slice(1).map(decoded),
);
export const query = computed(() => current.value.searchParams);

export function parameter(name: string): string {
  return query.value.get(name) ?? "";
}

/** The list in a parameter, separated by commas; commas in names are escaped. */
export function list(name: string): string[] {
  const text = parameter(name);
  return text ? text.split(",").map(decoded) : [];
}

export function joined(names: readonly string[]): string {
  return names.map((name) => name.replace(/[%,]/g, encodeURIComponent)).join(",");
}

/** Change parameters; null or "" removes one. With `keep`, the previous view stays in the history. */
export function set(changes: Record<string, string | null>, keep = false): void {
  const next = new URL(current.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.searchParams.set(name, value);
    else next.searchParams.delete(name);
  }
  show(next, keep);
}

/** The address of a route with parameters. */
export function href(parts: readonly string[], parameters: Record<string, string> = {}): string {
  const search = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString();
  return `${base}/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

export function go(to: string): void {
  show(new URL(to, current.value), true);
}

function show(next: URL, keep: boolean): void {
  if (next.href === current.value.href) return;
  if (keep) history.pushState(null, "", next);
  else history.replaceState(history.state, "", next);
  current.value = next;
}

addEventListener("popstate", () => {
  current.value = new URL(location.href);
});

// Links within the page change the route without loading a document.
addEventListener("click", (event) => {
  const link = (event.target as Element | null)?.closest?.("a");
  const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!link || !plain || link.target || link.origin !== location.origin || link.hasAttribute("download"))
    return;
  if (!link.pathname.startsWith(`${base}/`) || link.pathname.startsWith(`${base}/api/`)) return;
  event.preventDefault();
  go(link.href);
});
