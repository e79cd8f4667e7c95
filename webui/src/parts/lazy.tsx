// Unit lazy.tsx: components whose code is loaded when they are first shown.
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { signal } from '@preact/signals';
import { Failed, Loading } from './status.tsx';

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
    const found = signal<ComponentType<P> | null>(null), failed = signal('');
    const start = (): void => {
        load().then((component) => { found.value = component; failed.value = ''; })
            .catch(() => (failed.value = 'A part of the page could not be loaded. If the master was updated, load the page again.'));
    };
    return (props) => {
        useEffect(() => { if (!found.peek()) start(); }, []);
        const Shown = found.value;
        if (Shown) return <Shown {...props} />;
        return failed.value ? <Failed words={failed.value} retry={start} /> : <div class="page"><Loading lines={8} /></div>;
    };
}
