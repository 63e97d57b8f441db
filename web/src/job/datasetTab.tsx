// The dataset pipeline as a graph, from its sources to the operation whose output the training reads; and as a list.

import { useMemo } from "preact/hooks";
import { shownName } from "../client";
import { Pipelines, usePipelines } from "../compare/pipelines";
import { Facts } from "../health";
import { Show } from "../parts/loaded";
import { nodesOf, type Pipeline } from "../pipelines";
import { parameter, set } from "../state";
import { Boxes } from "./boxes";
import { layout } from "./graph";
import type { TabProps } from "./page";

export function DatasetTab({ job }: TabProps) {
  const loaded = usePipelines([job]);
  return (
    <Show of={loaded.value}>
      {([pipeline]) => (
        <>
          {pipeline && <Picture pipeline={pipeline} />}
          <Pipelines ids={[job]} names={[shownName(job.name)]} />
        </>
      )}
    </Show>
  );
}

function Picture({ pipeline }: { pipeline: Pipeline }) {
  const nodes = useMemo(() => nodesOf(pipeline), [pipeline]);
  const found = useMemo(() => layout(nodes, new Set()), [nodes]);
  const chosen = nodes.find(({ name }) => name === parameter("node"));
  return (
    <div class="split">
      <Boxes
        label="Dataset pipeline"
        found={found}
        chosen={chosen?.name ?? ""}
        onPick={(id) => set({ node: id })}
      />
      {chosen ? (
        <section aria-label="Chosen operation">
          <b>{chosen.type}</b>
          <Facts verbatim facts={Object.entries(chosen.of.parameters)} />
        </section>
      ) : (
        <p class="quiet">Choose an operation to see its parameters.</p>
      )}
    </div>
  );
}
