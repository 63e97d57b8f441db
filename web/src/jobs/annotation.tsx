// Label and remark of a job, written where they are shown and kept by the server.

import { useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { JobId } from "../api";
import { jobPath, Problem, sent } from "../client";

export const LABELS = Array.from({ length: 11 }, (_, n) => n);

async function keep(job: JobId, annotation: { tag?: number; remark?: string }): Promise<void> {
  await sent("PUT", `${jobPath(job.base, job.name)}/annotation`, annotation);
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

/** What is being typed stays here: jobs that grow meanwhile draw the table anew. */
function Draft({ job, value, onDone }: { job: JobId; value: string; onDone: (text: string) => void }) {
  const text = useSignal(value);
  const problem = useSignal("");
  const over = useRef(false);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  const finish = async () => {
    if (over.current) return;
    over.current = true;
    try {
      if (text.value !== value) await keep(job, { remark: text.value });
      onDone(text.value);
    } catch (error) {
      over.current = false;
      problem.value = error instanceof Problem ? `${error.message} ${error.remedy}` : String(error);
    }
  };
  return (
    <input
      type="text"
      aria-label={`Remark on ${job.name}`}
      maxLength={128}
      title={problem.value}
      aria-invalid={problem.value !== ""}
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
          onDone(value);
        }
      }}
      onBlur={() => !problem.value && finish()}
    />
  );
}

export function Label({
  job,
  value,
  onDone,
}: {
  job: JobId;
  value: number | null;
  onDone: (label: number) => void;
}) {
  const problem = useSignal("");
  return (
    <select
      aria-label={`Label of ${job.name}`}
      title={problem.value || "Label"}
      aria-invalid={problem.value !== ""}
      value={value ?? 0}
      onChange={async (event) => {
        const label = Number(event.currentTarget.value);
        try {
          await keep(job, { tag: label });
          onDone(label);
        } catch (error) {
          problem.value = error instanceof Problem ? error.message : String(error);
        }
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
