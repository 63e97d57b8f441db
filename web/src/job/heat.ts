// A heat map of histograms: one column per step, with darker cells for more values. Pure.

export interface Histogram {
  step: number;
  buckets: readonly (readonly [left: number, width: number, count: number])[];
}

export interface Heat {
  low: number;
  high: number;
  /** For each histogram the share of values in each of `rows` equal ranges, lowest first. */
  columns: Float32Array[];
  greatest: number;
}

/** Distribute the count of each bucket over the ranges that it overlaps, in proportion to the overlap. */
export function heatOf(histograms: readonly Histogram[], rows = 64): Heat | null {
  let [low, high] = [Infinity, -Infinity];
  for (const { buckets } of histograms) {
    for (const [left, width, count] of buckets) {
      if (!count || !Number.isFinite(left) || !Number.isFinite(width)) continue;
      low = Math.min(low, left);
      high = Math.max(high, left + width);
    }
  }
  if (low > high) return null;
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const size = (high - low) / rows;
  let greatest = 0;
  const columns = histograms.map(({ buckets }) => {
    const column = new Float32Array(rows);
    const total = buckets.reduce((sum, [, , count]) => sum + count, 0) || 1;
    for (const [left, width, count] of buckets)
      if (count && Number.isFinite(left)) spread(column, (left - low) / size, width / size, count / total);
    for (const share of column) greatest = Math.max(greatest, share);
    return column;
  });
  return { low, high, columns, greatest };
}

function spread(column: Float32Array, from: number, width: number, share: number): void {
  const last = column.length - 1;
  if (width <= 0) {
    column[Math.min(last, Math.max(0, Math.floor(from)))]! += share;
    return;
  }
  for (let row = Math.max(0, Math.floor(from)); row <= Math.min(last, Math.floor(from + width)); row += 1) {
    column[row]! += share * (Math.max(0, Math.min(row + 1, from + width) - Math.max(row, from)) / width);
  }
}
