// Colours: a job keeps its own wherever it is shown; a value has its place on one ramp. Pure.

/** Hues that are told apart on light and dark ground; jobs of one comparison take them in turn. */
export function ofJob(place: number): string {
  const hue = (place * 137.508 + 210) % 360;
  const deep = hue > 225 && hue < 300 ? 16 : 0; // blue and violet are dark by themselves
  const light = 43 + deep + 10 * (Math.floor(place / 7) % 3);
  return `hsl(${hue.toFixed(0)} 70% ${light}%)`;
}

/** From dark blue over green to yellow, readable on both grounds; `at` between 0 and 1. */
export function ramp(at: number): string {
  const place = Math.min(1, Math.max(0, at));
  return `hsl(${(225 - 175 * place).toFixed(0)} 80% ${(58 - 8 * place).toFixed(0)}%)`;
}
