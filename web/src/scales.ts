// Scales: where a value stands on an axis, which ticks the axis has, and what is written at them. Pure.

import { number } from "./format";

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
  const beside = low === high ? (Math.abs(low) || 1) / 2 || Number.MIN_VALUE : 0;
  const from = Math.max(low - beside, -Number.MAX_VALUE);
  const to = Math.min(high + beside, Number.MAX_VALUE);
  const unit = to - from === Infinity ? 0.5 : 1; // the distance of the two may be more than a number holds
  const span = to * unit - from * unit;
  return {
    kind: "linear",
    low: from,
    high: to,
    at: (value) => (value * unit - from * unit) / span,
    value: (place) => from * (1 - place) + to * place,
    ticks: ticksBetween(from, to),
  };
}

export function logarithmic(low: number, high: number): Scale {
  const from = Math.log10(low);
  const to = Math.log10(Math.min(high === low ? 10 * low : high, Number.MAX_VALUE));
  const span = to - from || 1;
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
    ticks: ticks.length >= 2 ? ticks : ticksBetween(low, high),
  };
}

/** Numbers are told apart to so many digits: float64 has two more, which computing blurs. */
const DIGITS = 15;

/** Round numbers between two values, five or so; the two themselves, where float64 has no round ones between. */
export function ticksBetween(low: number, high: number, about = 5): number[] {
  if (!Number.isFinite(low) || !Number.isFinite(high) || low > high) return [];
  const rough = high / about - low / about; // their distance may be more than a number holds
  const power = 10 ** magnitude(rough);
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const digits = magnitude(Math.max(Math.abs(low), Math.abs(high))) - magnitude(step) + 2;
  if (!(step > 0 && step < Infinity && digits <= DIGITS)) return [...new Set([low, high])];
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(digits)));
}

/** Ticks and their texts: each to the place that tells it from the ticks beside it. */
export function labelled(ticks: readonly number[]): { value: number; text: string }[] {
  return ticks.map((value, n) => {
    const beside = [ticks[n - 1], ticks[n + 1]].filter((each) => each !== undefined);
    const apart = Math.min(...beside.map((each) => Math.abs(each - value)));
    const digits = magnitude(Math.abs(value)) - magnitude(apart) + 3; // two more: a tick may be no round number
    return { value, text: number(value, Math.min(17, Math.max(4, digits))) };
  });
}

/** The power of ten of a number's first digit. */
function magnitude(value: number): number {
  return Math.floor(Math.log10(value));
}
