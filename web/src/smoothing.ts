// An exponential moving average whose half-life is in steps, so that it does not depend on the sampling. Pure.

/** Smooth values: one `halfLife` steps back has half the weight. NaN and infinities stay and affect no other value. */
export function smoothed(
  steps: ArrayLike<number>,
  values: ArrayLike<number>,
  halfLife: number,
): Float64Array {
  const out = new Float64Array(values.length);
  let weight = 0;
  let sum = 0;
  let before = 0;
  for (let n = 0; n < values.length; n += 1) {
    const value = values[n]!;
    if (!Number.isFinite(value)) {
      out[n] = value;
      continue;
    }
    const kept = weight === 0 || halfLife <= 0 ? 0 : 2 ** (-(steps[n]! - before) / halfLife);
    weight = weight * kept + 1;
    sum = sum * kept + value;
    before = steps[n]!;
    out[n] = sum / weight;
  }
  return out;
}
