// Many jobs as columns of numbers or of codes for words: the data of the table, the plots and the groups. Pure.

export interface Numbers {
  kind: "number";
  values: Float64Array; // NaN: missing
}

export interface Words {
  kind: "word";
  words: readonly string[];
  codes: Int32Array; // −1: missing
}

export type Column = Numbers | Words;

export interface Columns {
  count: number;
  byName: ReadonlyMap<string, Column>;
}

/** The numbers of a column; for words, their indices in alphabetical order, so that words have an axis too. */
export function asNumbers(column: Column): Float64Array {
  if (column.kind === "number") return column.values;
  const placeOf = new Map(wordsInOrder(column).map((word, place) => [word, place]));
  const places = column.words.map((word) => placeOf.get(word)!);
  return Float64Array.from(column.codes, (code) => (code < 0 ? Number.NaN : places[code]!));
}

/** The words of a column in the order of their axis. */
export function wordsInOrder(column: Words): string[] {
  return [...column.words].sort();
}

export function wordOf(column: Words, row: number): string | null {
  const code = column.codes[row]!;
  return code < 0 ? null : column.words[code]!;
}

export interface SortKey {
  name: string;
  down: boolean;
}

/** Sort rows by several keys. Missing values come last in both directions; equal rows are ordered by number. */
export function sorted(columns: Columns, rows: ArrayLike<number>, keys: readonly SortKey[]): Int32Array {
  const order = Int32Array.from(rows);
  const by = keys.flatMap(({ name, down }) => {
    const column = columns.byName.get(name);
    return column ? [{ values: asNumbers(column), sign: down ? -1 : 1 }] : [];
  });
  if (!by.length) return order;
  return order.sort((a, b) => {
    for (const { values, sign } of by) {
      const [x, y] = [values[a]!, values[b]!];
      if (x === y) continue;
      const [noX, noY] = [Number.isNaN(x), Number.isNaN(y)];
      if (noX && noY) continue;
      if (noX || noY) return noX ? 1 : -1;
      return x < y ? -sign : sign;
    }
    return a - b;
  });
}

/** Replace the jobs with these train ids by those in `part`, which come first, as the last updated jobs do. */
export function renewed(columns: Columns, part: Columns, trainIds: ReadonlySet<string>): Columns {
  const ids = columns.byName.get("train_id");
  if (ids?.kind !== "word") return part;
  const left: number[] = [];
  for (let row = 0; row < columns.count; row += 1)
    if (!trainIds.has(ids.words[ids.codes[row]!] ?? "")) left.push(row);
  const byName = new Map(
    [...columns.byName].map(([name, old]) => [name, joined(part.byName.get(name)!, old, left)]),
  );
  return { count: part.count + left.length, byName };
}

/** All rows of one column, then some rows of another; if only one of them has numbers, these become words. */
function joined(first: Column, then: Column, rows: readonly number[]): Column {
  if (first.kind === "number" && then.kind === "number") {
    const values = new Float64Array(first.values.length + rows.length);
    values.set(first.values);
    rows.forEach((row, n) => {
      values[first.values.length + n] = then.values[row]!;
    });
    return { kind: "number", values };
  }
  const [head, tail] = [first, then].map(asWords) as [Words, Words];
  const places = new Map(head.words.map((word, code) => [word, code]));
  for (const word of tail.words) if (!places.has(word)) places.set(word, places.size);
  const words = [...places.keys()];
  const recoded = tail.words.map((word) => places.get(word)!);
  const codes = new Int32Array(head.codes.length + rows.length);
  codes.set(head.codes);
  rows.forEach((row, n) => {
    const code = tail.codes[row]!;
    codes[head.codes.length + n] = code < 0 ? -1 : recoded[code]!;
  });
  return { kind: "word", words, codes };
}

function asWords(column: Column): Words {
  if (column.kind === "word") return column;
  const places = new Map<string, number>();
  const codes = Int32Array.from(column.values, (value) => {
    if (Number.isNaN(value)) return -1;
    const word = String(value);
    if (!places.has(word)) places.set(word, places.size);
    return places.get(word)!;
  });
  return { kind: "word", words: [...places.keys()], codes };
}

/** A selection on an axis: the values from `low` to `high`; for words, their indices. */
export interface Brush {
  name: string;
  low: number;
  high: number;
}

/** The rows that lie within a brush on every axis that has brushes. */
export function within(columns: Columns, brushes: readonly Brush[]): Int32Array {
  const axes = [...new Set(brushes.map((brush) => brush.name))].flatMap((name) => {
    const column = columns.byName.get(name);
    const of = brushes.filter((brush) => brush.name === name);
    return column ? [{ values: asNumbers(column), of }] : [];
  });
  const rows = new Int32Array(columns.count);
  let count = 0;
  for (let row = 0; row < columns.count; row += 1) {
    if (
      axes.every(({ values, of }) => of.some(({ low, high }) => values[row]! >= low && values[row]! <= high))
    )
      rows[count++] = row;
  }
  return rows.subarray(0, count);
}

export interface Group {
  word: string;
  rows: number[];
}

/** Group rows by the value of a field, the largest group first. */
export function grouped(
  columns: Columns,
  rows: ArrayLike<number>,
  name: string,
  show: (value: number) => string,
): Group[] {
  const column = columns.byName.get(name);
  const groups = new Map<string, number[]>();
  if (!column) return [];
  for (let n = 0; n < rows.length; n += 1) {
    const row = rows[n]!;
    const word =
      column.kind === "word"
        ? wordOf(column, row)
        : (missing(column.values[row]!) ?? show(column.values[row]!));
    const of = groups.get(word ?? "");
    if (of) of.push(row);
    else groups.set(word ?? "", [row]);
  }
  return [...groups].map(([word, of]) => ({ word, rows: of })).sort((a, b) => b.rows.length - a.rows.length);
}

function missing(value: number): string | undefined {
  return Number.isNaN(value) ? "" : undefined;
}
