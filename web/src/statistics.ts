// Spearman's rank correlation, with its p-value. Pure.

export interface Correlation {
  /** −1 to 1; ties take their mean rank. */
  rho: number;
  jobs: number;
  /** The two-sided p-value: how likely at least this |rho| is without any correlation (normal approximation). */
  chance: number;
}

/** With fewer jobs, no correlation is computed. */
export const FEWEST_JOBS = 8;

/** Correlate the pairs in which both are finite; null if there are too few, or one of the two is constant. */
export function rankCorrelation(first: ArrayLike<number>, second: ArrayLike<number>): Correlation | null {
  const both: number[] = [];
  for (let n = 0; n < first.length; n += 1) {
    if (Number.isFinite(first[n]!) && Number.isFinite(second[n]!)) both.push(n);
  }
  if (both.length < FEWEST_JOBS) return null;
  const [x, y] = [first, second].map((values) => ranks(both.map((n) => values[n]!))) as [number[], number[]];
  const mean = (both.length + 1) / 2;
  let [xx, yy, xy] = [0, 0, 0];
  for (let n = 0; n < both.length; n += 1) {
    const [dx, dy] = [x[n]! - mean, y[n]! - mean];
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
  }
  if (xx === 0 || yy === 0) return null;
  const rho = xy / Math.sqrt(xx * yy);
  return { rho, jobs: both.length, chance: tails(Math.abs(rho) * Math.sqrt(both.length - 1)) };
}

/** Ranks from 1; equal values get the mean of their ranks. */
export function ranks(values: readonly number[]): number[] {
  const order = values.map((_, n) => n).sort((a, b) => values[a]! - values[b]!);
  const out = new Array<number>(values.length);
  for (let from = 0; from < order.length; ) {
    let to = from;
    while (to + 1 < order.length && values[order[to + 1]!] === values[order[from]!]) to += 1;
    for (let n = from; n <= to; n += 1) out[order[n]!] = (from + to) / 2 + 1;
    from = to + 1;
  }
  return out;
}

/** The probability of both tails of the normal distribution beyond ±z (Abramowitz and Stegun 26.2.17, to 1e-7). */
function tails(z: number): number {
  const t = 1 / (1 + 0.2316419 * z);
  const poly =
    t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))));
  return Math.min(1, 2 * poly * Math.exp((-z * z) / 2) * 0.3989422804014327);
}
