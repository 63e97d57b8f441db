// HTTP requests to the server, and its problems as errors with texts for people.

/** A problem that the server answered (application/problem+json), or that the server cannot be reached. */
export class Problem extends Error {
  constructor(
    readonly kind: string,
    readonly status: number,
    detail: string,
    readonly remedy: string,
  ) {
    super(detail);
  }

  /** Whether a retry may succeed. */
  get passes(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 503;
  }
}

export type Parameters = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export function url(path: string, parameters: Parameters = {}): URL {
  const found = new URL(`api/v1/${path}`, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) {
    if (value === null || value === undefined || value === "") continue;
    for (const each of Array.isArray(value) ? value : [value]) found.searchParams.append(name, String(each));
  }
  return found;
}

export async function get<T>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  return (await ask(url(path, parameters), signal ? { signal } : {})).json();
}

export async function send<T>(
  method: "PUT" | "POST",
  path: string,
  body: unknown,
  signal?: AbortSignal,
): Promise<T> {
  return (await sent(method, path, body, signal)).json();
}

export function sent(
  method: "PUT" | "POST",
  path: string,
  body: unknown,
  signal?: AbortSignal,
): Promise<Response> {
  const headers = { "content-type": "application/json" };
  const keepalive = method === "PUT"; // finish the request even if the page is closed at once
  const options = { method, headers, keepalive, body: JSON.stringify(body) };
  return ask(url(path), { ...options, ...(signal ? { signal } : {}) });
}

/** Fetch an address. Throws the server's problem if that fails. */
export async function canBeHad(address: string, signal: AbortSignal): Promise<boolean> {
  return (await ask(new URL(address), { signal })).ok;
}

let answered: (since: string | null) => void;
/** The token of the store's changes that the first answer carried; null if it carried none. */
export const firstAnswer = new Promise<string | null>((resolve) => {
  answered = resolve;
});

async function ask(address: URL, options: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(address, { credentials: "same-origin", ...options });
    answered(response.headers.get("lineage-since"));
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    answered(null);
    throw new Problem(
      "unreachable",
      0,
      "The server does not answer.",
      "Is it running? The page tries again by itself.",
    );
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Problem(
    told.kind ?? "failed",
    response.status,
    told.detail ?? response.statusText,
    told.remedy ?? "",
  );
}

/**
 * The path of a job or of a part of it. A slash always follows the name: without it, the path of a job `a/tags` would
 * mean the tags of the job `a`.
 */
export function jobPath(base: string, name: string, part = ""): string {
  return `jobs/${encodeURIComponent(base)}/${encodeURIComponent(name)}/${part}`;
}

/** The name of a job for people. The job whose directory is the base dir itself has an empty name. */
export function shownName(name: string): string {
  return name || "./";
}
