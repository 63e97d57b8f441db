// Follows the stream of changes from a token on; after a lost connection it reconnects without missing a change.

export interface Standing {
  connection: "connecting" | "connected" | "lost";
  /** Why the server cannot use its database; "": it can. */
  trouble: string;
}

export interface Told {
  standing?: Standing;
  /** Names of the jobs that changed, without ./ */
  changes?: string[];
}

export interface Address {
  url: string;
  /** The token to follow from; null: from now on. */
  since: string | null;
}

const AGAIN_MS = 3000;

export function follow({ url, since }: Address, tell: (told: Told) => void): void {
  let standing: Standing = { connection: "connecting", trouble: "" };
  let last = since;
  const stand = (change: Partial<Standing>) => {
    standing = { ...standing, ...change };
    tell({ standing });
  };
  const connect = () => {
    const address = new URL(url);
    if (last) address.searchParams.set("since", last);
    const source = new EventSource(address);
    const on = (kind: string, take: (data: Record<string, unknown>) => void) =>
      source.addEventListener(kind, (event) => {
        last = event.lastEventId || last;
        take(JSON.parse(event.data));
      });
    on("begin", () => stand({ connection: "connected", trouble: "" }));
    on("store", ({ reachable, what }) => stand({ trouble: reachable ? "" : String(what) }));
    on("changes", ({ changes }) =>
      tell({
        changes: (changes as { train_id: string | null }[]).map(({ train_id }) =>
          (train_id ?? "").replace(/^\.\//, ""),
        ),
      }),
    );
    source.onerror = () => {
      stand({ connection: "lost" });
      if (source.readyState !== EventSource.CLOSED) return; // the browser reconnects by itself
      source.close();
      setTimeout(connect, AGAIN_MS);
    };
  };
  connect();
}
