// Geometry of a loss landscape: contour lines, and the projection of the surface. Pure.

export type Matrix = readonly (readonly number[])[]; // [row][column], finite or NaN

export interface Segment {
  level: number;
  x1: number;
  y1: number;
  x2: number;
  y2: number;
}

/** A point on the training's path: shares of the two axes, and the loss there. */
export interface Spot {
  x: number;
  y: number;
  z: number;
}

/** Contour lines by marching squares; coordinates in columns and rows. */
export function contours(z: Matrix, levels: readonly number[]): Segment[] {
  const out: Segment[] = [];
  for (let row = 0; row + 1 < z.length; row += 1) {
    for (let column = 0; column + 1 < (z[0]?.length ?? 0); column += 1) {
      const corners = [
        z[row]![column]!,
        z[row]![column + 1]!,
        z[row + 1]![column + 1]!,
        z[row + 1]![column]!,
      ] as const;
      if (corners.some((corner) => !Number.isFinite(corner))) continue;
      for (const level of levels) out.push(...cell(corners, level, column, row));
    }
  }
  return out;
}

function cell(
  corners: readonly [number, number, number, number],
  level: number,
  column: number,
  row: number,
): Segment[] {
  const [a, b, c, d] = corners;
  const share = (from: number, to: number) => (level - from) / (to - from);
  const sides: ([number, number] | null)[] = [
    a < level !== b < level ? [column + share(a, b), row] : null,
    b < level !== c < level ? [column + 1, row + share(b, c)] : null,
    d < level !== c < level ? [column + share(d, c), row + 1] : null,
    a < level !== d < level ? [column, row + share(a, d)] : null,
  ];
  const points = sides.filter((side) => side !== null);
  const line = (p: [number, number], q: [number, number]): Segment => ({
    level,
    x1: p[0],
    y1: p[1],
    x2: q[0],
    y2: q[1],
  });
  if (points.length === 2) return [line(points[0]!, points[1]!)];
  if (points.length !== 4) return [];
  const middle = (a + b + c + d) / 4 < level; // a saddle: connect the corners on the middle's side of the level
  const [top, right, bottom, left] = sides as [number, number][] as [
    [number, number],
    [number, number],
    [number, number],
    [number, number],
  ];
  return a < level === middle
    ? [line(top, right), line(bottom, left)]
    : [line(top, left), line(bottom, right)];
}

/** Levels at quantiles of the values, so that flat valleys have lines too. */
export function levelsOf(z: Matrix, count = 14): number[] {
  const values = Float64Array.from(z.flat().filter(Number.isFinite)).sort();
  if (!values.length || values[0] === values[values.length - 1]) return [];
  const levels = Array.from(
    { length: count },
    (_, n) => values[Math.floor(((n + 0.5) / count) * (values.length - 1))]!,
  );
  return [...new Set(levels)];
}

/** Project a point of the surface, turned about its middle and tilted; coordinates are between −1 and 1. */
export function seen(
  x: number,
  y: number,
  z: number,
  turn: number,
  tilt: number,
): { x: number; y: number; depth: number } {
  const [right, away] = [x * Math.cos(turn) - y * Math.sin(turn), x * Math.sin(turn) + y * Math.cos(turn)];
  return {
    x: right,
    y: -z * Math.cos(tilt) + away * Math.sin(tilt),
    depth: away * Math.cos(tilt) + z * Math.sin(tilt),
  };
}
