// Unit route.ts: the address bar is the state. Pages read it through signals and change it with navigate() and
// setParams(); whatever can be linked is in it.
import { computed, signal, type ReadonlySignal } from '@preact/signals';
import { splitList } from '../text/list.ts';

const here = () => new URL(location.href);

export const url = signal(here());
export const path = computed(() => url.value.pathname);

addEventListener('popstate', () => (url.value = here()));

export function navigate(to: string, how: 'push' | 'replace' = 'push'): void {
    const next = new URL(to, location.href);
    if (next.href === location.href) return;
    history[how === 'push' ? 'pushState' : 'replaceState'](null, '', next);
    const samePage = next.pathname === url.value.pathname;
    url.value = next;
    if (!samePage) scrollTo(0, 0);
}

// Links are ordinary ones; those to pages of ours are opened without loading anything.
addEventListener('click', (event) => {
    const link = (event.target as Element | null)?.closest?.('a');
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || link.target || link.hasAttribute('download') || event.defaultPrevented) return;
    if (link.origin !== location.origin || link.pathname.startsWith('/api/')) return;
    event.preventDefault();
    navigate(link.href);
});

export function param(name: string, fallback = ''): ReadonlySignal<string> {
    return computed(() => url.value.searchParams.get(name) ?? fallback);
}

export type Params = Record<string, string | number | null | undefined>;

// The same address with other parameters; null and "" take one away.
export function withParams(base: URL, changes: Params): string {
    const next = new URL(base);
    for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === undefined || value === '') next.searchParams.delete(name);
        else next.searchParams.set(name, String(value));
    }
    // These are legible as they are, and allowed.
    const query = next.searchParams.toString().replace(/%(2C|3A|3B|7C|2F)/g, decodeURIComponent);
    return next.pathname + (query ? `?${query}` : '') + next.hash;
}

export function setParams(changes: Params, how: 'push' | 'replace' = 'replace'): void {
    navigate(withParams(url.value, changes), how);
}

export const listParam = (name: string): string[] => splitList(param(name).value);
