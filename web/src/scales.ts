// Scales: where a value stands on an axis, and which ticks the axis has. Pure.

export interface Scale {
  /** 0 at the low end, 1 at the high one. */
  at(value: number): number;
  /** The value at a place. */
  value(place: number): number;
  readonly ticks: readonly number[];
  readonly kind: "linear" | "log";
  readonly low: number;
  readonly high: number;
}

/** Positive values of which the middle 80 % span so many decades are told apart on a log axis only. */
const DECADES = 1.9;

/** Least and greatest finite value; null where there is none. */
export function extent(values: ArrayLike<number>): [number, number] | null {
  let low = Infinity;
  let high = -Infinity;
  for (let n = 0; n < values.length; n += 1) {
    const value = values[n]!;
    if (value < low && value !== -Infinity) low = value;
    if (value > high && value !== Infinity) high = value;
  }
  return low <= high ? [low, high] : null;
}

/** The scale that fits values by itself: log where they are positive and span decades. */
export function fitting(values: ArrayLike<number>, wanted?: "linear" | "log"): Scale {
  const [low, high] = extent(values) ?? [0, 1];
  const log = wanted ? wanted === "log" && low > 0 : low > 0 && middleDecades(values) >= DECADES;
  return log ? logarithmic(low, high) : linear(low, high);
}

function middleDecades(values: ArrayLike<number>): number {
  const order = Float64Array.from(values).filter(Number.isFinite).sort();
  const last = order.length - 1;
  return Math.log10(order[Math.ceil(0.9 * last)]! / order[Math.floor(0.1 * last)]!);
}

export function linear(low: number, high: number): Scale {
  const from = low === high ? low - (Math.abs(low) || 1) / 2 : low;
  const span = low === high ? Math.abs(low) || 1 : high - low;
  return {
    kind: "linear",
    low: from,
    high: from + span,
    at: (value) => (value - from) / span,
    value: (place) => from + place * span,
    ticks: ticksBetween(from, from + span),
  };
}

export function logarithmic(low: number, high: number): Scale {
  const from = Math.log10(low);
  const span = high === low ? 1 : Math.log10(high) - from;
  const first = Math.ceil(from - 1e-9);
  const last = Math.floor(from + span + 1e-9);
  const every = Math.max(1, Math.ceil((last - first) / 8));
  const ticks: number[] = [];
  for (let power = first; power <= last; power += every) ticks.push(10 ** power);
  return {
    kind: "log",
    low,
    high: 10 ** (from + span),
    at: (value) => (Math.log10(value) - from) / span,
    value: (place) => 10 ** (from + place * span),
    ticks: ticks.length >= 2 ? ticks : [low, high],
  };
}

/** Round numbers between two values, five or so. */
export function ticksBetween(low: number, high: number, about = 5): number[] {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const ticks: number[] = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) {
    ticks.push(Number((n * step).toPrecision(12)));
  }
  return ticks;
}
