// Colours: one for each job of a comparison, and a ramp for values. Pure.

/** The colour of the job at this index of a comparison, readable on light and dark backgrounds. */
export function ofJob(place: number): string {
  const hue = (place * 137.508 + 210) % 360;
  const deep = hue > 225 && hue < 300 ? 16 : 0; // blue and violet look darker than other hues
  const light = 43 + deep + 10 * (Math.floor(place / 7) % 3);
  return `hsl(${hue.toFixed(0)} 70% ${light}%)`;
}

/** From dark blue over green to yellow, readable on light and dark backgrounds; `at` between 0 and 1. */
export function ramp(at: number): string {
  const place = Math.min(1, Math.max(0, at));
  return `hsl(${(225 - 175 * place).toFixed(0)} 80% ${(58 - 8 * place).toFixed(0)}%)`;
}
