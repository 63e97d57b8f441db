// A list of names to choose from: which columns the table has, which axes the plot.

import { useSignal } from "@preact/signals";
import { Popup } from "../parts/popup";

interface Props {
  label: string;
  all: readonly string[];
  chosen: readonly string[];
  onChange: (chosen: string[]) => void;
  onReset: () => void;
}

export function Choices({ label, all, chosen, onChange, onReset }: Props) {
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
            <label key={name} style={{ display: "block" }}>
              <input
                type="checkbox"
                checked={chosen.includes(name)}
                onChange={(event) =>
                  onChange(
                    event.currentTarget.checked ? [...chosen, name] : chosen.filter((each) => each !== name),
                  )
                }
              />{" "}
              {name}
            </label>
          ))}
          {!offered.length && <p class="quiet">Nothing is called so.</p>}
        </Popup>
      )}
    </>
  );
}
