// The computational graph: scopes open at a click, a search, and what goes into and comes out of a node.

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { type PayloadRow, type Place, payload } from "../api";
import { number } from "../format";
import { Show, useLoaded } from "../parts/loaded";
import { joined, list, parameter, set } from "../state";
import { BOX_HEIGHT, type GraphNode, layout, scopesOf, search, wayTo } from "./graph";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, TagPicker, useRows } from "./steps";

export function GraphTab({ job, tags }: TabProps) {
  const all = tags.tags.graph ?? [];
  const place = { plugin: "graph", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No graph was recorded.</p>;
  return (
    <section>
      {all.length > 1 && <TagPicker tags={all} />}
      <Show of={rows.value}>
        {(found) =>
          found.length ? (
            <Graph job={job} place={place} row={found[chosenRow(found)]!} />
          ) : (
            <p class="empty">No graph is left.</p>
          )
        }
      </Show>
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
  nodes: { name: string; full_name: string; op_type: string; inputs: { name: string }[] }[];
}

/** Nodes by their full names; inputs are told by the short ones. */
function nodesOf({ nodes }: WireGraph): GraphNode[] {
  const full = new Map(nodes.map((node) => [node.name, node.full_name || node.name]));
  return nodes.map((node) => ({
    name: full.get(node.name)!,
    type: node.op_type,
    inputs: node.inputs.flatMap((input) => full.get(input.name) ?? []),
  }));
}

function Picture({ nodes }: { nodes: readonly GraphNode[] }) {
  const words = useSignal("");
  const chosen = parameter("node");
  const openText = parameter("open");
  const open = useMemo(() => new Set(list("open")), [openText]);
  const scopes = useMemo(() => scopesOf(nodes), [nodes]);
  const found = useMemo(() => layout(nodes, open), [nodes, openText]);
  const boxes = new Map(found.boxes.map((box) => [box.id, box]));
  const near = new Set(
    found.edges
      .filter((edge) => edge.from === chosen || edge.to === chosen)
      .flatMap((edge) => [edge.from, edge.to]),
  );
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
      <div class="split" style={{ gridTemplateColumns: "minmax(0, 3fr) minmax(0, 1fr)" }}>
        <div
          tabIndex={0}
          role="group"
          aria-label="Graph"
          style={{ overflow: "auto", maxHeight: "70vh", border: "1px solid var(--line)" }}
        >
          <svg
            width={found.width + 20}
            height={found.height + 20}
            viewBox={`-10 -10 ${found.width + 20} ${found.height + 20}`}
            role="group"
            aria-label={`${found.boxes.length} boxes`}
          >
            {found.edges.map((edge) => {
              const [from, to] = [boxes.get(edge.from)!, boxes.get(edge.to)!];
              const lit = edge.from === chosen || edge.to === chosen;
              const [x1, y1, x2, y2] = [
                from.x + from.width / 2,
                from.y + BOX_HEIGHT,
                to.x + to.width / 2,
                to.y,
              ];
              return (
                <path
                  key={`${edge.from} ${edge.to}`}
                  d={`M${x1},${y1} C${x1},${y1 + 18} ${x2},${y2 - 18} ${x2},${y2}`}
                  fill="none"
                  stroke={lit ? "var(--accent)" : "var(--quiet)"}
                  stroke-opacity={lit || !chosen ? 0.8 : 0.25}
                  stroke-width={Math.min(4, 1 + Math.log10(edge.count))}
                />
              );
            })}
            {found.boxes.map((box) => (
              <g
                key={box.id}
                transform={`translate(${box.x},${box.y})`}
                role="button"
                tabIndex={0}
                aria-label={`${box.label}${box.nodes > 1 ? `, ${box.nodes} nodes` : ` ${box.type}`}`}
                style={{ cursor: "pointer" }}
                onClick={(event) =>
                  scopes.has(box.id) && !event.shiftKey ? toggle(box.id) : set({ node: box.id })
                }
                onKeyDown={(event) =>
                  event.key === "Enter" && (scopes.has(box.id) ? toggle(box.id) : set({ node: box.id }))
                }
              >
                <rect
                  width={box.width}
                  height={BOX_HEIGHT}
                  rx={box.nodes > 1 ? 10 : 3}
                  fill={box.id === chosen ? "var(--picked)" : "var(--panel)"}
                  stroke={box.id === chosen || near.has(box.id) ? "var(--accent)" : "var(--line)"}
                />
                <text x={box.width / 2} y={17} text-anchor="middle" font-size="11" fill="var(--ink)">
                  {box.label.length > 28 ? `${box.label.slice(0, 27)}…` : box.label}
                  {box.nodes > 1 && ` (${number(box.nodes)})`}
                </text>
                <title>{`${box.id}\n${box.type}`}</title>
              </g>
            ))}
          </svg>
        </div>
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
  const inputs = [
    ...new Set(nodes.filter((each) => inside(each.name)).flatMap((each) => each.inputs)),
  ].filter((each) => !inside(each));
  const outputs = nodes
    .filter((each) => !inside(each.name) && each.inputs.some(inside))
    .map((each) => each.name);
  const links = (names: readonly string[]) => (
    <ul>
      {names.slice(0, 100).map((each) => (
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
    </ul>
  );
  return (
    <section aria-label="Chosen node" style={{ overflowWrap: "anywhere" }}>
      <b>{name}</b> <small>{node?.type ?? `${scopes.get(name) ?? 0} nodes`}</small>
      <h2>{inputs.length} inputs</h2>
      {links(inputs)}
      <h2>{outputs.length} outputs</h2>
      {links(outputs)}
    </section>
  );
}
