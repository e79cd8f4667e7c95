// Unit preview.tsx: what a search would train: how many trials how long; and how its ladder may fill, simulated.
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { post } from '../api/client.ts';
import { Ladder } from '../charts/ladder.tsx';
import type { SearchAnswer } from '../charts/rungs.ts';
import { attempt } from '../parts/dialog.tsx';
import { Said } from '../parts/text.tsx';
import { formatCount, formatNumber } from '../text/format.ts';

// As the master answers: POST /search/preview.
export interface PreviewAnswer {
    method: string;
    unit: string;
    trials: number;
    units: number; // trained by all of them
    hasRungs: boolean;
    lengths: { length: number; trials: number }[];
}

// "12 trials train for 112 batches"
function Totals({ plan }: { plan: PreviewAnswer }) {
    const trials = (n: number): string => (n === 1 ? '1 trial' : `${formatCount(n)} trials`);
    if (plan.lengths.every((l) => !l.length)) return <p>{trials(plan.trials)}, as long as the program decides</p>;
    return (
        <>
            <ul class="plain-list">
                {plan.lengths.map((l) => <li key={l.length}><span class="num">{trials(l.trials)}</span> of <span class="num">{formatCount(l.length)}</span> {plan.unit}</li>)}
            </ul>
            {plan.trials > 1 && <p class="quiet">{formatNumber(plan.units)} {plan.unit} in all</p>}
        </>
    );
}

export function Preview({ plan, config, template }: { plan: PreviewAnswer; config: string; template: string }) {
    const simulated = useSignal<SearchAnswer | null>(null), hot = useSignal<number | null>(null);
    useEffect(() => { simulated.value = null; }, [config, template]); // it was another search
    const simulate = async (): Promise<void> => {
        const found = await attempt(() => post<SearchAnswer>('/search/simulate', { config, ...(template ? { template } : {}) }));
        if (found) simulated.value = found;
    };
    return (
        <section class="part" aria-label="Preview of the search">
            <h2>Search <span class="quiet"><Said text={plan.method} /></span></h2>
            <Totals plan={plan} />
            {plan.hasRungs && !simulated.value && <p><button type="button" onClick={() => void simulate()}>Simulate</button></p>}
            {simulated.value && (
                <>
                    <Ladder search={simulated.value} ordinal={(id) => id} hot={hot} links={false} />
                    <p class="quiet">Simulated with made-up metrics.</p>
                </>
            )}
        </section>
    );
}
