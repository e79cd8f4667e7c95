// Unit keys.ts: one table of keys for what is on the screen. A component says which keys it takes while it is shown;
// the latest one wins. Keys typed into a field belong to the field.
import { useEffect, useRef } from 'preact/hooks';

export interface Key {
    key: string; // "j", "g e" (one after the other), "Ctrl-K", "Escape"
    does: string; // for the list of keys
    run: (event: KeyboardEvent) => void;
}

const layers: { current: Key[] }[] = [];
let before = ''; // the first key of a pair
let beforeTime = 0;

export function nameKey(event: KeyboardEvent): string {
    const ctrl = event.ctrlKey || event.metaKey;
    const key = event.key.length === 1 && ctrl ? event.key.toUpperCase() : event.key;
    return (ctrl ? 'Ctrl-' : '') + (event.altKey ? 'Alt-' : '') + key;
}

function isTyping(target: EventTarget | null): boolean {
    const e = target as HTMLElement | null;
    if (!e?.tagName) return false;
    if (e.isContentEditable || e.tagName === 'TEXTAREA' || e.tagName === 'SELECT') return true;
    return e.tagName === 'INPUT' && !/^(checkbox|radio|button|submit|range)$/.test((e as HTMLInputElement).type);
}

export function findKey(name: string): Key | undefined {
    for (let i = layers.length - 1; i >= 0; i--) {
        const found = layers[i]!.current.find((k) => k.key === name);
        if (found) return found;
    }
    return undefined;
}

addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing) return;
    const name = nameKey(event);
    const plain = !name.startsWith('Ctrl-') && name !== 'Escape';
    if (plain && isTyping(event.target)) return;
    if (document.querySelector('dialog[open]') && name !== 'Ctrl-K') return; // a dialog is alone
    const pair = before && event.timeStamp - beforeTime < 1500 ? `${before} ${name}` : '';
    before = name;
    beforeTime = event.timeStamp;
    const key = (pair && findKey(pair)) || findKey(name);
    if (!key) return;
    event.preventDefault();
    if (pair) before = '';
    key.run(event);
});

export function useKeys(keys: Key[]): void {
    const layer = useRef(keys);
    layer.current = keys;
    useEffect(() => {
        layers.push(layer);
        return () => void layers.splice(layers.indexOf(layer), 1);
    }, []);
}

// What works now, for the list of keys; a key that is taken twice is shown once.
export function keysNow(): Key[] {
    const all = new Map<string, Key>();
    for (const layer of layers) for (const k of layer.current) all.set(k.key, k);
    return [...all.values()].filter((k) => k.does);
}
