// Unit lazy.tsx: components whose code is loaded when they are first shown, or when there is nothing else to do: so that
// every page opens at once, and also while the master is away.
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { signal } from '@preact/signals';
import { epoch } from '../state/connection.ts';
import { Failed, Loading } from './status.tsx';

const waiting: (() => void)[] = [];

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
    const found = signal<ComponentType<P> | null>(null), failed = signal(false);
    const start = (): void => {
        if (found.peek()) return;
        load().then((component) => { found.value = component; failed.value = false; }).catch(() => (failed.value = true));
    };
    waiting.push(start);
    return (props) => {
        useEffect(start, [epoch.value]);
        const Shown = found.value;
        if (Shown) return <Shown {...props} />;
        if (!failed.value) return <div class="page"><Loading lines={8} /></div>;
        return <Failed words="A part of the page could not be loaded." retry={() => location.reload()} />;
    };
}

export function loadTheRest(): void {
    const soon = globalThis.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 1000));
    soon(() => waiting.forEach((start) => start()));
}
