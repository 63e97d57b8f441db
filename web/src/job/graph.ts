// Layout of a computational graph with collapsed scopes: the visible boxes, their edges and positions. Pure.

export interface GraphNode {
  name: string; // with scopes, as in Default/network/conv1/Conv2D-op1
  type: string;
  inputs: readonly string[];
  /** Inputs that are not nodes: parameters and constants. */
  given?: readonly string[];
  /** Further properties to show. */
  facts?: readonly [string, unknown][];
}

export interface Box {
  id: string;
  label: string;
  type: string; // "" for a scope
  nodes: number; // number of nodes inside
  x: number;
  y: number;
  width: number;
  layer: number;
}

export interface Edge {
  from: string;
  to: string;
  count: number;
}

export interface Layout {
  boxes: Box[];
  edges: Edge[];
  width: number;
  height: number;
}

export const BOX_HEIGHT = 26;
const LAYER = 58;
const GAP = 14;

/** The box that shows a node: its outermost scope that is not open, or the node itself. */
export function shownAs(name: string, open: ReadonlySet<string>, isScope: (id: string) => boolean): string {
  const parts = name.split("/");
  for (let depth = 1; depth < parts.length; depth += 1) {
    const scope = parts.slice(0, depth).join("/");
    if (isScope(scope) && !open.has(scope)) return scope;
  }
  return name;
}

/** The scopes of all nodes, with the number of nodes in each; scopes with a single node are left out. */
export function scopesOf(nodes: readonly GraphNode[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { name } of nodes) {
    for (let at = name.indexOf("/"); at > 0; at = name.indexOf("/", at + 1)) {
      const scope = name.slice(0, at);
      counts.set(scope, (counts.get(scope) ?? 0) + 1);
    }
  }
  for (const [scope, count] of counts) if (count < 2) counts.delete(scope);
  return counts;
}

export function layout(nodes: readonly GraphNode[], open: ReadonlySet<string>): Layout {
  const scopes = scopesOf(nodes);
  const isScope = (id: string) => scopes.has(id);
  const of = new Map(nodes.map((node) => [node.name, shownAs(node.name, open, isScope)]));
  const types = new Map(nodes.map((node) => [node.name, node.type]));
  const edges = edgesOf(nodes, of);
  const ids = [...new Set(of.values())];
  return placed(ids, edges, layersOf(ids, edges), (id) => ({
    label: id.slice(id.lastIndexOf("/") + 1),
    type: types.get(id) ?? "",
    nodes: scopes.get(id) ?? 1,
  }));
}

function edgesOf(nodes: readonly GraphNode[], of: ReadonlyMap<string, string>): Edge[] {
  const found = new Map<string, Edge>();
  for (const node of nodes) {
    const to = of.get(node.name)!;
    for (const input of node.inputs) {
      const from = of.get(input);
      if (from === undefined || from === to) continue;
      const key = `${from}\n${to}`;
      const edge = found.get(key);
      if (edge) edge.count += 1;
      else found.set(key, { from, to, count: 1 });
    }
  }
  return [...found.values()];
}

/** The length of the longest path to each box. Edges that close a cycle, which scopes can form, are ignored. */
function layersOf(ids: readonly string[], edges: readonly Edge[]): Map<string, number> {
  const outputs = new Map<string, string[]>();
  for (const { from, to } of edges) outputs.set(from, [...(outputs.get(from) ?? []), to]);
  const waiting = new Map(ids.map((id) => [id, 0]));
  for (const { to } of edges) waiting.set(to, waiting.get(to)! + 1);
  const layers = new Map<string, number>(ids.map((id) => [id, 0]));
  const done = new Set<string>();
  let ready = ids.filter((id) => waiting.get(id) === 0);
  while (done.size < ids.length) {
    if (!ready.length) ready = [ids.find((id) => !done.has(id))!]; // a cycle: start anywhere in it
    const next: string[] = [];
    for (const id of ready) {
      if (done.has(id)) continue;
      done.add(id);
      for (const to of outputs.get(id) ?? []) {
        if (done.has(to)) continue;
        layers.set(to, Math.max(layers.get(to)!, layers.get(id)! + 1));
        waiting.set(to, waiting.get(to)! - 1);
        if (waiting.get(to) === 0) next.push(to);
      }
    }
    ready = next;
  }
  return layers;
}

function placed(
  ids: readonly string[],
  edges: readonly Edge[],
  layers: ReadonlyMap<string, number>,
  about: (id: string) => Pick<Box, "label" | "type" | "nodes">,
): Layout {
  const inputs = new Map<string, string[]>();
  for (const { from, to } of edges) inputs.set(to, [...(inputs.get(to) ?? []), from]);
  const rows: string[][] = [];
  for (const id of ids) {
    const layer = layers.get(id)!;
    rows[layer] = [...(rows[layer] ?? []), id];
  }
  const boxes = new Map<string, Box>();
  let width = 0;
  rows.forEach((row, layer) => {
    const centre = (id: string) => {
      const before = (inputs.get(id) ?? []).flatMap((from) => boxes.get(from) ?? []);
      return before.length ? before.reduce((sum, box) => sum + box.x + box.width / 2, 0) / before.length : 0;
    };
    const order = layer ? [...row].sort((a, b) => centre(a) - centre(b)) : row;
    let x = 0;
    for (const id of order) {
      const found = about(id);
      const size = Math.min(
        240,
        40 + 7 * Math.max(found.label.length, found.type.length + (found.nodes > 1 ? 8 : 0)),
      );
      x = Math.max(x, centre(id) - size / 2);
      boxes.set(id, { id, ...found, layer, x, y: layer * LAYER, width: size });
      x += size + GAP;
    }
    width = Math.max(width, x);
  });
  return { boxes: [...boxes.values()], edges: [...edges], width, height: rows.length * LAYER + BOX_HEIGHT };
}

/** At most `most` nodes whose name and type contain all words of a search. */
export function search(nodes: readonly GraphNode[], text: string, most = 50): GraphNode[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found: GraphNode[] = [];
  for (const node of nodes) {
    const whole = `${node.name} ${node.type}`.toLowerCase();
    if (words.every((word) => whole.includes(word))) found.push(node);
    if (found.length === most) break;
  }
  return found;
}

/** The scopes that must be open for a node to be visible. */
export function wayTo(name: string): string[] {
  const parts = name.split("/");
  return parts.slice(0, -1).map((_, depth) => parts.slice(0, depth + 1).join("/"));
}
