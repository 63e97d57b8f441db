// Images: the picture of a step, with a slider over all of them.

import { payloadUrl } from "../api";
import { Show } from "../parts/loaded";
import type { TabProps } from "./page";
import { chosenRow, chosenTag, StepSlider, TagPicker, useRows } from "./steps";

export function ImagesTab({ job, tags }: TabProps) {
  const all = tags.tags.image ?? [];
  const place = { plugin: "image", tag: chosenTag(all) };
  const rows = useRows(job, place);
  if (!all.length) return <p class="empty">No image was recorded.</p>;
  return (
    <section class="pictures">
      <TagPicker tags={all} />
      <Show of={rows.value}>
        {(found) => (
          <>
            <StepSlider rows={found} />
            {found.length > 0 && (
              <img
                src={payloadUrl(job, place, found[chosenRow(found)]!, "png")}
                alt={`${place.tag} at step ${found[chosenRow(found)]!.step}`}
                style={{ minWidth: "min(100%, 320px)" }}
              />
            )}
          </>
        )}
      </Show>
    </section>
  );
}
