import { describe, expect, it } from "vitest";
import { curvesOf } from "../src/api";
import {
  type Column,
  type Columns,
  grouped,
  renewed,
  sorted,
  type Words,
  within,
  wordOf,
} from "../src/columns";
import {
  beginning,
  type Curve,
  drawn,
  evaluated,
  isBucketed,
  means,
  rangeOf,
  restartsOf,
  spanOf,
  stepsBetween,
  upTo,
} from "../src/compare/curve";
import { contours, levelsOf } from "../src/job/contour";
import { type GraphNode, layout, scopesOf, search, shownAs, wayTo } from "../src/job/graph";
import { heatOf } from "../src/job/heat";
import { axisOf } from "../src/jobs/axes";
import { thinned } from "../src/jobs/draw";
import { compared, nodesOf, pipelineOf } from "../src/pipelines";

const jobs: Columns = {
  count: 4,
  byName: new Map([
    ["loss", { kind: "number", values: Float64Array.of(0.3, Number.NaN, 0.1, 0.3) }],
    ["network", { kind: "word", words: ["VGG", "LeNet"], codes: Int32Array.of(0, 1, -1, 1) }],
  ]),
};

describe("many jobs", () => {
  it("are sorted by several keys, what is missing last", () => {
    expect([...sorted(jobs, [0, 1, 2, 3], [{ name: "loss", down: true }])]).toEqual([0, 3, 2, 1]);
    expect([
      ...sorted(
        jobs,
        [0, 1, 2, 3],
        [
          { name: "loss", down: true },
          { name: "network", down: false },
        ],
      ),
    ]).toEqual([3, 0, 2, 1]);
    expect([...sorted(jobs, [3, 1], [])]).toEqual([3, 1]);
  });

  it("lie within all brushed axes, and within one of several brushes of an axis", () => {
    expect([...within(jobs, [{ name: "loss", low: 0.2, high: 0.4 }])]).toEqual([0, 3]);
    expect([
      ...within(jobs, [
        { name: "loss", low: 0, high: 1 },
        { name: "network", low: -0.5, high: 0.5 },
      ]),
    ]).toEqual([3]);
    expect([
      ...within(jobs, [
        { name: "loss", low: 0.2, high: 0.4 },
        { name: "loss", low: 0, high: 0.15 },
      ]),
    ]).toEqual([0, 2, 3]);
  });

  it("are renewed one by one: changed ones come first, gone ones go, new words are known", () => {
    const column = (words: string[], codes: number[]) =>
      ({ kind: "word", words, codes: Int32Array.from(codes) }) as const;
    const numbers = (...values: number[]) => ({ kind: "number", values: Float64Array.from(values) }) as const;
    const before: Columns = {
      count: 3,
      byName: new Map<string, Column>([
        ["train_id", column(["./a", "./b", "./c"], [0, 1, 2])],
        ["network", column(["VGG"], [0, -1, 0])],
        ["loss", numbers(1, 2, 3)],
        ["remark", numbers(Number.NaN, Number.NaN, Number.NaN)], // nobody has one
      ]),
    };
    const part: Columns = {
      count: 1,
      byName: new Map<string, Column>([
        ["train_id", column(["./b"], [0])],
        ["network", column(["LeNet"], [0])],
        ["loss", numbers(20)],
        ["remark", column(["good"], [0])],
      ]),
    };
    const after = renewed(before, part, new Set(["./b", "./c"]));
    const words = (name: string) => [0, 1].map((row) => wordOf(after.byName.get(name) as Words, row));
    expect([after.count, words("train_id"), words("network")]).toEqual([2, ["./b", "./a"], ["LeNet", "VGG"]]);
    expect(words("remark")).toEqual(["good", null]);
    expect(after.byName.get("loss")).toEqual(numbers(20, 1));
  });

  it("are grouped, the largest group first", () => {
    expect(grouped(jobs, [0, 1, 2, 3], "network", String).map(({ word, rows }) => [word, rows])).toEqual([
      ["LeNet", [1, 3]],
      ["VGG", [0]],
      ["", [2]],
    ]);
  });

  it("stand on an axis of words near their word, and have no place where they have none", () => {
    const axis = axisOf(jobs, "network", "network")!;
    expect(axis.ticks.map((tick) => tick.text)).toEqual(["LeNet", "VGG"]);
    expect(axis.places[1]!).toBeLessThan(0.5);
    expect(axis.places[0]!).toBeGreaterThan(0.5);
    expect(axis.places[2]!).toBeNaN();
  });
});

describe("lines", () => {
  it("are thinned evenly while an axis is brushed", () => {
    expect([...(thinned([5, 6, 7, 8, 9, 10], 3) as Int32Array)]).toEqual([5, 7, 9]);
    expect(thinned([1, 2], 3)).toEqual([1, 2]);
  });
});

describe("curves", () => {
  it("come in columns of float64 behind a header; one of zeros is left out", () => {
    const curve = { number: 2, device: 0, superseded: false, restarts: [7], thinned_count: 9, rows: 2 };
    const text = JSON.stringify({
      curves: [{ ...curve, columns: { first_step: 0, nan_count: null } }],
      missing: [],
    });
    const header = new TextEncoder().encode(text.padEnd(Math.ceil((text.length + 4) / 8) * 8 - 4));
    const buffer = new ArrayBuffer(4 + header.length + 16);
    new DataView(buffer).setUint32(0, header.length, true);
    new Uint8Array(buffer, 4).set(header);
    new Float64Array(buffer, 4 + header.length).set([1, 2 ** 53]);
    const [found] = curvesOf(buffer);
    expect([found!.job, found!.restarts, found!.thinned]).toEqual([2, [7], 9]);
    expect(found!.columns).toEqual({
      first_step: Float64Array.of(1, 2 ** 53),
      nan_count: Float64Array.of(0, 0),
    });
  });

  it("are made of what several evaluations measured", () => {
    const rows = [
      { name: "accuracy", value: 0.5, evaluation_no: 1 },
      { name: "note", value: null, evaluation_no: 1 },
      { name: "accuracy", value: null, evaluation_no: 2 },
      { name: "note", value: null, evaluation_no: 2 },
    ];
    const [found, ...others] = evaluated(rows);
    expect(others).toEqual([]);
    expect([found!.name, found!.by]).toEqual(["accuracy", "evaluation"]);
    expect(found!.curve.columns).toEqual({
      step: Float64Array.of(1, 2),
      value: Float64Array.of(0.5, Number.NaN),
    });
  });

  it("are drawn by step or epoch where each evaluation has one, beyond the last", () => {
    const by = (...places: [step: number | null, epoch: number | null][]) => {
      const rows = places.map(([step, epoch], n) => ({
        name: "accuracy",
        value: 0.5,
        evaluation_no: n + 1,
        step,
        epoch,
      }));
      const [found] = evaluated(rows);
      return [found!.by, ...found!.curve.columns.step!];
    };
    expect(by([100, 1], [200, 2])).toEqual(["step", 100, 200]);
    expect(by([null, 0], [200, 2])).toEqual(["epoch", 0, 2]);
    expect(by([100, 1], [null, null])).toEqual(["evaluation", 1, 2]);
    expect(by([100, 1], [200, 2], [100, 2])).toEqual(["evaluation", 1, 2, 3]);
  });

  const samples: Curve = {
    job: 0,
    device: 0,
    superseded: false,
    restarts: [],
    began: 90,
    columns: {
      step: Float64Array.of(1, 2, 3),
      wall_time: Float64Array.of(100, 110, 120),
      value: Float64Array.of(1, Number.NaN, 3),
    },
  };
  const buckets: Curve = {
    ...samples,
    columns: Object.fromEntries(
      Object.entries({
        first_step: [0, 10],
        first_wall_time: [0, 10],
        first: [1, 1],
        last_step: [9, 19],
        last_wall_time: [9, 19],
        last: [1, 1],
        min_step: [3, 12],
        min: [1, 1],
        max_step: [4, 13],
        max: [1, 900],
        count: [10, 10],
        nan_count: [0, 2],
      }).map(([name, values]) => [name, Float64Array.from(values)]),
    ),
  };

  it("break where there is no number, and tell it", () => {
    const found = drawn(samples, "step", 0, 0);
    expect([...found.y]).toEqual([1, Number.NaN, 3]);
    expect(found.odd).toEqual([{ x: 2, kind: "nan", count: 1 }]);
  });

  it("stand by time since their job began, or by the clock", () => {
    expect(beginning([samples, { ...samples, began: 95 }])).toBe(90);
    expect([...drawn(samples, "relative", 0, 100).x]).toEqual([0, 10, 20]);
    expect([...drawn(samples, "wall", 0, 100).x]).toEqual([100, 110, 120]);
  });

  it("are asked for anew by the steps of what was zoomed into", () => {
    const [fine, coarse] = [drawn(samples, "wall", 0, 0), drawn(buckets, "wall", 0, 0)];
    expect(stepsBetween([fine], 105, 125)).toEqual([2, 4]);
    expect(stepsBetween([coarse], 5, 8)).toEqual([0, 10]);
    expect(stepsBetween([coarse, fine], 15, 110)).toEqual([1, 20]);
    expect(stepsBetween([fine, coarse], 50, 60)).toBeNull();
  });

  it("show a bucket's extremes as a box and its ends as the line", () => {
    expect([isBucketed(samples), isBucketed(buckets)]).toEqual([false, true]);
    const found = drawn(buckets, "step", 0, 0);
    expect([...found.x]).toEqual([0, 9, 10, 19]);
    expect([...found.boxes!.high]).toEqual([1, 900]);
    expect(found.odd).toEqual([{ x: 14.5, kind: "nan", count: 2 }]);
  });

  it("are not flattened by one spike", () => {
    const value = Float64Array.from({ length: 1000 }, (_, n) => (n === 500 ? 1e6 : n / 1000));
    const step = Float64Array.from(value.keys());
    const flat = drawn({ ...samples, columns: { step, wall_time: step, value } }, "step", 0, 0);
    expect(rangeOf([flat], false)![1]).toBeLessThan(10);
  });

  it("are found under the pointer, in order or not", () => {
    expect([0, 1, 2.5, 9].map((x) => upTo(Float64Array.of(1, 2, 3), x))).toEqual([-1, 0, 1, 2]);
    expect([4, 5, 6, 8, 9].map((x) => upTo(Float64Array.of(5, 7, 9, 6, 8), x))).toEqual([-1, 0, 3, 4, 2]);
  });

  it("are seen from their least to their greatest time, though the clock was set back", () => {
    const columns = {
      ...samples.columns,
      wall_time: Float64Array.of(100, 130, 40),
      value: Float64Array.of(1, 3, 2),
    };
    const back = drawn({ ...samples, columns }, "wall", 0, 0);
    expect(spanOf([back, drawn(samples, "wall", 0, 0)])).toEqual([40, 130]);
    expect(spanOf([])).toEqual([0, 1]);
    expect(spanOf([{ ...back, x: Float64Array.of(5) }])).toEqual([4, 6]);
    const [mean] = means([back], () => 0);
    expect([mean!.x[0], mean!.x.at(-1), mean!.y[0], mean!.y.at(-1)]).toEqual([40, 130, 2, 3]);
    expect(mean!.y.every((value) => value >= 1 && value <= 3)).toBe(true);
  });
});

describe("restarts", () => {
  it("stand at the first sample from their step on, whatever the x axis", () => {
    const curve: Curve = {
      job: 0,
      device: 0,
      superseded: false,
      restarts: [15],
      began: 0,
      columns: {
        step: Float64Array.of(0, 10, 20),
        wall_time: Float64Array.of(100, 200, 900),
        value: Float64Array.of(1, 2, 3),
      },
    };
    expect(restartsOf(drawn(curve, "step", 0, 100), "step")).toEqual([15]);
    expect(restartsOf(drawn(curve, "relative", 0, 100), "relative")).toEqual([800]);
    const superseded = drawn({ ...curve, superseded: true }, "relative", 0, 100);
    expect(restartsOf(superseded, "relative")).toEqual([]);
  });
});

describe("graphs", () => {
  const nodes: GraphNode[] = [
    { name: "data", type: "Data", inputs: [] },
    { name: "net/conv/op1", type: "Conv2D", inputs: ["data"] },
    { name: "net/conv/op2", type: "Bias", inputs: ["net/conv/op1"] },
    { name: "net/loss", type: "Loss", inputs: ["net/conv/op2", "data"] },
  ];

  it("show scopes closed, and what is in those that are open", () => {
    expect(scopesOf(nodes)).toEqual(
      new Map([
        ["net", 3],
        ["net/conv", 2],
      ]),
    );
    expect(layout(nodes, new Set()).boxes.map((box) => box.id)).toEqual(["data", "net"]);
    const opened = layout(nodes, new Set(["net"]));
    expect(opened.boxes.map((box) => [box.id, box.layer])).toEqual([
      ["data", 0],
      ["net/conv", 1],
      ["net/loss", 2],
    ]);
    expect(opened.edges).toHaveLength(3);
    expect(shownAs("net/conv/op1", new Set(["net"]), (id) => scopesOf(nodes).has(id))).toBe("net/conv");
  });

  it("survive circles", () => {
    const circle = [
      { name: "a", type: "", inputs: ["b"] },
      { name: "b", type: "", inputs: ["a"] },
    ];
    expect(layout(circle, new Set()).boxes).toHaveLength(2);
  });

  it("are searched by name and type", () => {
    expect(search(nodes, "conv BIAS").map((node) => node.name)).toEqual(["net/conv/op2"]);
    expect(wayTo("net/conv/op2")).toEqual(["net", "net/conv"]);
  });

  it("lay out thousands of nodes", () => {
    const many = Array.from({ length: 5000 }, (_, n) => ({
      name: `s${n % 50}/n${n}`,
      type: "X",
      inputs: n ? [`s${(n - 1) % 50}/n${n - 1}`] : [],
    }));
    expect(layout(many, new Set(["s1", "s2"])).boxes).toHaveLength(48 + 200);
  });
});

describe("landscapes", () => {
  it("have lines where the loss crosses a level", () => {
    const [line] = contours(
      [
        [0, 0],
        [1, 1],
      ],
      [0.5],
    );
    expect([line!.y1, line!.y2]).toEqual([0.5, 0.5]);
    expect(
      contours(
        [
          [0, Number.NaN],
          [1, 1],
        ],
        [0.5],
      ),
    ).toEqual([]);
    expect(levelsOf([[1, 1]])).toEqual([]);
    expect(
      levelsOf(
        [
          [0, 1],
          [2, 3],
        ],
        2,
      ),
    ).toEqual([0, 2]);
  });
});

describe("histograms", () => {
  it("share what overlaps several ranges among them", () => {
    const heat = heatOf(
      [
        {
          step: 1,
          buckets: [
            [0, 2, 10],
            [2, 2, 30],
          ],
        },
      ],
      4,
    )!;
    expect([heat.low, heat.high]).toEqual([0, 4]);
    expect([...heat.columns[0]!]).toEqual([0.125, 0.125, 0.375, 0.375]);
  });

  it("may be of one value, or of none", () => {
    expect(heatOf([{ step: 1, buckets: [[3, 0, 5]] }])!.greatest).toBe(1);
    expect(heatOf([{ step: 1, buckets: [] }])).toBeNull();
  });
});

describe("pipelines", () => {
  it("are graphs whose sources come first", () => {
    const source = { op_type: "MNIST", children: [] };
    const nodes = nodesOf(pipelineOf({ op_type: "Zip", children: [source, source] })!);
    expect(nodes.map(({ name, inputs }) => [name, inputs])).toEqual([
      ["0/MNIST", []],
      ["1/MNIST", []],
      ["2/Zip", ["0/MNIST", "1/MNIST"]],
    ]);
    expect(layout(nodes, new Set()).boxes.map(({ label, layer }) => [label, layer])).toEqual([
      ["MNIST", 0],
      ["MNIST", 0],
      ["Zip", 1],
    ]);
  });

  it("are none where nothing was recorded", () => {
    expect([pipelineOf(undefined), pipelineOf({})]).toEqual([null, null]);
  });

  it("are compared line by line", () => {
    const one = pipelineOf({
      op_type: "Batch",
      batch_size: 32,
      children: [{ op_type: "MNIST", children: [] }],
    });
    const two = pipelineOf({ op_type: "Batch", batch_size: 64, children: [] });
    expect(compared([one, two]).map(({ key, values, differs }) => [key, values, differs])).toEqual([
      ["", ["Batch", "Batch"], false],
      ["batch_size", ["32", "64"], true],
      ["", ["MNIST", undefined], true],
    ]);
    const mapped = pipelineOf({ op_type: "Map", operations: [{ tensor_op_name: "Resize", size: [2, 3] }] });
    expect(compared([mapped])[1]!.values).toEqual(["Resize(size=2, 3)"]);
  });
});
