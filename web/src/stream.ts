// The stream of changes, followed from a token on: connected again where it breaks, without missing anything.

export interface Standing {
  connection: "connecting" | "connected" | "lost";
  /** What keeps the server from its database; "": nothing. */
  trouble: string;
}

export interface Told {
  standing?: Standing;
  /** Names of jobs that changed, without ./ */
  changes?: string[];
}

export interface Address {
  url: string;
  /** Where the first answer stood; null: from now on. */
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
      if (source.readyState !== EventSource.CLOSED) return; // else the browser itself connects again
      source.close();
      setTimeout(connect, AGAIN_MS);
    };
  };
  connect();
}
