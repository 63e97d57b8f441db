// A canvas as wide as the room allows, sharp on screens of any density, with text of a fixed size.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { px } from "./px";

export type Paint = (context: CanvasRenderingContext2D, width: number, height: number) => void;

interface Props {
  label: string;
  widest: number; // pixels
  height: (width: number) => number;
  paint: Paint; // must stay the same function as long as it paints the same
  onClick?: (event: MouseEvent) => void;
}

export function Canvas({ label, widest, height, paint, onClick }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const room = useSignal(0);
  const width = Math.min(widest, room.value);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => {
      if (entry) room.value = Math.floor(entry.contentRect.width);
    });
    if (box.current) seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  useEffect(() => {
    if (width) sized(canvas.current, width, height(width), paint);
  }, [width, paint]);
  return (
    <div ref={box}>
      <canvas ref={canvas} role="img" aria-label={label} style={{ display: "block" }} onClick={onClick} />
    </div>
  );
}

/** Set the size of a canvas, in CSS pixels, and repaint it. */
export function sized(canvas: HTMLCanvasElement | null, width: number, height: number, paint: Paint): void {
  const context = canvas?.getContext("2d");
  if (!canvas || !context) return;
  const dense = window.devicePixelRatio || 1;
  canvas.width = width * dense;
  canvas.height = height * dense;
  Object.assign(canvas.style, { width: px(width), height: px(height) });
  context.scale(dense, dense);
  context.font = "11px system-ui";
  paint(context, width, height);
}
