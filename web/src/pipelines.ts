// Dataset pipelines as trees, and the line by line comparison of several pipelines. Pure.

export interface Pipeline {
  operation: string;
  parameters: Record<string, unknown>;
  children: Pipeline[];
}

type Raw = Record<string, unknown> & { children?: Raw[] };

/** Read a pipeline in MindInsight's form, in which the parameters stand beside `op_type` and `children`. */
export function pipelineOf(raw: Raw | null | undefined): Pipeline | null {
  if (!raw || !Object.keys(raw).length) return null;
  const { children = [], op_type, op_module, ...parameters } = raw;
  return {
    operation: String(op_type ?? op_module ?? "pipeline"),
    parameters,
    children: children.flatMap((child) => pipelineOf(child) ?? []),
  };
}

export interface PipelineNode {
  name: string;
  type: string;
  inputs: string[];
  of: Pipeline;
}

/** The operations as nodes of a graph, in which the children of an operation are its inputs. */
export function nodesOf(pipeline: Pipeline): PipelineNode[] {
  const nodes: PipelineNode[] = [];
  const add = (of: Pipeline): string => {
    const inputs = of.children.map(add);
    const name = `${nodes.length}/${of.operation.replaceAll("/", "_")}`;
    nodes.push({ name, type: of.operation, inputs, of });
    return name;
  };
  add(pipeline);
  return nodes;
}

export interface Line {
  depth: number;
  key: string;
  /** One per pipeline; undefined if the pipeline has no such line. */
  values: (string | undefined)[];
  differs: boolean;
}

/** One line per operation or parameter, matched across pipelines by position in the tree and by parameter name. */
export function compared(pipelines: readonly (Pipeline | null)[]): Line[] {
  const lines: Line[] = [];
  const walk = (nodes: readonly (Pipeline | undefined)[], depth: number) => {
    add(
      lines,
      depth,
      "",
      nodes.map((node) => node?.operation),
    );
    const names = new Set(nodes.flatMap((node) => Object.keys(node?.parameters ?? {})));
    for (const name of [...names].sort())
      add(
        lines,
        depth + 1,
        name,
        nodes.map((node) => shown(node?.parameters[name])),
      );
    const most = Math.max(0, ...nodes.map((node) => node?.children.length ?? 0));
    for (let n = 0; n < most; n += 1)
      walk(
        nodes.map((node) => node?.children[n]),
        depth + 1,
      );
  };
  walk(
    pipelines.map((pipeline) => pipeline ?? undefined),
    0,
  );
  return lines;
}

function add(lines: Line[], depth: number, key: string, values: (string | undefined)[]): void {
  if (values.every((value) => value === undefined)) return;
  lines.push({ depth, key, values, differs: new Set(values).size > 1 });
}

function shown(value: unknown): string | undefined {
  return value === undefined ? undefined : written(value);
}

/** The text of a value; an operation is written as a call. */
function written(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value)) return value.map(written).join(", ");
  if (value === null || typeof value !== "object") return String(value ?? "none");
  const { tensor_op_module: _, tensor_op_name, sampler_type, ...rest } = value as Record<string, unknown>;
  const parts = Object.entries(rest).map(([name, each]) => `${name}=${written(each)}`);
  return `${tensor_op_name ?? sampler_type ?? ""}(${parts.join(", ")})`;
}
