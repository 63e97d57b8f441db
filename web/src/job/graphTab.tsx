// The computational graph: scopes that open at a click, a search, and the inputs and outputs of a node.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { type PayloadRow, type Place, payload } from "../api";
import { counted, number } from "../format";
import { Facts } from "../health";
import { Show, useLoaded } from "../parts/loaded";
import { joined, list, parameter, set } from "../state";
import { Boxes } from "./boxes";
import { type GraphNode, layout, scopesOf, search, wayTo } from "./graph";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, ShowRows, TagPicker, useRows } from "./steps";

const MOST_LINKS = 100;

export function GraphTab({ job, tags }: TabProps) {
  const all = tags.tags.graph ?? [];
  const place = { plugin: "graph", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No graph was recorded.</p>;
  return (
    <section>
      {all.length > 1 && <TagPicker tags={all} />}
      <ShowRows of={rows}>
        {(found) =>
          found.length ? (
            <Graph job={job} place={place} row={found[chosenRow(found)]!} />
          ) : (
            <p class="empty">No graph is left.</p>
          )
        }
      </ShowRows>
    </section>
  );
}

function Graph({ job, place, row }: { job: TabProps["job"]; place: Place; row: PayloadRow }) {
  const loaded = useLoaded(JSON.stringify([job, place, row.step]), async (signal) =>
    nodesOf(await payload<WireGraph>(job, place, row, {}, signal)),
  );
  return <Show of={loaded.value}>{(nodes) => <Picture nodes={nodes} />}</Show>;
}

interface WireGraph {
  nodes: {
    name: string;
    full_name: string;
    op_type: string;
    inputs: { name: string }[];
    attributes: Record<string, unknown>;
    output_type: { dtype?: string; shape?: number[] | null } | null;
  }[];
}

/** Name nodes by their full names; the server names inputs by short ones. */
function nodesOf({ nodes }: WireGraph): GraphNode[] {
  const full = new Map(nodes.map((node) => [node.name, node.full_name || node.name]));
  return nodes.map((node) => ({
    name: full.get(node.name)!,
    type: node.op_type,
    inputs: node.inputs.flatMap((input) => full.get(input.name) ?? []),
    given: node.inputs.filter((input) => !full.has(input.name)).map((input) => input.name),
    facts: [
      ["output", [node.output_type?.dtype, node.output_type?.shape?.join(" × ")].filter(Boolean).join(" ")],
      ...Object.entries(node.attributes),
    ],
  }));
}

function Picture({ nodes }: { nodes: readonly GraphNode[] }) {
  const words = useSignal("");
  const chosen = parameter("node");
  const openText = parameter("open");
  const open = useMemo(() => new Set(list("open")), [openText]);
  const scopes = useMemo(() => scopesOf(nodes), [nodes]);
  const found = useMemo(() => layout(nodes, open), [nodes, openText]);
  const toggle = (id: string) => {
    const next = new Set(open);
    if (!next.delete(id)) next.add(id);
    set({ open: joined([...next]), node: id });
  };
  return (
    <>
      <div class="bar">
        <input
          type="search"
          aria-label="Search nodes"
          placeholder={`search ${number(nodes.length)} nodes`}
          value={words.value}
          onInput={(event) => (words.value = event.currentTarget.value)}
        />
        {open.size > 0 && (
          <button type="button" onClick={() => set({ open: null })}>
            Close all scopes
          </button>
        )}
        <small>click a scope to open it, Shift-click to choose it</small>
      </div>
      {words.value && (
        <ul>
          {search(nodes, words.value).map((node) => (
            <li key={node.name}>
              <button
                type="button"
                onClick={() =>
                  set({
                    open: joined([
                      ...new Set([...open, ...wayTo(node.name).filter((scope) => scopes.has(scope))]),
                    ]),
                    node: node.name,
                  })
                }
              >
                {node.name} <small>{node.type}</small>
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="split graph">
        <Boxes
          label="Graph"
          found={found}
          chosen={chosen}
          onPick={(id, only) => (scopes.has(id) && !only ? toggle(id) : set({ node: id }))}
        />
        <Chosen nodes={nodes} name={chosen} open={open} scopes={scopes} />
      </div>
    </>
  );
}

function Chosen({
  nodes,
  name,
  open,
  scopes,
}: {
  nodes: readonly GraphNode[];
  name: string;
  open: ReadonlySet<string>;
  scopes: ReadonlyMap<string, number>;
}) {
  const node = nodes.find((each) => each.name === name);
  if (!name) return <p class="quiet">Choose a node to see what goes into it and what comes out.</p>;
  const inside = (each: string) => each === name || each.startsWith(`${name}/`);
  const own = nodes.filter((each) => inside(each.name));
  const inputs = [...new Set(own.flatMap((each) => each.inputs))].filter((each) => !inside(each));
  const given = [...new Set(own.flatMap((each) => each.given ?? []))];
  const facts = (node?.facts ?? []).filter(([, value]) => value !== "");
  const outputs = nodes
    .filter((each) => !inside(each.name) && each.inputs.some(inside))
    .map((each) => each.name);
  const links = (names: readonly string[]) => (
    <ul>
      {names.slice(0, MOST_LINKS).map((each) => (
        <li key={each}>
          <button
            type="button"
            onClick={() =>
              set({
                node: each,
                open: joined([...new Set([...open, ...wayTo(each).filter((scope) => scopes.has(scope))])]),
              })
            }
          >
            {each}
          </button>
        </li>
      ))}
      {names.length > MOST_LINKS && <li>and {number(names.length - MOST_LINKS)} more</li>}
    </ul>
  );
  return (
    <section aria-label="Chosen node" style={{ overflowWrap: "anywhere" }}>
      <b>{name}</b> <small>{node?.type ?? counted(scopes.get(name) ?? 0, "node")}</small>
      {facts.length > 0 && <Facts verbatim facts={facts} />}
      <h2>{counted(inputs.length, "input")}</h2>
      {links(inputs)}
      {given.length > 0 && (
        <>
          <h2>{counted(given.length, "parameter or constant", "parameters and constants")}</h2>
          <p class="mono">
            {given.slice(0, MOST_LINKS).join(", ")}
            {given.length > MOST_LINKS && ` and ${number(given.length - MOST_LINKS)} more`}
          </p>
        </>
      )}
      <h2>{counted(outputs.length, "output")}</h2>
      {links(outputs)}
    </section>
  );
}
