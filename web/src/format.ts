// Numbers, times, durations and sizes as people write them. Pure.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A number in at most `digits` significant digits; integers in full, with commas between groups of digits. */
export function number(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined) return "";
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  if (Number.isInteger(value) && Math.abs(value) < 1e15)
    return value.toLocaleString("en-US").replace("-", "−");
  const size = Math.abs(value);
  const text = size >= 1e-4 && size < 1e7 ? plain(value, digits) : exponent(value, digits);
  return text.replace("-", "−");
}

function plain(value: number, digits: number): string {
  const fixed = Number(value.toPrecision(digits));
  return fixed.toLocaleString("en-US", { maximumSignificantDigits: digits });
}

function exponent(value: number, digits: number): string {
  const all = digits > 16; // the shortest text that is exact: 17 fixed digits would show the rounding of float64
  const [mantissa = "", power = ""] = value.toExponential(all ? undefined : digits - 1).split("e");
  return `${mantissa.replace(/\.?0+$/, "")}e${power.replace("+", "")}`;
}

/** Bytes in the largest unit of which there is at least one. */
export function bytes(count: number): string {
  let unit = 0;
  let rest = count;
  while (rest >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? rest : Number(rest.toPrecision(3))} ${UNITS[unit]}`;
}

/** Seconds in the two largest units, or in more if that is needed to distinguish values `apart` seconds apart. */
export function duration(seconds: number, apart = Infinity): string {
  if (!Number.isFinite(seconds)) return "";
  if (seconds < 0) return `−${duration(-seconds, apart)}`;
  if (seconds !== 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const exact = Number(seconds.toFixed(3));
  if (seconds < 60) return `${apart < 1 ? exact : Number(seconds.toPrecision(3))} s`;
  const whole = apart < 1 ? exact : Math.round(seconds);
  const [days, hours, minutes] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
  ];
  const parts = [`${days} d`, `${hours} h`, `${minutes} min`, `${Number((whole % 60).toFixed(3))} s`];
  const first = [days, hours, minutes].findIndex((count) => count > 0);
  const last = [86400, 3600, 60, 0].findIndex((unit) => apart >= unit);
  return parts
    .slice(first, Math.max(first + 2, last + 1))
    .filter((part, n) => n === 0 || !part.startsWith("0 "))
    .join(" ");
}

/** A time in the reader's time zone, to the second; without the date if it is today. */
export function time(moment: string | number | null | undefined, now = new Date()): string {
  if (moment === null || moment === undefined || moment === "") return "";
  const at = new Date(typeof moment === "number" ? moment * 1000 : moment);
  if (Number.isNaN(at.getTime())) return String(moment);
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return at.toDateString() === now.toDateString() ? clock : `${date} ${clock}`;
}

/** How long ago a time was. */
export function ago(moment: string | null | undefined, now = Date.now()): string {
  if (!moment) return "";
  const seconds = (now - new Date(moment).getTime()) / 1000;
  return seconds < 1 ? "now" : `${duration(Math.round(seconds))} ago`;
}

/** How far a standby is behind its primary, as in the answer to `GET health`. */
export interface Standby {
  is_up: boolean;
  lag_s: number | null;
  lag_bytes: number | null;
  shows: string | null;
}

/** A sentence on how far a standby is behind. */
export function lag({ is_up, lag_s, lag_bytes, shows }: Standby): string {
  if (!is_up) return "It does not answer.";
  if (lag_bytes !== null) return `It is ${duration(lag_s ?? 0)} (${bytes(lag_bytes)}) behind the primary.`;
  return `How far it is behind is unknown${shows ? `: it shows what was there at ${time(shows)}` : ""}.`;
}

/** A count with its noun. */
export function counted(count: number, noun: string, nouns = `${noun}s`): string {
  return `${number(count)} ${count === 1 ? noun : nouns}`;
}

function two(part: number): string {
  return String(part).padStart(2, "0");
}
