// Unit compare.tsx: some trials beside each other: curves of all metrics, what differs between them, and between their
// configurations and files. Of an experiment, its best trial stands for it.
import { useMemo } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { get } from '../api/client.ts';
import { CurveTools } from '../charts/curvetools.tsx';
import { Legend, type LegendEntry } from '../charts/legend.tsx';
import { sortMetrics } from '../charts/loader.ts';
import { MetricChart, type CurveSource, type TrialBook } from '../charts/metricchart.tsx';
import { lazy } from '../parts/lazy.tsx';
import { Await, Empty } from '../parts/status.tsx';
import { Said, State } from '../parts/text.tsx';
import { batchesPerEpoch } from '../state/experiment.ts';
import { listParam, param, setParams, withParams, url } from '../state/route.ts';
import { useResource } from '../state/resource.ts';
import { TableMenu } from '../table/tablemenu.tsx';
import { formatCount, formatDuration, formatNumber, formatValue, parseTime, plural, toNumber } from '../text/format.ts';
import { stateOf } from '../text/state.ts';
import { Swatch } from '../charts/swatch.tsx';
import type { TrialAnswer, TrialProps } from './trial.tsx';

const Changes = lazy(() => import('./experiment_code.tsx').then((m) => m.Changes));

const MAX_COMPARED = 24;

interface Compared extends TrialProps {
    number: number; // its place here, from 1: its colour
}

async function load(trials: string[], experiments: string[], abort: AbortSignal): Promise<Compared[]> {
    const parents = new Map<number, Promise<TrialProps['of']>>();
    const parent = (id: number): Promise<TrialProps['of']> => {
        const found = parents.get(id) ?? get<TrialProps['of']>(`/experiments/${id}`, {}, abort);
        parents.set(id, found);
        return found;
    };
    const bests = await Promise.all(experiments.map(async (id) => {
        const { experiment } = await parent(Number(id));
        if (experiment.bestTrialId !== null) return experiment.bestTrialId;
        const list = await get<{ trials: { id: number }[] }>(`/experiments/${id}/trials`, { limit: 1 }, abort);
        return list.trials[0]?.id;
    }));
    const ids = [...new Set([...trials.map(Number), ...bests])].filter((id): id is number => !!id).slice(0, MAX_COMPARED);
    return Promise.all(ids.map(async (id, i) => {
        const about = await get<TrialAnswer>(`/trials/${id}`, {}, abort);
        return { about, of: await parent(about.trial.experimentId), number: i + 1 };
    }));
}

interface Fact {
    name: string;
    values: string[];
    kind: 'fact' | 'hparam' | 'metric';
}

function factsOf(list: Compared[]): Fact[] {
    const fact = (name: string, of: (c: Compared) => string): Fact => ({ name, kind: 'fact', values: list.map(of) });
    const hparams = [...new Set(list.flatMap((c) => Object.keys(c.about.trial.hparams ?? {})))].sort();
    const metrics = metricsOf(list);
    return [
        fact('experiment', (c) => `${c.of.experiment.id} ${c.of.experiment.name ?? ''}`),
        fact('state', (c) => stateOf(c.about.trial.state).word),
        fact('batches', (c) => formatCount(c.about.trial.totalBatchesProcessed)),
        fact('took', (c) => formatDuration((parseTime(c.about.trial.endTime) || Date.now()) - parseTime(c.about.trial.startTime))),
        fact('seed', (c) => String(c.about.trial.seed)),
        ...hparams.map((name): Fact => ({ name, kind: 'hparam', values: list.map((c) => formatValue(c.about.trial.hparams?.[name])) })),
        ...metrics.flatMap((m) => (['last', 'min', 'max'] as const).map((what): Fact => ({
            name: `${m.group}.${m.name} ${what}`, kind: 'metric', values: list.map((c) => formatNumber(c.about.summaryMetrics[m.group]?.[m.name]?.[what])),
        }))),
    ];
}

function metricsOf(list: Compared[]): { group: string; name: string }[] {
    const all = new Map<string, { group: string; name: string }>();
    for (const c of list)
        for (const [group, names] of Object.entries(c.about.summaryMetrics)) for (const name of Object.keys(names)) all.set(`${group}.${name}`, { group, name });
    return sortMetrics([...all.values()]);
}

function makeBook(list: Compared[]): TrialBook {
    const byId = new Map(list.map((c) => [c.about.trial.id, c]));
    const t = (id: number) => byId.get(id)?.about.trial;
    return {
        ordinal: (id) => byId.get(id)?.number ?? 1,
        nameOf: (id) => `${byId.get(id)?.of.experiment.name ?? ''} trial ${id}`,
        detailOf: (id) => Object.entries(t(id)?.hparams ?? {}).slice(0, 6).map(([k, v]) => `${k} ${formatValue(v)}`).join(', '),
        groupOf: () => '',
        clockOf: (id) => ({
            start: parseTime(t(id)?.startTime), runs: [],
            batchesPerEpoch: batchesPerEpoch(byId.get(id)?.of.config ?? {}, (name) => t(id)?.hparams?.[name], t(id)?.totalBatchesProcessed ?? 0, toNumber(t(id)?.progress)),
        }),
    };
}

const sourcesOf = (list: Compared[]): CurveSource[] => [{
    path: '/series', topics: list.map((c) => `metrics:${c.of.experiment.id}`), trials: list.map((c) => c.about.trial.id).join(),
}];

export default function ComparePage() {
    const trials = listParam('trials'), experiments = listParam('experiments');
    const all = useResource(trials.length + experiments.length ? `${trials.join()}/${experiments.join()}` : '', (abort) => load(trials, experiments, abort));
    if (!trials.length && !experiments.length)
        return <Empty><h1>Compare</h1><p>Select trials or experiments in a table (<kbd>x</kbd>), then press <kbd>c</kbd>.</p><p><a href="/experiments">Experiments</a></p></Empty>;
    return <section class="page fills" aria-labelledby="title"><Await of={all} lines={10}>{(list) => <Comparison list={list} />}</Await></section>;
}

function Comparison({ list }: { list: Compared[] }) {
    const hot = useSignal<number | null>(null), legend = useSignal<readonly LegendEntry[]>([]);
    const book = useMemo(() => makeBook(list), [list]), sources = useMemo(() => sourcesOf(list), [list]), facts = useMemo(() => factsOf(list), [list]);
    const all = param('facts').value === 'all';
    const shown = facts.filter((f) => all || f.kind !== 'hparam' || new Set(f.values).size > 1);
    const ids = [...new Set(list.map((c) => c.of.experiment.id))];
    const columns = [{ title: '', text: (f: Fact) => f.name }, ...list.map((c, i) => ({ title: `trial ${c.about.trial.id}`, right: true, text: (f: Fact) => f.values[i]! }))];
    return (
        <>
            <div class="tools">
                <h1 id="title">Compare {plural(list.length, 'trial')}</h1>
                <span class="end"><TableMenu name="comparison" columns={columns} rows={() => Promise.resolve(shown)} /></span>
            </div>
            <div class="scrolls">
                <CurveTools hparams={[]} why={{ process: 'Open an experiment for this axis.' }} />
                <Legend entries={legend} hot={hot} />
                <div class="charts">
                    {metricsOf(list).map((m, i) => <MetricChart key={`${m.group}.${m.name}`} {...(i ? {} : { legend })} sources={sources} metric={m} book={book} hot={hot} />)}
                </div>
                <label class="inline"><input type="checkbox" checked={all} onChange={() => setParams({ facts: all ? null : 'all' })} /> hyperparameters that are the same, too</label>
                <FactTable list={list} facts={shown} hot={(id) => (hot.value = id)} />
                {ids.length === 2 && <div class="changes"><Changes from={ids[0]!} to={ids[1]!} /></div>}
            </div>
        </>
    );
}

function FactTable({ list, facts, hot }: { list: Compared[]; facts: Fact[]; hot: (id: number | null) => void }) {
    const without = (id: number): string => withParams(url.value, { trials: list.map((c) => c.about.trial.id).filter((i) => i !== id).join(), experiments: null });
    return (
        <div class="numbers facts-table" tabIndex={0} role="region" aria-label="What differs">
            <table>
                <thead>
                    <tr>
                        <th><span class="unseen">Fact</span></th>
                        {list.map(({ about: { trial }, number }) => (
                            <th key={trial.id} data-right="" onMouseEnter={() => hot(trial.id)} onMouseLeave={() => hot(null)}>
                                <Swatch number={number} /><a href={`/trials/${trial.id}`}>trial {trial.id}</a> <State state={trial.state} bare />
                                {list.length > 1 && <a class="quiet" href={without(trial.id)} aria-label={`Leave out trial ${trial.id}`}> ✕</a>}
                            </th>
                        ))}
                    </tr>
                </thead>
                <tbody>
                    {facts.map((f) => (
                        <tr key={f.kind + f.name} data-differs={new Set(f.values).size > 1 ? '' : undefined}>
                            <th scope="row"><Said text={f.name} max={80} /></th>
                            {f.values.map((v, i) => <td key={i} data-right=""><Said text={v} max={60} /></td>)}
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}
