import { describe, expect, it } from "vitest";
import type { Names } from "../src/api";
import { jobPath, shownName } from "../src/client";
import { ago, bytes, counted, duration, lag, number, time } from "../src/format";
import { known, measured } from "../src/job/values";
import { asksFor, completions, terms } from "../src/jobs/condition";
import { extent, fitting, labelled, linear, logarithmic, ticksBetween } from "../src/scales";
import { smoothed } from "../src/smoothing";
import { FEWEST_JOBS, rankCorrelation, ranks } from "../src/statistics";

describe("numbers and times", () => {
  it.each([
    [0, "0"],
    [12345, "12,345"],
    [-3, "−3"],
    [0.123456, "0.1235"],
    [0.00001234, "1.234e−5"],
    [1.5e9 + 0.5, "1.5e9"],
    [Number.NaN, "NaN"],
    [Number.NEGATIVE_INFINITY, "−∞"],
    [null, ""],
  ])("writes %s as %s", (value, text) => expect(number(value)).toBe(text));

  it("writes sizes, durations and counts in their largest units", () => {
    expect([bytes(0), bytes(1536), bytes(3 * 2 ** 40)]).toEqual(["0 B", "1.5 KiB", "3 TiB"]);
    expect([
      duration(0.25),
      duration(59),
      duration(61),
      duration(3700),
      duration(90000),
      duration(7200),
      duration(0),
    ]).toEqual(["250 ms", "59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h", "2 h", "0 s"]);
    const [clock, day] = [3600 + 61, 86400];
    expect([-clock, day + clock].map((seconds) => duration(seconds))).toEqual(["−1 h 1 min", "1 d 1 h"]);
    expect([
      duration(day + clock, 600),
      duration(day + clock, 30),
      duration(12.345, 0.001),
      duration(clock + 0.1, 0.1),
      duration(day, 600),
    ]).toEqual(["1 d 1 h 1 min", "1 d 1 h 1 min 1 s", "12.345 s", "1 h 1 min 1.1 s", "1 d"]);
    expect([counted(1, "job"), counted(10000, "job")]).toEqual(["1 job", "10,000 jobs"]);
  });

  it("says how far a standby is behind", () => {
    const lagging = { is_up: true, lag_s: 61, lag_bytes: 1536, shows: null };
    expect(lag(lagging)).toBe("It is 1 min 1 s (1.5 KiB) behind the primary.");
    expect(lag({ ...lagging, lag_s: null, lag_bytes: null })).toBe("How far it is behind is unknown.");
    expect(lag({ ...lagging, is_up: false })).toBe("It does not answer.");
  });

  it("leaves out the date of today, and says how long ago a moment was", () => {
    const now = new Date(2026, 10, 23, 12, 0, 0);
    expect(time(new Date(2026, 10, 23, 9, 5, 1).toISOString(), now)).toBe("09:05:01");
    expect(time(new Date(2026, 10, 22, 9, 5, 1).toISOString(), now)).toBe("2026-11-22 09:05:01");
    expect(ago(new Date(now.getTime() - 65_000).toISOString(), now.getTime())).toBe("1 min 5 s ago");
  });
});

describe("jobs", () => {
  it("are asked for with a slash behind, so that no name is read as a part of another job", () => {
    expect(jobPath("key", "a/tags")).toBe("jobs/key/a%2Ftags/");
    expect(jobPath("key", "a/tags", "files")).toBe("jobs/key/a%2Ftags/files");
  });

  it("have a name for people, also one that is the base dir itself", () => {
    expect([shownName("a"), shownName("")]).toEqual(["a", "./"]);
  });

  it("have numbers that are not finite", () => {
    const job = {
      loss: null,
      loss_kind: "nan",
      rate: "-Infinity",
      rate_kind: "-inf",
      size: 2,
      size_kind: "finite",
    };
    const rest = { network: "LeNet5", optimizer: null, remark: "", odd_kind: "x" };
    expect(known({ ...job, ...rest })).toEqual([
      ["loss", Number.NaN],
      ["rate", Number.NEGATIVE_INFINITY],
      ["size", 2],
      ["network", "LeNet5"],
      ["odd_kind", "x"],
    ]);
    expect(known({ loss: null, loss_kind: null })).toEqual([]);
  });

  it("have metrics that are numbers, true or false, or texts", () => {
    expect(measured({ value: null, kind: "nan" })).toBeNaN();
    expect(measured({ value: "Infinity", kind: "+inf" })).toBe(Number.POSITIVE_INFINITY);
    expect(measured({ value: 0, kind: "bool" })).toBe(false);
    expect(measured({ value: 1, kind: "int" })).toBe(1);
    expect(measured({ value: null, kind: "text" })).toBeNull();
  });
});

describe("scales", () => {
  it("takes a log axis by itself where positive values span decades", () => {
    expect(fitting([1e-5, 0.1]).kind).toBe("log");
    expect(fitting([0, 0.1]).kind).toBe("linear");
    expect(fitting([1, 50]).kind).toBe("linear");
    expect(fitting([0.001, 0.01, 0.1, 0.1, 0.01, 0.001]).kind).toBe("log");
    const even = Array.from({ length: 1000 }, (_, n) => (n + 0.01) / 1000);
    expect(fitting(even).kind).toBe("linear"); // the few that are very small do not count
  });

  it("ignores what is not finite, and has a place for a single value", () => {
    expect(extent([Number.NaN, 3, Number.POSITIVE_INFINITY, 1])).toEqual([1, 3]);
    expect(extent([Number.NaN])).toBeNull();
    expect(linear(2, 2).at(2)).toBe(0.5);
  });

  it("finds the value that stands at a place", () => {
    for (const scale of [linear(-2, 8), logarithmic(1e-4, 10)]) {
      for (const place of [0, 0.3, 1]) expect(scale.at(scale.value(place))).toBeCloseTo(place);
    }
  });

  it("has round ticks", () => {
    expect(ticksBetween(0, 1)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(logarithmic(1e-3, 10).ticks).toEqual([0.001, 0.01, 0.1, 1, 10]);
    expect(logarithmic(1e-323, Number.POSITIVE_INFINITY).ticks.length).toBeLessThan(12);
    expect(logarithmic(0.999, 0.9999).ticks).toEqual([0.999, 0.9992, 0.9994, 0.9996, 0.9998]);
  });

  const extremes = [
    0,
    5e-324,
    1e-323,
    5e-323,
    2.2e-308,
    1e-300,
    1e-16,
    0.1,
    0.9,
    1,
    12345,
    2 ** 53,
    1e250,
    1e308,
  ];
  const ends = [...extremes, Number.MAX_VALUE].flatMap((size) => [size, -size]);
  /** A number of any sign and size, the next ones beside it, and such as differ from it by rounding. */
  const random = seeded(7);
  const any = Array.from({ length: 400 }, () => (random() - 0.5) * 10 ** (600 * random() - 300));
  const pairs = [
    ...ends.flatMap((low) => ends.map((high) => [low, high] as const)),
    ...[...ends, ...any].flatMap((low) => nearby(low).map((high) => [low, high] as const)),
    ...any.map((low, n) => [low, any[any.length - 1 - n]!] as const),
  ].filter(([low, high]) => low <= high);

  it("has few ticks, in order and within, whatever two values it is for", () => {
    const all = pairs.flatMap(([low, high]) =>
      [3, 5, 8].map((about) => [low, high, ticksBetween(low, high, about)] as const),
    );
    const wrong = all.filter(([low, high, ticks]) => {
      const blur = high / 100 - low / 100;
      const within = ticks.every((tick) => tick >= low - blur && tick <= high + blur);
      const ascending = ticks.every((tick, n) => n === 0 || tick > ticks[n - 1]!);
      return !within || !ascending || ticks.length < 1 || ticks.length > 10;
    });
    expect([all.length > 3000, wrong]).toEqual([true, []]);
    const two = all.filter(([low, high]) => low < high && ticksBetween(low, high).length < 2);
    expect(two).toEqual([]);
    expect(ticksBetween(sum(9, 0.1), 0.9)).toEqual([sum(9, 0.1), 0.9]);
    for (const [low, high] of [
      [Number.NEGATIVE_INFINITY, 1],
      [0, Number.POSITIVE_INFINITY],
      [Number.NaN, 1],
      [1, 0],
    ] as const)
      expect(ticksBetween(low, high)).toEqual([]);
  });

  it("has places between 0 and 1 for the values from its low end to its high one", () => {
    const wrong = pairs.filter(([from, to]) => {
      const { low, high, at, value } = linear(from, to);
      return !(
        low <= from &&
        to <= high &&
        at(low) === 0 &&
        at(high) === 1 &&
        value(0) === low &&
        value(1) === high
      );
    });
    expect(wrong).toEqual([]);
  });

  it("tells ticks apart in their texts", () => {
    const texts = (low: number, high: number) => labelled(ticksBetween(low, high)).map(({ text }) => text);
    expect(texts(0, 1)).toEqual(["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    expect(texts(0.999, 0.9999)).toEqual(["0.999", "0.9992", "0.9994", "0.9996", "0.9998"]);
    expect(texts(1234.3, 1234.7)).toEqual(["1,234.3", "1,234.4", "1,234.5", "1,234.6", "1,234.7"]);
    expect(texts(-0.0005, 0.0005)).toEqual(["−0.0005", "0", "0.0005"]);
    expect(texts(sum(9, 0.1), 0.9)).toEqual(["0.8999999999999999", "0.9"]);
    expect(texts(1e250, 3e250)).toEqual(["1e250", "1.5e250", "2e250", "2.5e250", "3e250"]);
    const same = pairs.filter(([low, high]) => new Set(texts(low, high)).size < texts(low, high).length);
    expect(same).toEqual([]);
  });
});

describe("smoothing", () => {
  it("forgets by steps, not by points", () => {
    const dense = smoothed([0, 1, 2, 3, 4], [0, 1, 1, 1, 1], 2);
    const sparse = smoothed([0, 4], [0, 1], 2);
    expect(sparse[1]).toBeCloseTo(0.8);
    expect(dense[4]!).toBeGreaterThan(sparse[1]!);
  });

  it("leaves NaN where it is, and the curve behind it unharmed", () => {
    expect([...smoothed([0, 1, 2], [1, Number.NaN, 1], 5)]).toEqual([1, Number.NaN, 1]);
  });
});

describe("rank correlation", () => {
  const up = Array.from({ length: 20 }, (_, n) => n);

  it("is 1 for what grows together, however unevenly", () => {
    const found = rankCorrelation(
      up,
      up.map((n) => n ** 3),
    );
    expect(found?.rho).toBeCloseTo(1);
    expect(found?.chance).toBeLessThan(0.001);
  });

  it("says nothing of too few jobs, or of what never changes", () => {
    expect(rankCorrelation(up.slice(0, FEWEST_JOBS - 1), up)).toBeNull();
    expect(
      rankCorrelation(
        up,
        up.map(() => 3),
      ),
    ).toBeNull();
  });

  it("gives equal values equal ranks", () => expect(ranks([5, 1, 5, 9])).toEqual([2.5, 1, 2.5, 4]));
});

describe("conditions", () => {
  const names: Names = {
    fields: [
      { name: "optimizer", type: "text", meaning: "" },
      { name: "loss", type: "float", meaning: "" },
    ],
    metric: ["accuracy"],
    metric_best: ["accuracy"],
    metric_first: [],
    user_defined: ["owner"],
  };
  const of = (...values: (string | number)[]) => values.map((value) => ({ value, jobs: 1 }));
  const values = (text: string) => (asksFor(text)?.name === "optimizer" ? of("Adam", "AdamW", "SGD") : []);
  const shown = (text: string) => completions(text, names, values(text)).map((each) => each.shown);

  it("are parted by and, but not within quotes or lists", () => {
    expect(terms("a=1 and b like x%  AND c in [1, 2]")).toEqual(["a=1", "b like x%", "c in [1, 2]"]);
    expect(terms('remark="you and me"')).toEqual(['remark="you and me"']);
    expect(terms("  ")).toEqual([]);
  });

  it("are completed: names, then operators, then known values", () => {
    expect(shown("op")).toEqual(["optimizer"]);
    expect(shown("acc")).toEqual(["metric/accuracy", "metric_best/accuracy"]);
    expect(shown("optimizer")).toContain("not in");
    expect(shown("optimizer=ad")).toEqual(["Adam", "AdamW"]);
    expect(completions("loss>1 and optimizer in SGD,Ad", names, values("optimizer="))[0]!.text).toBe(
      "loss>1 and optimizer in SGD,Adam",
    );
  });

  it("are completed so that a value is read again as what it is", () => {
    const text = (typed: string, value: string | number) => completions(typed, names, of(value))[0]!.text;
    expect(text("loss<", 0.5)).toBe("loss<0.5");
    expect(text("optimizer=", "3")).toBe("optimizer=3"); // a field of text takes text
    expect(text("user_defined/owner=", "3")).toBe('user_defined/owner="3"');
    expect(text("loss>1 and optimizer=", "you and me")).toBe('loss>1 and optimizer in ["you and me"]');
    expect(terms(text("loss>1 and optimizer=", 'a "b" and c'))).toHaveLength(2);
    expect(text("optimizer in ", "a, b")).toBe('optimizer in ["a, b"]');
    expect(text("optimizer not in Adam, a", "a, b")).toBe('optimizer not in ["Adam","a, b"]');
    expect(text("user_defined/owner in 3, x", "x, y")).toBe('user_defined/owner in [3,"x, y"]');
  });

  it("are completed behind blanks and commas that were typed", () => {
    const text = (typed: string, value: string) => completions(typed, names, of(value))[0]!.text;
    expect(text("optimizer=Ad ", "Ad am, x")).toBe("optimizer=Ad am, x");
    expect(text("user_defined/owner=lr 0.1, g", "lr 0.1, good")).toBe("user_defined/owner=lr 0.1, good");
    expect(text("optimizer in SGD, Ad ", "Ad am")).toBe("optimizer in SGD, Ad am");
    expect(asksFor("user_defined/owner=lr 0.1, g")).toEqual({
      name: "user_defined/owner",
      part: "lr 0.1, g",
    });
  });
});

function sum(count: number, value: number): number {
  return Array.from({ length: count }, () => value).reduce((total, each) => total + each, 0);
}

/** Numbers from 0 to 1, each time the same. */
function seeded(state: number): () => number {
  let last = state;
  return () => {
    last = (last * 48271) % 2147483647;
    return last / 2147483647;
  };
}

/** The number itself and finite ones beside it, from the very next. */
function nearby(value: number): number[] {
  const bits = new BigInt64Array(1);
  const number = new Float64Array(bits.buffer);
  const beside = [0, 1, 2, 3, 10, 1000, 2 ** 30, 2 ** 40, 2 ** 50].flatMap((steps) =>
    [1, -1].map((sign) => {
      number[0] = value;
      bits[0]! += BigInt(sign * steps);
      return number[0];
    }),
  );
  return beside.filter(Number.isFinite);
}
