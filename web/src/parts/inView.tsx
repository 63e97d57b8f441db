// Renders expensive children only while they are in view.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { px } from "./px";

export function InView({ height, children }: { height: number; children: () => ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const seen = useSignal(false);
  useEffect(() => {
    const watch = new IntersectionObserver(
      (entries) => {
        seen.value = entries.at(-1)?.isIntersecting ?? false;
      },
      { rootMargin: "200px" },
    );
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  return (
    <div ref={box} style={{ minHeight: px(height), minWidth: "0" }}>
      {seen.value && children()}
    </div>
  );
}
