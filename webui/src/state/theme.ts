// Unit theme.ts: light or dark: as the system says, unless somebody has chosen.
import { computed, signal } from '@preact/signals';

export type Theme = 'system' | 'light' | 'dark';

const dark = matchMedia('(prefers-color-scheme: dark)');
const systemDark = signal(dark.matches);
dark.addEventListener('change', () => (systemDark.value = dark.matches));

function stored(): Theme {
    const text = localStorage.getItem('det.theme');
    return text === 'light' || text === 'dark' ? text : 'system';
}

export const theme = signal<Theme>(stored());
export const isDark = computed(() => (theme.value === 'system' ? systemDark.value : theme.value === 'dark'));

addEventListener('storage', (event) => {
    if (event.key === 'det.theme') show(stored());
});

function show(chosen: Theme): void {
    if (chosen === 'system') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    theme.value = chosen;
}

export function setTheme(chosen: Theme): void {
    if (chosen === 'system') localStorage.removeItem('det.theme');
    else localStorage.setItem('det.theme', chosen);
    show(chosen);
}

export function toggleTheme(): void {
    setTheme(isDark.peek() ? 'light' : 'dark');
}

// Colours of the theme, for canvases.
export function colour(name: string): string {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
