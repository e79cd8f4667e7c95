// Unit legend.tsx: which curve is which, once for all charts of a page.
import type { ReadonlySignal, Signal } from '@preact/signals';
import { Said } from '../parts/text.tsx';
import { Swatch } from './swatch.tsx';

export interface LegendEntry {
    id: number; // of the line; below 0: a group
    label: string;
    number: number; // its colour
}

const MAX_SHOWN = 24;

export function Legend({ entries, hot }: { entries: ReadonlySignal<readonly LegendEntry[]>; hot: Signal<number | null> }) {
    const all = entries.value;
    if (all.length < 2) return null;
    return (
        <ul class="key-list" aria-label="Curves">
            {all.slice(0, MAX_SHOWN).map((e) => (
                <li key={e.id} data-hot={hot.value === e.id ? '' : undefined} onMouseEnter={() => (hot.value = e.id)} onMouseLeave={() => (hot.value = null)}>
                    <Swatch number={e.number} />{e.id > 0 ? <a href={`/trials/${e.id}`}><Said text={e.label} max={60} /></a> : <Said text={e.label} max={60} />}
                </li>
            ))}
            {all.length > MAX_SHOWN && <li class="quiet">and {all.length - MAX_SHOWN} more</li>}
        </ul>
    );
}
