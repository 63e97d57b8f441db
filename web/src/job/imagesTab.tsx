// The images of a tag, one step at a time, with a slider.

import { useSignal } from "@preact/signals";
import { type JobId, type PayloadRow, type Place, payloadUrl } from "../api";
import { canBeHad } from "../client";
import { Show, useLoaded } from "../parts/loaded";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, ShowRows, StepSlider, TagPicker, useRows } from "./steps";

export function ImagesTab({ job, tags }: TabProps) {
  const all = tags.tags.image ?? [];
  const place = { plugin: "image", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No image was recorded.</p>;
  return (
    <section class="pictures">
      <TagPicker tags={all} />
      <ShowRows of={rows}>
        {(found) => (
          <>
            <StepSlider rows={found} />
            {found.length > 0 && <Picture job={job} place={place} row={found[chosenRow(found)]!} />}
          </>
        )}
      </ShowRows>
    </section>
  );
}

/** An image. Browsers do not say why one fails to load, so the page then fetches it to get the server's problem. */
function Picture({ job, place, row }: { job: JobId; place: Place; row: PayloadRow }) {
  const address = payloadUrl(job, place, row, "png");
  const broken = useSignal("");
  const isBroken = broken.value === address;
  const why = useLoaded(isBroken ? address : null, (signal) => canBeHad(address, signal));
  if (isBroken) return <Show of={why.value}>{() => <p class="bad">The picture cannot be shown.</p>}</Show>;
  return (
    <img
      src={address}
      alt={`${place.tag} at step ${row.step}`}
      style={{ minWidth: "min(100%, 320px)" }}
      onError={() => (broken.value = address)}
    />
  );
}
