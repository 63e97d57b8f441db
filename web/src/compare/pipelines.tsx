// The dataset pipelines of one or several jobs, as trees side by side, with their differences marked.

import type { Signal } from "@preact/signals";
import type { JobId } from "../api";
import { get, jobPath, Problem } from "../client";
import { type Loaded, Show, useLoaded } from "../parts/loaded";
import { compared, type Pipeline, pipelineOf } from "../pipelines";

type Lineage = { dataset_graph?: Parameters<typeof pipelineOf>[0] };

/** Fetch the pipeline of each job; null for a job that recorded none. */
export function usePipelines(ids: readonly JobId[]): Signal<Loaded<(Pipeline | null)[]>> {
  return useLoaded(JSON.stringify(ids), (signal) => Promise.all(ids.map((id) => recorded(id, signal))));
}

async function recorded({ base, name }: JobId, signal: AbortSignal): Promise<Pipeline | null> {
  try {
    const asked = { keys: ["dataset_graph"] };
    return pipelineOf((await get<Lineage>(jobPath(base, name, "lineage"), asked, signal)).dataset_graph);
  } catch (error) {
    if (error instanceof Problem && error.kind === "lineage_file_not_found") return null;
    throw error;
  }
}

export function Pipelines({ ids, names }: { ids: readonly JobId[]; names: readonly string[] }) {
  const loaded = usePipelines(ids);
  return (
    <Show of={loaded.value}>
      {(found) => {
        const lines = compared(found);
        if (!lines.length) return <p class="quiet">No dataset pipeline was recorded.</p>;
        return (
          <section
            class="pipelines"
            aria-label="Dataset pipelines"
            tabIndex={0}
            style={{ overflow: "auto", maxHeight: "420px" }}
          >
            <table>
              <thead>
                <tr>
                  <th>from the last operation back</th>
                  {ids.map(({ base, name }, n) => (
                    <th key={`${base} ${name}`}>{names[n]}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {lines.map(({ depth, key, values, differs }, n) => (
                  <tr key={n} class={differs && ids.length > 1 ? "differs" : ""}>
                    <th scope="row" style={{ paddingLeft: `${14 * depth}px`, fontWeight: key ? 400 : 600 }}>
                      {key || "operation"}
                    </th>
                    {values.map((value, of) => (
                      <td key={`${ids[of]!.base} ${ids[of]!.name}`}>{value ?? "–"}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </section>
        );
      }}
    </Show>
  );
}
