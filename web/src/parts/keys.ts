// Keys that work wherever one is on the page: from the moment it is drawn, and not while something is typed.

import { useLayoutEffect, useRef } from "preact/hooks";

/** Hand each key to what was drawn last. An effect after the next frame would lose the keys that come before it. */
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

/** Whether a key goes into a field, or is the browser's own. */
function isTyped(event: KeyboardEvent): boolean {
  const into = event.target instanceof Element && event.target.matches("input, textarea, select");
  return into || event.ctrlKey || event.metaKey;
}
