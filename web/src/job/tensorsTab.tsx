// The tensors of a tag: a slice of two dimensions as a table, and statistics.

import { type JobId, numeric, type PayloadRow, type Place, payload, payloadUrl } from "../api";
import { number } from "../format";
import { Show, useLoaded } from "../parts/loaded";
import { parameter, set } from "../state";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, ShowRows, StepSlider, TagPicker, useRows } from "./steps";

const MOST_SHOWN = 50; // rows and columns

export function TensorsTab({ job, tags }: TabProps) {
  const all = tags.tags.tensor ?? [];
  const place = { plugin: "tensor", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No tensor was recorded.</p>;
  return (
    <section>
      <TagPicker tags={all} />
      <ShowRows of={rows}>
        {(found) => (
          <>
            <StepSlider rows={found} />
            {found.length > 0 && <Tensor job={job} place={place} row={found[chosenRow(found)]!} />}
          </>
        )}
      </ShowRows>
    </section>
  );
}

type Nested = number | string | null | Nested[];

function Tensor({ job, place, row }: { job: JobId; place: Place; row: PayloadRow }) {
  const shape = row.shape ?? [];
  const part = parameter("part") || defaultPart(shape);
  const loaded = useLoaded(JSON.stringify([job, place, row.step, row.device, part]), (signal) =>
    payload<{ shape: number[]; value: Nested }>(job, place, row, { part }, signal),
  );
  return (
    <>
      <div class="bar">
        <label>
          part{" "}
          <input
            type="text"
            value={part}
            aria-label="Part of the tensor, as NumPy slices it"
            onChange={(event) => set({ part: event.currentTarget.value })}
          />
        </label>
        <small>of {shape.join(" × ") || "a single number"}, as NumPy slices it</small>
        <a
          href={payloadUrl(job, place, row, "npy")}
          download={`${place.tag.replaceAll("/", "_")}-${row.step}.npy`}
        >
          .npy
        </a>
      </div>
      <Show of={loaded.value}>{({ shape: shown, value }) => <Numbers shape={shown} value={value} />}</Show>
    </>
  );
}

/** The first indices of all dimensions but the last two, of which up to `MOST_SHOWN` rows and columns. */
function defaultPart(shape: readonly number[]): string {
  return shape
    .map((size, n) => (n < shape.length - 2 ? "0" : size > MOST_SHOWN ? `0:${MOST_SHOWN}` : ":"))
    .join(",");
}

function Numbers({ shape, value }: { shape: readonly number[]; value: Nested }) {
  const flat = flattened(value);
  const numbers = Float64Array.from(flat, numeric);
  const finite = numbers.filter(Number.isFinite);
  const mean = finite.reduce((sum, each) => sum + each, 0) / finite.length;
  const facts = [
    ["least", finite.length ? number(finite.reduce((a, b) => Math.min(a, b))) : "–"],
    ["mean", finite.length ? number(mean) : "–"],
    ["greatest", finite.length ? number(finite.reduce((a, b) => Math.max(a, b))) : "–"],
    ["numbers", number(numbers.length)],
    ["not finite", number(numbers.length - finite.length)],
  ];
  const rows =
    shape.length === 0
      ? [[value]]
      : shape.length === 1
        ? [value as Nested[]]
        : shape.length === 2
          ? (value as Nested[][])
          : null;
  return (
    <>
      <p>of this part: {facts.map(([name, text]) => `${name} ${text}`).join(" · ")}</p>
      {rows ? (
        <section tabIndex={0} aria-label="Numbers" style={{ overflow: "auto", maxHeight: "480px" }}>
          <table class="mono">
            <tbody>
              {rows.slice(0, 200).map((line, n) => (
                <tr key={n}>
                  <th scope="row">{n}</th>
                  {line.slice(0, 200).map((each, m) => (
                    <td key={m}>{number(numeric(each as number))}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      ) : (
        <p class="quiet">More than two dimensions are left: choose a part such as {defaultPart(shape)}.</p>
      )}
    </>
  );
}

function flattened(value: Nested): (number | string | null)[] {
  return Array.isArray(value) ? value.flatMap(flattened) : [value];
}
