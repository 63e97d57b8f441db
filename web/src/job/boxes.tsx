// Draws a graph as boxes and edges; one box may be chosen.

import { useEffect, useRef } from "preact/hooks";
import { number } from "../format";
import { BOX_HEIGHT, type Layout } from "./graph";

interface Props {
  label: string;
  found: Layout;
  chosen: string;
  /** `only`: choose the box without opening or closing it. */
  onPick: (id: string, only: boolean) => void;
}

export function Boxes({ label, found, chosen, onPick }: Props) {
  const boxes = new Map(found.boxes.map((box) => [box.id, box]));
  const near = new Set(
    found.edges
      .filter((edge) => edge.from === chosen || edge.to === chosen)
      .flatMap((edge) => [edge.from, edge.to]),
  );
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    frame.current
      ?.querySelector("[aria-pressed=true]")
      ?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [chosen, found]);
  return (
    <div
      ref={frame}
      tabIndex={0}
      role="group"
      aria-label={label}
      style={{ overflow: "auto", maxHeight: "70vh", border: "1px solid var(--line)" }}
    >
      <svg
        width={found.width + 20}
        height={found.height + 20}
        viewBox={`-10 -10 ${found.width + 20} ${found.height + 20}`}
        role="group"
        aria-label={`${found.boxes.length} boxes`}
      >
        {found.edges.map((edge) => {
          const [from, to] = [boxes.get(edge.from)!, boxes.get(edge.to)!];
          const lit = edge.from === chosen || edge.to === chosen;
          const [x1, y1, x2, y2] = [from.x + from.width / 2, from.y + BOX_HEIGHT, to.x + to.width / 2, to.y];
          return (
            <path
              key={`${edge.from} ${edge.to}`}
              d={`M${x1},${y1} C${x1},${y1 + 18} ${x2},${y2 - 18} ${x2},${y2}`}
              fill="none"
              stroke={lit ? "var(--accent)" : "var(--quiet)"}
              stroke-opacity={lit || !chosen ? 0.8 : 0.25}
              stroke-width={Math.min(4, 1 + Math.log10(edge.count))}
            />
          );
        })}
        {found.boxes.map((box) => (
          <g
            key={box.id}
            transform={`translate(${box.x},${box.y})`}
            role="button"
            tabIndex={0}
            aria-pressed={box.id === chosen}
            aria-label={`${box.label}${box.nodes > 1 ? `, ${box.nodes} nodes` : ` ${box.type}`}`}
            style={{ cursor: "pointer" }}
            onClick={(event) => onPick(box.id, event.shiftKey)}
            onKeyDown={(event) => event.key === "Enter" && onPick(box.id, false)}
          >
            <rect
              width={box.width}
              height={BOX_HEIGHT}
              rx={box.nodes > 1 ? 10 : 3}
              fill={box.id === chosen ? "var(--picked)" : "var(--panel)"}
              stroke={box.id === chosen || near.has(box.id) ? "var(--accent)" : "var(--line)"}
            />
            <text x={box.width / 2} y={17} text-anchor="middle" font-size="11" fill="var(--ink)">
              {box.label.length > 28 ? `${box.label.slice(0, 27)}…` : box.label}
              {box.nodes > 1 && ` (${number(box.nodes)})`}
            </text>
            <title>{`${box.id}\n${box.type}`}</title>
          </g>
        ))}
      </svg>
    </div>
  );
}
