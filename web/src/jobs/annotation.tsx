// Label and remark of a job, written where they are shown and kept by the server.

import { useSignal } from "@preact/signals";
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
  onDone,
}: {
  job: JobId;
  value: string;
  editing: boolean;
  onDone: (text: string) => void;
}) {
  const problem = useSignal("");
  const wanted = useSignal(editing);
  if (!editing && !wanted.value) {
    return (
      <button
        type="button"
        class="plain"
        title={value || "Write a remark (e)"}
        onClick={() => (wanted.value = true)}
      >
        {value || "…"}
      </button>
    );
  }
  const finish = async (text: string) => {
    try {
      if (text !== value) await keep(job, { remark: text });
      wanted.value = false;
      onDone(text);
    } catch (error) {
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
      value={value}
      ref={(element) => element?.focus()}
      onKeyDown={(event) => {
        event.stopPropagation();
        if (event.key === "Enter") finish(event.currentTarget.value);
        if (event.key === "Escape") {
          wanted.value = false;
          onDone(value);
        }
      }}
      onBlur={(event) => !problem.value && finish(event.currentTarget.value)}
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
