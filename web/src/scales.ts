// Scales: the place of a value on an axis, and the ticks of the axis with their texts. Pure.

import { number } from "./format";

export interface Scale {
  /** The place of a value: 0 at the low end, 1 at the high one. */
  at(value: number): number;
  /** The value at a place. */
  value(place: number): number;
  readonly ticks: readonly number[];
  readonly kind: "linear" | "log";
  readonly low: number;
  readonly high: number;
}

/** If the middle 80 % of positive values span this many decades, the axis is logarithmic. */
const DECADES = 1.9;

/** The least and greatest finite value, or null if there is none. */
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

/** The log scale for positive values that span decades, otherwise the linear one. */
export function fitting(values: ArrayLike<number>): Scale {
  const [low, high] = extent(values) ?? [0, 1];
  const log = low > 0 && middleDecades(values) >= DECADES;
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
  const unit = to - from === Infinity ? 0.5 : 1; // the difference of the two may overflow
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

/** Significant digits that are reliable: float64 has two more, which are lost to rounding. */
const DIGITS = 15;

/** Some `about` round numbers between two values; the two themselves if float64 has no round numbers between. */
export function ticksBetween(low: number, high: number, about = 5): number[] {
  if (!Number.isFinite(low) || !Number.isFinite(high) || low > high) return [];
  const rough = high / about - low / about; // not (high - low) / about, which may overflow
  const power = 10 ** magnitude(rough);
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const digits = magnitude(Math.max(Math.abs(low), Math.abs(high))) - magnitude(step) + 2;
  if (!(step > 0 && step < Infinity && digits <= DIGITS)) return [...new Set([low, high])];
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(digits)));
}

/** Ticks with texts that have enough digits to distinguish neighbours. */
export function labelled(ticks: readonly number[]): { value: number; text: string }[] {
  return ticks.map((value, n) => {
    const beside = [ticks[n - 1], ticks[n + 1]].filter((each) => each !== undefined);
    const apart = Math.min(...beside.map((each) => Math.abs(each - value)));
    const digits = magnitude(Math.abs(value)) - magnitude(apart) + 3; // 2 more: ticks need not be round
    return { value, text: number(value, Math.min(17, Math.max(4, digits))) };
  });
}

/** The power of ten of a number's first digit, as an exponent. */
function magnitude(value: number): number {
  return Math.floor(Math.log10(value));
}
