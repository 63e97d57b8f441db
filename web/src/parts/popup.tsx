// A dialog above the page. Escape only closes the dialog; the focus then returns to the element that had it before.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Popup({ label, onClose, children }: Props) {
  const box = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const opener = document.activeElement;
    box.current?.show();
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "Escape") return;
      event.stopPropagation(); // otherwise the page would clear the brushes
      onClose();
    };
    addEventListener("keydown", onKey, true);
    return () => {
      removeEventListener("keydown", onKey, true);
      if (opener instanceof HTMLElement) opener.focus();
    };
  }, []);
  return (
    <dialog ref={box} aria-label={label}>
      {children}
    </dialog>
  );
}
