// Parallel coordinates: one line per job, one axis per field. Dragging on an axis brushes it, on its title moves it.

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Brush } from "../columns";
import { sized } from "../parts/canvas";
import { px } from "../parts/px";
import { dark } from "../parts/theme";
import { type Axis, short } from "./axes";
import { drawLines, type Frame, frameOf, MOST_BRUSHED, nearest, thinned, y } from "./draw";

interface Props {
  axes: readonly Axis[];
  /** The jobs that match the condition; `picked` are those within the brushes. */
  jobs: ArrayLike<number>;
  picked: ArrayLike<number>;
  brushes: readonly Brush[];
  /** Returns the jobs within other brushes, while one is being dragged. */
  pick: (brushes: readonly Brush[]) => ArrayLike<number>;
  colour: string;
  hovered: number | null;
  nameOf: (job: number) => string;
  onBrush: (brushes: Brush[]) => void;
  onMove: (name: string, to: number) => void;
  onColour: (name: string) => void;
  onHover: (job: number | null) => void;
  onOpen: (job: number) => void;
}

const HEIGHT = 360;
const NARROWEST = 96; // least pixels per axis; with less room, the plot scrolls
const GRIP = 14; // pixels on each side of an axis in which dragging brushes it

export function Parallel(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const width = useSignal(0);
  const { axes } = props;
  const dragged = useSignal<Brush[] | null>(null);
  const picked = useMemo(
    () => (dragged.value ? props.pick(dragged.value) : props.picked),
    [dragged.value, props.picked],
  );
  const shown = { ...props, picked, brushes: dragged.value ?? props.brushes };
  const wide = Math.max(width.value, NARROWEST * (axes.length + 1));
  const frame = useMemo(() => frameOf(wide, HEIGHT, axes.length), [wide, axes.length]);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => {
      if (entry) width.value = Math.floor(entry.contentRect.width);
    });
    if (box.current) seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  return (
    <section class="parallel" ref={box} aria-label="Parallel coordinates" tabIndex={0}>
      <div style={{ width: px(frame.width), height: px(HEIGHT + 28) }}>
        {width.value > 0 && (
          <>
            <Titles {...props} frame={frame} />
            <Lines {...shown} frame={frame} brushing={dragged.value !== null} />
            <Brushes
              {...shown}
              frame={frame}
              kept={props.brushes}
              onDrag={(next) => (dragged.value = next)}
            />
          </>
        )}
      </div>
    </section>
  );
}

function Titles({ axes, frame, colour, onMove, onColour }: Props & { frame: Frame }) {
  const move = (name: string, from: number, to: number) => {
    if (to >= 0 && to < axes.length && to !== from) onMove(name, to);
  };
  return (
    <div class="titles">
      {axes.map((axis, n) => (
        <button
          key={axis.name}
          type="button"
          draggable
          class={axis.name === colour ? "colour" : ""}
          style={{ left: px(frame.x[n]), maxWidth: px((frame.x[1] ?? 160) - (frame.x[0] ?? 0) - 6 || 160) }}
          title={`${axis.title}: click to colour by it, drag or Shift and ← → to move it`}
          onClick={() => onColour(axis.name)}
          onKeyDown={(event) => {
            const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
            if (event.shiftKey && by) move(axis.name, n, n + by);
          }}
          onDragStart={(event) => event.dataTransfer?.setData("text/plain", String(n))}
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            const from = Number(event.dataTransfer?.getData("text/plain") || Number.NaN);
            const moved = axes[from];
            if (moved) move(moved.name, from, n);
          }}
        >
          {axis.title}
        </button>
      ))}
    </div>
  );
}

function Lines({
  axes,
  jobs,
  picked,
  brushes,
  colour,
  hovered,
  frame,
  nameOf,
  onHover,
  onOpen,
  brushing,
}: Props & { frame: Frame; brushing: boolean }) {
  const all = useRef<HTMLCanvasElement>(null);
  const some = useRef<HTMLCanvasElement>(null);
  const one = useRef<HTMLCanvasElement>(null);
  const by = axes.find((axis) => axis.name === colour) ?? null;
  const quiet = dark.value ? "#8a93a3" : "#9aa3b0";
  useEffect(
    () =>
      sized(all.current, frame.width, frame.height, (context) => {
        if (brushes.length) drawLines(context, frame, axes, jobs, null, quiet);
      }),
    [axes, jobs, frame, brushes.length > 0, quiet],
  );
  useEffect(() => {
    const request = requestAnimationFrame(() =>
      sized(some.current, frame.width, frame.height, (context) =>
        drawLines(context, frame, axes, brushing ? thinned(picked, MOST_BRUSHED) : picked, by, null),
      ),
    );
    return () => cancelAnimationFrame(request);
  }, [axes, picked, frame, by, brushing]);
  useEffect(() => {
    sized(one.current, frame.width, frame.height, (context) => {
      if (hovered === null) return;
      context.strokeStyle = dark.value ? "#fff" : "#000";
      context.lineWidth = 2;
      context.beginPath();
      axes.forEach((axis, n) => {
        context.lineTo(frame.x[n]!, y(frame, axis.places[hovered]!));
      });
      context.stroke();
    });
  }, [axes, hovered, frame]);
  const find = (event: MouseEvent) => nearest(frame, axes, picked, event.offsetX, event.offsetY);
  return (
    <>
      <canvas ref={all} aria-hidden="true" />
      <canvas ref={some} aria-hidden="true" />
      <canvas
        ref={one}
        role="img"
        aria-label={`${picked.length} jobs as lines over ${axes.map((axis) => axis.title).join(", ")}; the table below has the same`}
        title={hovered === null ? "" : nameOf(hovered)}
        onMouseMove={(event) => onHover(find(event))}
        onMouseLeave={() => onHover(null)}
        onClick={(event) => {
          const job = find(event);
          if (job !== null) onOpen(job);
        }}
      />
    </>
  );
}

interface BrushesProps extends Props {
  frame: Frame;
  /** The brushes from before the drag. */
  kept: readonly Brush[];
  onDrag: (brushes: Brush[] | null) => void;
}

function Brushes({ axes, brushes, frame, kept, onBrush, onDrag }: BrushesProps) {
  const start = useRef<{ axis: Axis; from: number } | null>(null);
  const place = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).closest("svg")!.getBoundingClientRect();
    return Math.min(1, Math.max(0, (frame.bottom - (event.clientY - box.top)) / (frame.bottom - frame.top)));
  };
  const dragged = (event: PointerEvent): Brush[] => {
    const { axis, from } = start.current!;
    const others = kept.filter((brush) => event.shiftKey || brush.name !== axis.name);
    const to = place(event);
    if (Math.abs(to - from) < 0.005) return others;
    const value = (at: number) => Number(axis.scale.value(at).toPrecision(6)); // few digits, for a short URL
    return [...others, { name: axis.name, low: value(Math.min(from, to)), high: value(Math.max(from, to)) }];
  };
  const boxes = brushes.flatMap((brush) => {
    const n = axes.findIndex((axis) => axis.name === brush.name);
    const end = (value: number, open: number) => (Number.isFinite(value) ? axes[n]!.scale.at(value) : open);
    return n < 0 ? [] : [{ n, low: end(brush.low, 0), high: end(brush.high, 1) }];
  });
  return (
    <svg class="axes" width={frame.width} height={frame.height} aria-hidden="true">
      {axes.map((axis, n) => (
        <g key={axis.name} transform={`translate(${frame.x[n]},0)`}>
          <line y1={frame.top} y2={frame.bottom} />
          {axis.ticks.map((tick) => (
            <text
              key={tick.value}
              x={n === axes.length - 1 ? 6 : -6}
              y={y(frame, tick.place) + 4}
              text-anchor={n === axes.length - 1 ? "start" : "end"}
            >
              {short(tick.text)}
              <title>{tick.text}</title>
            </text>
          ))}
          {axis.places.some(Number.isNaN) && (
            <text class="lane" x={-6} y={frame.lane + 4} text-anchor="end">
              none
            </text>
          )}
          <rect
            class="grip"
            x={-GRIP}
            width={2 * GRIP}
            y={frame.top - 6}
            height={frame.bottom - frame.top + 12}
            onPointerDown={(event) => {
              event.currentTarget.setPointerCapture(event.pointerId);
              start.current = { axis, from: place(event) };
            }}
            onPointerMove={(event) => start.current && onDrag(dragged(event))}
            onPointerUp={(event) => {
              if (!start.current) return;
              onBrush(dragged(event));
              onDrag(null);
              start.current = null;
            }}
          />
        </g>
      ))}
      {boxes.map(({ n, low, high }) => (
        <rect
          key={`${n} ${low} ${high}`}
          class="brush"
          x={(frame.x[n] ?? 0) - 7}
          width={14}
          y={y(frame, Math.min(1, high))}
          height={Math.max(2, (Math.min(1, high) - Math.max(0, low)) * (frame.bottom - frame.top))}
        />
      ))}
    </svg>
  );
}
