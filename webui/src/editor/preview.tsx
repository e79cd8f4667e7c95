// Unit preview.tsx: what a search would train: how many trials how long; and how its ladder may fill, simulated.
import { useSignal } from '@preact/signals';
import { post } from '../api/client.ts';
import { Ladder } from '../charts/ladder.tsx';
import type { Rung, SearchAnswer } from '../charts/rungs.ts';
import { attempt } from '../parts/dialog.tsx';
import { Said } from '../parts/text.tsx';
import { formatCount } from '../text/format.ts';

export interface PreviewAnswer extends SearchAnswer {
    trials?: { count: number; length: number; unit?: string }[]; // how many trials train to which length
}

// "16 trials of 112 batches, 4 of 450"
function Totals({ preview }: { preview: PreviewAnswer }) {
    const counts = preview.trials ?? preview.brackets.flatMap((b) => b.rungs.map((r: Rung) => ({ count: r.count ?? 0, length: r.length, unit: r.unit })));
    const all = counts.filter((c) => c.count);
    const sum = all.reduce((a, c) => a + c.count * c.length, 0);
    if (!all.length) return <p class="quiet">One trial, as long as its program decides.</p>;
    return (
        <>
            <ul class="plain-list">
                {all.map((c, i) => <li key={i}><span class="num">{formatCount(c.count)}</span> {c.count === 1 ? 'trial' : 'trials'} of <span class="num">{formatCount(c.length)}</span> {c.unit ?? 'batches'}</li>)}
            </ul>
            <p class="quiet">{formatCount(sum)} {all[0]!.unit ?? 'batches'} in all</p>
        </>
    );
}

export function Preview({ preview, config, template }: { preview: PreviewAnswer; config: string; template: string }) {
    const simulated = useSignal<SearchAnswer | null>(null), hot = useSignal<number | null>(null);
    const simulate = async (): Promise<void> => {
        const found = await attempt(() => post<SearchAnswer>('/search/simulate', { config, ...(template ? { template } : {}) }));
        if (found) simulated.value = found;
    };
    return (
        <section class="part" aria-label="Preview of the search">
            <h2>Search <span class="quiet"><Said text={preview.method} /></span></h2>
            <Totals preview={preview} />
            {preview.brackets.some((b) => b.rungs.length) && <p><button type="button" onClick={() => void simulate()}>Simulate</button></p>}
            {simulated.value && <Ladder search={simulated.value} ordinal={(id) => id} hot={hot} links={false} />}
        </section>
    );
}
