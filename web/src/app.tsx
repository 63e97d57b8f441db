// The frame of the page: the navigation, and the view of the current route.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Behind } from "./behind";
import { shownName } from "./client";
import { ComparePage } from "./compare/page";
import { HealthPage } from "./health";
import { JobPage } from "./job/page";
import { JobsPage } from "./jobs/page";
import { Away, Connection } from "./live";
import { useKeys } from "./parts/keys";
import { Popup } from "./parts/popup";
import { dark, switchTheme } from "./parts/theme";
import { href, route } from "./state";

const KEYS: [string, string][] = [
  ["/", "to the condition"],
  ["j k", "next and previous job"],
  ["x", "select the job"],
  ["c", "compare the selected jobs"],
  ["Enter", "open the job"],
  ["e", "write its remark"],
  ["Esc", "clear the brushes"],
  ["?", "this list"],
];

export function App() {
  const first = route.value[0] || "jobs";
  const help = useSignal(false);
  useKeys((event) => {
    if (event.key === "?") help.value = !help.value;
  });
  const [, , name = "", ...rest] = route.value;
  const title = (first === "job" ? [shownName(name), ...rest] : [first]).filter(Boolean).join(" · ");
  useEffect(() => {
    document.title = `${title} · lineage_store`;
  }, [title]);
  const link = (to: string, text: string) => (
    <a href={href([to])} aria-current={first === to ? "page" : undefined}>
      {text}
    </a>
  );
  return (
    <>
      <header class="top">
        <strong>lineage_store</strong>
        <nav class="bar" aria-label="Pages">
          {link("jobs", "Jobs")}
          {link("compare", "Compare")}
          {link("health", "Health")}
        </nav>
        <span class="right">
          <Connection />
          <button type="button" onClick={switchTheme} aria-label={dark.value ? "Light theme" : "Dark theme"}>
            {dark.value ? "☀" : "☾"}
          </button>
          <button type="button" onClick={() => (help.value = true)} aria-label="Keys">
            ?
          </button>
        </span>
      </header>
      <Away />
      <Behind />
      <Route first={first} />
      {help.value && (
        <Popup label="Keys" onClose={() => (help.value = false)}>
          <h2>Keys</h2>
          <table>
            <tbody>
              {KEYS.map(([keys, what]) => (
                <tr key={keys}>
                  <td>
                    <kbd>{keys}</kbd>
                  </td>
                  <td>{what}</td>
                </tr>
              ))}
            </tbody>
          </table>
          <button type="button" onClick={() => (help.value = false)}>
            Close
          </button>
        </Popup>
      )}
    </>
  );
}

function Route({ first }: { first: string }) {
  switch (first) {
    case "jobs":
      return <JobsPage />;
    case "compare":
      return <ComparePage />;
    case "job":
      return <JobPage />;
    case "health":
      return <HealthPage />;
    default:
      return (
        <main class="empty">
          There is no page “{first}”. <a href={href(["jobs"])}>To the jobs</a>
        </main>
      );
  }
}
