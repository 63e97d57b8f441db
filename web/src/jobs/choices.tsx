// A list for choosing names: the columns of the table, or the axes of the plot.

import { useSignal } from "@preact/signals";
import { Popup } from "../parts/popup";

interface Props {
  label: string;
  all: readonly string[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
  onReset: () => void;
  /** The columns that stay in view when the table is scrolled sideways; called with `onPin` when they change. */
  pinned?: readonly string[];
  onPin?: (pinned: string[]) => void;
}

export function Choices({ label, all, chosen, onChange, onReset, pinned = [], onPin }: Props) {
  const open = useSignal(false);
  const filter = useSignal("");
  const offered = all.filter((name) => name.toLowerCase().includes(filter.value.toLowerCase()));
  return (
    <>
      <button type="button" aria-expanded={open.value} onClick={() => (open.value = true)}>
        {label}
      </button>
      {open.value && (
        <Popup label={label} onClose={() => (open.value = false)}>
          <div class="bar">
            <input
              type="search"
              aria-label={`Search ${label.toLowerCase()}`}
              placeholder="search"
              value={filter.value}
              onInput={(event) => (filter.value = event.currentTarget.value)}
            />
            <button type="button" onClick={onReset}>
              Default
            </button>
            <button type="button" onClick={() => (open.value = false)}>
              Close
            </button>
          </div>
          {offered.map((name) => (
            <div key={name}>
              <label>
                <input
                  type="checkbox"
                  checked={chosen.includes(name)}
                  onChange={() => onChange(toggled(chosen, name))}
                />{" "}
                {name}
              </label>{" "}
              {onPin && chosen.includes(name) && (
                <button
                  type="button"
                  aria-pressed={pinned.includes(name)}
                  aria-label={`Pin ${name}`}
                  onClick={() => onPin(toggled(pinned, name))}
                >
                  {pinned.includes(name) ? "pinned" : "pin"}
                </button>
              )}
            </div>
          ))}
          {!offered.length && <p class="quiet">Nothing is called so.</p>}
        </Popup>
      )}
    </>
  );
}

function toggled(names: readonly string[], name: string): string[] {
  return names.includes(name) ? names.filter((each) => each !== name) : [...names, name];
}
