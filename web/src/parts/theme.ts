// Light or dark: the system's setting, until the user switches.

import { computed, effect, signal } from "@preact/signals";

type Theme = "system" | "light" | "dark";
const system = matchMedia("(prefers-color-scheme: dark)");
const systemIsDark = signal(system.matches);
system.addEventListener("change", (event) => {
  systemIsDark.value = event.matches;
});

export const theme = signal<Theme>((localStorage.getItem("theme") as Theme | null) ?? "system");
export const dark = computed(() => (theme.value === "system" ? systemIsDark.value : theme.value === "dark"));

effect(() => {
  document.documentElement.dataset.theme = dark.value ? "dark" : "light";
  localStorage.setItem("theme", theme.value);
});

export function switchTheme(): void {
  theme.value = dark.value ? "light" : "dark";
}
