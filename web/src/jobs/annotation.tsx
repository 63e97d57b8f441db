// The label and remark of a job, edited in place and stored by the server.

import { signal, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { JobId } from "../api";
import { jobPath, Problem, sent } from "../client";

export const LABELS = Array.from({ length: 11 }, (_, n) => n);

/** Why the server did not store the last edit; "" if it did. */
const refused = signal("");

export function Refused() {
  return refused.value ? (
    <div class="wrong" role="alert">
      {refused.value}
    </div>
  ) : null;
}

/** Send an annotation; return whether the server stored it. */
async function keep(job: JobId, annotation: { tag?: number; remark?: string }): Promise<boolean> {
  try {
    await sent("PUT", jobPath(job.base, job.name, "annotation"), annotation);
    refused.value = "";
  } catch (error) {
    const why = error instanceof Problem ? `${error.message} ${error.remedy}` : String(error);
    refused.value = `What was written on ${job.name} is not kept. ${why}`;
  }
  return refused.value === "";
}

export function Remark({
  job,
  value,
  editing,
  onEdit,
  onDone,
}: {
  job: JobId;
  value: string;
  editing: boolean;
  onEdit: () => void;
  onDone: (text: string) => void;
}) {
  if (editing) return <Draft job={job} value={value} onDone={onDone} />;
  return (
    <button type="button" class="plain" title={value || "Write a remark (e)"} onClick={onEdit}>
      {value || "…"}
    </button>
  );
}

/** The field for a remark. It has the text in its own state, because the table is redrawn whenever jobs change. */
function Draft({ job, value, onDone }: { job: JobId; value: string; onDone: (text: string) => void }) {
  const text = useSignal(value);
  const wrong = useSignal(false);
  const over = useRef(false);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  const finish = async () => {
    if (over.current) return;
    over.current = true;
    if (text.value === value || (await keep(job, { remark: text.value }))) onDone(text.value);
    else {
      over.current = false;
      wrong.value = true; // the field stays open; Escape discards the text
    }
  };
  return (
    <input
      type="text"
      aria-label={`Remark on ${job.name}`}
      maxLength={128}
      aria-invalid={wrong.value}
      value={text.value}
      ref={input}
      onInput={(event) => {
        text.value = event.currentTarget.value;
      }}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Enter") finish();
        if (event.key === "Escape") {
          over.current = true;
          refused.value = "";
          onDone(value);
        }
      }}
      onBlur={() => !wrong.value && finish()}
    />
  );
}

/** `onEdit` is told a label before it is stored, because the answer may come after newer ones; undefined: refused. */
export function Label({
  job,
  value,
  onEdit,
}: {
  job: JobId;
  value: number | null;
  onEdit: (label: number | undefined) => void;
}) {
  return (
    <select
      aria-label={`Label of ${job.name}`}
      title="Label"
      value={value ?? 0}
      onChange={async ({ currentTarget: select }) => {
        const label = Number(select.value);
        onEdit(label);
        if (!(await keep(job, { tag: label }))) onEdit(undefined);
      }}
    >
      {LABELS.map((label) => (
        <option key={label} value={label}>
          {label || "–"}
        </option>
      ))}
    </select>
  );
}
