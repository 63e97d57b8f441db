// The field for the condition, with completions and error messages.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { knownValues, type Names } from "../api";
import type { Problem } from "../client";
import { useKeys } from "../parts/keys";
import { useLoaded } from "../parts/loaded";
import { asksFor, completions } from "./condition";

interface Props {
  value: string;
  names: Names;
  problem: Problem | null;
  onChange: (text: string) => void;
}

export function ConditionBar({ value, names, problem, onChange }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const text = useSignal(value);
  const open = useSignal(false);
  const chosen = useSignal(-1);
  // Before the page is painted: a later effect would overwrite what is typed in the meantime.
  useLayoutEffect(() => {
    text.value = value;
  }, [value]);
  useKeys((event) => {
    if (event.key !== "/") return;
    event.preventDefault();
    input.current?.focus();
  });
  const asked = open.value ? asksFor(text.value) : null;
  const known = useLoaded(asked && JSON.stringify(asked), (signal) =>
    knownValues(asked!.name, asked!.part, signal),
  );
  const values = asked && !known.value.problem ? (known.value.value ?? []) : [];
  const offered = open.value ? completions(text.value, names, values) : [];
  const take = (next: string) => {
    text.value = next;
    chosen.value = -1;
    input.current?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!offered.length) return;
      event.preventDefault();
      const by = event.key === "ArrowDown" ? 1 : -1;
      chosen.value =
        (chosen.value + by + offered.length + (chosen.value < 0 && by < 0 ? 1 : 0)) % offered.length;
    } else if (event.key === "Tab" && offered.length && open.value && !event.shiftKey) {
      event.preventDefault();
      take(offered[Math.max(0, chosen.value)]!.text);
    } else if (event.key === "Enter") {
      if (chosen.value >= 0) take(offered[chosen.value]!.text);
      else {
        open.value = false;
        onChange(text.value.trim());
      }
    } else if (event.key === "Escape") {
      open.value = false;
      event.stopPropagation();
      input.current?.blur();
    }
  };
  return (
    <>
      <div class="bar where">
        <input
          ref={input}
          type="text"
          role="combobox"
          aria-label="Condition"
          aria-expanded={offered.length > 0}
          aria-controls="completions"
          aria-activedescendant={chosen.value >= 0 ? `completion-${chosen.value}` : undefined}
          aria-invalid={problem !== null}
          placeholder="optimizer=Adam and metric/accuracy>=0.9"
          autocomplete="off"
          spellcheck={false}
          value={text.value}
          onInput={(event) => {
            text.value = event.currentTarget.value;
            open.value = true;
            chosen.value = -1;
          }}
          onFocus={() => (open.value = true)}
          onBlur={() => (open.value = false)}
          onKeyDown={onKey}
        />
        <button type="button" onClick={() => onChange(text.value.trim())}>
          Filter
        </button>
        {value && (
          <button type="button" onClick={() => onChange("")}>
            Clear
          </button>
        )}
        {offered.length > 0 && (
          <ul class="completions" id="completions" role="listbox" aria-label="Completions">
            {offered.map((each, n) => (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the input field above handles the keys
              <li
                key={each.text}
                id={`completion-${n}`}
                role="option"
                aria-selected={n === chosen.value}
                tabIndex={-1}
                onMouseDown={(event) => event.preventDefault()}
                onClick={() => take(each.text)}
              >
                {each.shown} <small>{each.hint}</small>
              </li>
            ))}
          </ul>
        )}
      </div>
      {problem && (
        <div class="wrong" role="alert">
          {problem.message} {problem.remedy}
        </div>
      )}
    </>
  );
}
