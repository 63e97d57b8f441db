// A table of any length; only the rows in view are in the document.

import { useComputed, useSignal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { SortKey } from "../columns";
import { px } from "./px";

export const ROW = 28; // pixels
const BEYOND = 6; // rows that are also drawn above and below the view

export interface TableColumn {
  name: string;
  title: string;
  width: number;
  right?: boolean;
  hint?: string;
}

interface Props {
  label: string;
  columns: readonly TableColumn[];
  rows: number;
  cell: (row: number, column: string) => ComponentChildren;
  keyOf: (row: number) => string;
  sort?: readonly SortKey[];
  onSort?: (name: string, also: boolean) => void;
  pinned?: number;
  current?: number | null;
  selected?: (row: number) => boolean;
  onOpen?: (row: number) => void;
}

export function Table(props: Props) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  const first = useComputed(() => Math.max(0, Math.floor(top.value / ROW) - BEYOND));
  const shown = useComputed(() => Math.ceil(height.value / ROW) + 2 * BEYOND);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => {
      if (entry) height.value = entry.contentRect.height;
    });
    if (box.current) seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (box.current) box.current.scrollTop = history.state?.top ?? 0; // restore the position after navigating back
  }, []);
  const goesTo = typeof props.current === "number" ? props.keyOf(props.current) : null;
  useEffect(() => {
    const { current: element } = box;
    if (!element || props.current === null || props.current === undefined) return;
    const at = props.current * ROW;
    const view = element.clientHeight - 2 * ROW;
    if (at < element.scrollTop) element.scrollTop = at;
    else if (at > element.scrollTop + view) element.scrollTop = at - view;
  }, [goesTo]); // not its place, which changes as other rows come and go
  const last = Math.min(props.rows, first.value + shown.value);
  const lefts = pinnedLefts(props.columns, props.pinned ?? 0);
  const width = props.columns.reduce((sum, column) => sum + column.width, 0);
  const rows: JSX.Element[] = [];
  for (let row = first.value; row < last; row += 1)
    rows.push(<Row key={props.keyOf(row)} row={row} lefts={lefts} {...props} />);
  return (
    <div
      class="table"
      ref={box}
      role="table"
      aria-label={props.label}
      aria-rowcount={props.rows + 1}
      tabIndex={0}
      onScroll={(event) => {
        top.value = event.currentTarget.scrollTop;
      }}
      onScrollEnd={() => history.replaceState({ ...history.state, top: top.value }, "")}
    >
      <div
        style={{ width: px(width), height: px((props.rows + 1) * ROW), position: "relative" }}
        role="rowgroup"
      >
        <div class="row head" role="row" aria-rowindex={1}>
          {props.columns.map((column, n) => (
            <Head key={column.name} column={column} left={lefts[n]} sort={props.sort} onSort={props.onSort} />
          ))}
        </div>
        {rows}
      </div>
    </div>
  );
}

function Row({
  row,
  lefts,
  columns,
  cell,
  selected,
  current,
  onOpen,
}: Props & { row: number; lefts: (number | undefined)[] }) {
  const classes = `row${selected?.(row) ? " selected" : ""}${current === row ? " current" : ""}`;
  return (
    <div
      class={classes}
      role="row"
      aria-rowindex={row + 2}
      aria-selected={selected?.(row) ?? false}
      style={{ top: px((row + 1) * ROW) }}
      onDblClick={() => onOpen?.(row)}
    >
      {columns.map((column, n) => (
        <div
          key={column.name}
          role="cell"
          class={cellClass(column, lefts[n])}
          style={{ width: px(column.width), left: px(lefts[n]) }}
        >
          {cell(row, column.name)}
        </div>
      ))}
    </div>
  );
}

function Head({
  column,
  left,
  sort,
  onSort,
}: {
  column: TableColumn;
  left: number | undefined;
  sort: readonly SortKey[] | undefined;
  onSort: Props["onSort"];
}) {
  const place = sort?.findIndex((key) => key.name === column.name) ?? -1;
  const key = sort?.[place];
  const mark = key ? `${key.down ? "↓" : "↑"}${(sort?.length ?? 0) > 1 ? place + 1 : ""}` : "";
  return (
    <div
      role="columnheader"
      class={cellClass(column, left)}
      style={{ width: px(column.width), left: px(left) }}
      aria-sort={key ? (key.down ? "descending" : "ascending") : "none"}
    >
      {onSort && column.title ? (
        <button
          type="button"
          title={`${column.hint ?? column.title} (Shift: sort by this too)`}
          onClick={(event) => onSort(column.name, event.shiftKey)}
        >
          {column.title} {mark}
        </button>
      ) : (
        <span title={column.hint ?? column.title}>
          {column.title || <span class="hidden">{column.hint}</span>}
        </span>
      )}
    </div>
  );
}

function cellClass(column: TableColumn, left: number | undefined): string {
  return `cell${column.right ? " right" : ""}${left === undefined ? "" : " pinned"}`;
}

function pinnedLefts(columns: readonly TableColumn[], pinned: number): (number | undefined)[] {
  let left = 0;
  return columns.map((column, n) => {
    if (n >= pinned) return undefined;
    left += column.width;
    return left - column.width;
  });
}
