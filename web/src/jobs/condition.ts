// Parses and completes the text of a condition: terms as in `lineage-store filter --where`, joined by `and`. Pure.

import type { KnownValue, Names } from "../api";
import { counted } from "../format";

const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", " in ", " not in ", " like ", " is null", " is not null"];

/** Split a text into terms at each `and` between blanks, except within double quotes or brackets. */
export function terms(text: string): string[] {
  const found: string[] = [];
  let [term, quoted, depth] = ["", false, 0];
  for (const part of text.split(/(\s+and\s+|["[\]])/i)) {
    if (part === '"') quoted = !quoted;
    if (!quoted && part === "[") depth += 1;
    if (!quoted && part === "]") depth = Math.max(0, depth - 1);
    if (/^\s+and\s+$/i.test(part) && !quoted && depth === 0) {
      found.push(term.trim());
      term = "";
    } else term += part;
  }
  return [...found, term.trim()].filter(Boolean);
}

/** Split the last term of the text before the cursor into its parts. */
export function atCursor(text: string): {
  start: number;
  name: string;
  operator: string | null;
  value: string;
} {
  const before = /^(.*\s+and\s+)?(.*)$/is.exec(text)!;
  const start = before[1]?.length ?? 0;
  const term = before[2] ?? "";
  const parts = /^(\S+?)(\s*(?:[<>!=]=?)\s*|\s+(?:not\s+in|in|like)\s+)(.*)$/is.exec(term);
  if (!parts) return { start, name: term, operator: null, value: "" };
  return { start, name: parts[1]!, operator: parts[2]!, value: parts[3]! };
}

/** The value that is being typed: for operators with a list, the part after the last comma. */
function typed(operator: string, value: string): string {
  return (parts(operator, value).at(-1) ?? "").trimStart();
}

function parts(operator: string, value: string): string[] {
  return takesList(operator) && !value.startsWith("[") ? value.split(",") : [value];
}

const takesList = (operator: string) => /\bin\s*$/i.test(operator);

/** The field whose values complete the end of a text, and the part typed so far; null: no value is being typed. */
export function asksFor(text: string): { name: string; part: string } | null {
  const { name, operator, value } = atCursor(text);
  return operator === null ? null : { name, part: typed(operator, value).trimEnd() };
}

/** Write a value for a condition, in quotes if it would be read as another type; null: only a JSON list can have it. */
function spelt(name: string, value: string | number, names: Names, listed: boolean): string | null {
  if (typeof value === "number") return String(value);
  if (/\sand\s|^\s|\s$|^$|^'|["[\]]/i.test(value) || (listed && value.includes(","))) return null;
  if (names.fields.some((field) => field.name === name)) return value;
  try {
    JSON.parse(value);
    return JSON.stringify(value);
  } catch {
    return value;
  }
}

/** Read a value of a list like the server: as JSON, except for fields of text. */
function read(name: string, text: string, names: Names): unknown {
  const isText = names.fields.some((field) => field.name === name && field.type === "text");
  try {
    return isText ? text.trim() : JSON.parse(text);
  } catch {
    return text.trim();
  }
}

/** All names for conditions and columns, each with a hint on its meaning. */
export function everyName(names: Names): { name: string; hint: string }[] {
  const kinds = {
    metric: "metric",
    user_defined: "user-defined",
    metric_best: "best",
    metric_first: "first",
  };
  return [
    ...names.fields.map((field) => ({ name: field.name, hint: field.meaning })),
    ...(Object.keys(kinds) as (keyof typeof kinds)[]).flatMap((kind) =>
      names[kind].map((each) => ({ name: `${kind}/${each}`, hint: kinds[kind] })),
    ),
  ];
}

/** The possible completions, each with the whole resulting text; `known` are values of the field of the last term. */
export function completions(
  text: string,
  names: Names,
  known: readonly KnownValue[],
): { text: string; shown: string; hint: string }[] {
  const { start, name, operator, value } = atCursor(text);
  const head = text.slice(0, start);
  if (operator !== null) {
    const last = typed(operator, value);
    const kept = text.slice(0, text.length - last.length);
    const part = last.trimEnd();
    const before = parts(operator, value).slice(0, -1);
    const headOfList = `${head}${name} ${/not|!/i.test(operator) ? "not in" : "in"} `;
    return known
      .filter((each) => String(each.value) !== part)
      .filter((each) => String(each.value).toLowerCase().includes(part.toLowerCase()))
      .slice(0, 30)
      .map((each) => {
        const written = spelt(name, each.value, names, takesList(operator));
        const all = JSON.stringify([...before.map((one) => read(name, one, names)), each.value]);
        const whole = written === null ? headOfList + all : kept + written;
        return { text: whole, shown: String(each.value) || "(empty)", hint: counted(each.jobs, "job") };
      });
  }
  const all = everyName(names);
  if (all.some((each) => each.name === name.trim())) {
    return OPERATORS.map((each) => ({ text: `${head}${name.trim()}${each}`, shown: each.trim(), hint: "" }));
  }
  return all
    .filter((each) => each.name.toLowerCase().includes(name.toLowerCase()))
    .sort((a, b) => Number(!a.name.startsWith(name)) - Number(!b.name.startsWith(name)))
    .slice(0, 30)
    .map((each) => ({ text: `${head}${each.name}`, shown: each.name, hint: each.hint }));
}
