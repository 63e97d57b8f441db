// The brushes as input fields and checkboxes: for keyboards, and for exact values.

import { useSignal } from "@preact/signals";
import { asNumbers, type Brush, type Columns, wordsInOrder } from "../columns";
import { number } from "../format";
import { Popup } from "../parts/popup";
import { extent } from "../scales";
import { set } from "../state";
import { brushText, titleOf } from "./view";

interface Props {
  columns: Columns;
  axes: readonly string[];
  brushes: readonly Brush[];
}

const MOST_WORDS = 50;

export function Ranges({ columns, axes, brushes }: Props) {
  const open = useSignal(false);
  const put = (name: string, mine: Brush[]) => {
    const next = [...brushes.filter((brush) => brush.name !== name), ...mine];
    set({ brush: next.length ? brushText(columns, next) : null });
  };
  return (
    <>
      <button type="button" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        Ranges
      </button>
      {open.value && (
        <Popup label="Ranges" onClose={() => (open.value = false)}>
          {axes.map((name) => {
            const mine = brushes.filter((brush) => brush.name === name);
            const props = { name, columns, mine, onChange: (next: Brush[]) => put(name, next) };
            return (
              <fieldset key={name}>
                <legend>{titleOf(name)}</legend>
                {columns.byName.get(name)?.kind === "word" ? <Words {...props} /> : <Ends {...props} />}
              </fieldset>
            );
          })}
          <button type="button" onClick={() => (open.value = false)}>
            Close
          </button>
        </Popup>
      )}
    </>
  );
}

interface Axis {
  name: string;
  columns: Columns;
  mine: readonly Brush[];
  onChange: (brushes: Brush[]) => void;
}

function Ends({ name, columns, mine, onChange }: Axis) {
  const [least, greatest] = extent(asNumbers(columns.byName.get(name)!)) ?? [0, 0];
  const { low, high } = mine[0] ?? { low: -Infinity, high: Infinity };
  const end = (label: string, value: number, all: number, take: (value: number) => Brush) => (
    <label>
      {label}{" "}
      <input
        type="number"
        step="any"
        aria-label={`${titleOf(name)} ${label}`}
        placeholder={number(all)}
        value={Number.isFinite(value) ? String(value) : ""}
        onChange={({ currentTarget: { value: text } }) => {
          const next = take(text === "" ? Number.NaN : Number(text));
          onChange(next.low > -Infinity || next.high < Infinity ? [next] : []);
        }}
      />{" "}
    </label>
  );
  return (
    <>
      {end("from", low, least, (value) => ({ name, low: Number.isNaN(value) ? -Infinity : value, high }))}
      {end("to", high, greatest, (value) => ({ name, low, high: Number.isNaN(value) ? Infinity : value }))}
    </>
  );
}

/** Checkboxes for words; each chosen word is a brush of its own around its index. */
function Words({ name, columns, mine, onChange }: Axis) {
  const column = columns.byName.get(name)!;
  const words = column.kind === "word" ? wordsInOrder(column) : [];
  const has = (place: number) => mine.some(({ low, high }) => low <= place && place <= high);
  const toggle = (place: number) =>
    onChange(
      words.flatMap((_, n) => (has(n) !== (n === place) ? [{ name, low: n - 0.5, high: n + 0.5 }] : [])),
    );
  return (
    <>
      {words.slice(0, MOST_WORDS).map((word, place) => (
        <label key={word}>
          <input type="checkbox" checked={has(place)} onChange={() => toggle(place)} /> {word ||
            "(empty)"}{" "}
        </label>
      ))}
      {words.length > MOST_WORDS && <small>and {words.length - MOST_WORDS} more: type a condition</small>}
    </>
  );
}
