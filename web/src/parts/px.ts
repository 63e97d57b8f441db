// Formats a length in pixels for a style.

export function px(length: number | undefined): string | undefined {
  return length === undefined ? undefined : `${length}px`;
}
