// Keyboard shortcuts that work everywhere on the page, except while a field is being edited.

import { useLayoutEffect, useRef } from "preact/hooks";

/** Call the latest `onKey` for each key. A layout effect, because `useEffect` would miss keys before the next frame. */
export function useKeys(onKey: (event: KeyboardEvent) => void): void {
  const latest = useRef(onKey);
  latest.current = onKey;
  useLayoutEffect(() => {
    const listener = (event: KeyboardEvent) => {
      if (!isTyped(event)) latest.current(event);
    };
    addEventListener("keydown", listener);
    return () => removeEventListener("keydown", listener);
  }, []);
}

/** Whether a key goes into a field, or is a shortcut of the browser. */
function isTyped(event: KeyboardEvent): boolean {
  const into = event.target instanceof Element && event.target.matches("input, textarea, select");
  return into || event.ctrlKey || event.metaKey;
}
