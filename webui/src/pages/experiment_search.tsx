// Unit experiment_search.tsx: how a search goes: its ladder, parallel coordinates, which hyperparameter matters, and how.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { get } from '../api/client.ts';
import { Ladder } from '../charts/ladder.tsx';
import type { SearchAnswer } from '../charts/rungs.ts';
import { Parallel } from '../charts/parallel.tsx';
import { Scatter } from '../charts/scatter.tsx';
import { Await, Empty } from '../parts/status.tsx';
import { Said } from '../parts/text.tsx';
import { param } from '../state/route.ts';
import type { ExperimentView } from '../state/experiment.ts';
import { useResource } from '../state/resource.ts';
import { HPARAM } from '../state/trials.ts';
import { formatPercent } from '../text/format.ts';
import type { TabProps } from './experiment.tsx';
import { passingRows, TrialTable, useBrushes } from './experiment_trials.tsx';

const MAX_AXES = 9;

// otherwise: shown of searches without rungs.
export function LadderPart({ view, otherwise }: { view: ExperimentView; otherwise?: ComponentChildren }) {
    const search = useResource(`s${view.id}`, (abort) => get<SearchAnswer>(`/experiments/${view.id}/search`, {}, abort),
                               { topics: [`experiment:${view.id}`], on: (e, r) => { if (e.name === 'trial' && e.data.experimentId === view.id) r.reload(); } });
    void view.trials.version.value;
    if (otherwise && search.data.value?.brackets.every((b) => !b.rungs.length)) return <>{otherwise}</>;
    return (
        <section class="part">
            <h2>Rungs</h2>
            <Await of={search}>
                {(s) => (s.brackets.some((b) => b.rungs.length) ? <Ladder search={s} ordinal={(id) => view.trials.ordinal(id)} hot={view.hot} />
                    : <p class="quiet">This search has no rungs: every trial trains to its end.</p>)}
            </Await>
        </section>
    );
}

interface Importance {
    importance: { name: string; value: number }[];
    trials: number;
}

export function ImportancePart({ view, about }: TabProps) {
    const done = view.trials.version.value && view.trials.count;
    const found = useResource(done ? `i${view.id}` : '', (abort) =>
        get<Importance>(`/experiments/${view.id}/importance`, { metric: about.experiment.searcherMetric }, abort),
        { topics: [`experiment:${view.id}`], on: (e, r) => { if (e.name === 'trial' && e.data.experimentId === view.id && e.data.endTime) r.reload(); } });
    return (
        <section class="part">
            <h2>Importance</h2>
            <Await of={found} lines={2}>
                {({ importance, trials }) => (importance.length ? (
                    <>
                        <ul class="bars">
                            {[...importance].sort((a, b) => b.value - a.value).map((i) => (
                                <li key={i.name}>
                                    <span><Said text={i.name} max={30} /></span>
                                    <span class="bar" aria-hidden="true"><span style={{ width: `${Math.max(0, Math.min(1, i.value)) * 100}%` }} /></span>
                                    <span class="num">{formatPercent(i.value)}</span>
                                </li>
                            ))}
                        </ul>
                        <p class="quiet">of the differences between {trials} trials</p>
                    </>
                ) : <p class="quiet">More trials must end before this can be said.</p>)}
            </Await>
        </section>
    );
}

// Axes of the plots: varied hyperparameters, the metric last.
export function usePlotColumns({ view, about }: TabProps): { name: string; title: string; log: boolean }[] {
    const version = view.trials.version.value;
    return useMemo(() => {
        const kinds = (about.config.hyperparameters ?? {}) as Record<string, { type?: string } | undefined>;
        const hparams = view.trials.varied.slice(0, MAX_AXES).map((name) => {
            const title = name.slice(HPARAM.length);
            return { name, title, log: kinds[title]?.type === 'log' };
        });
        return [...hparams, { name: 'metric', title: about.experiment.searcherMetric ?? 'metric', log: false }];
    }, [version, about.experiment.searcherMetric]);
}

export function usePassing(view: ExperimentView): ReadonlySet<number> {
    const version = view.trials.version.value, { brushes } = useBrushes(), filter = param('q').value;
    return useMemo(() => new Set(passingRows(view.trials, brushes, filter)), [version, brushes, filter]);
}

export function ParallelPart(props: TabProps) {
    const { view, about } = props;
    const { brushes, setBrush } = useBrushes();
    const columns = usePlotColumns(props), passing = usePassing(view);
    return (
        <section class="part">
            <h2>Parallel coordinates <span class="quiet">drag along an axis to filter</span></h2>
            {columns.length > 1 ? (
                <Parallel trials={view.trials} columns={columns} passing={passing} smallerIsBetter={about.experiment.smallerIsBetter}
                          brushes={brushes} onBrush={setBrush} hot={view.hot.value} />
            ) : <p class="quiet">No hyperparameter differs between trials yet.</p>}
        </section>
    );
}

export function ScatterPart(props: TabProps) {
    const { view, about } = props;
    const columns = usePlotColumns(props), passing = usePassing(view);
    return (
        <div class="scatters">
            {columns.slice(0, -1).map((c) => (
                <Scatter key={c.name} trials={view.trials} column={c} metric={about.experiment.searcherMetric ?? 'metric'} passing={passing} hot={view.hot} />
            ))}
        </div>
    );
}

export function SearchTab(props: TabProps) {
    const { view, about } = props;
    const e = about.experiment;
    if (e.numTrials <= 1 && e.searcherType === 'single')
        return <Empty><p>This experiment has one trial: nothing is searched.</p><p><a href={`/new?fork=${e.id}`}>Fork it</a> with ranges instead of values to make a search of it.</p></Empty>;
    return (
        <div class="scrolls">
            <div class="two">
                <LadderPart view={view} />
                <ImportancePart {...props} />
            </div>
            <ParallelPart {...props} />
            <ScatterPart {...props} />
            <TrialTable view={view} metric={e.searcherMetric ?? ''} smallerIsBetter={e.smallerIsBetter} rows={12} />
        </div>
    );
}
