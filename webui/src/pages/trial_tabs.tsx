// Unit trial_tabs.tsx: the tabs of a trial, but for its log.
import { useMemo } from 'preact/hooks';
import { computed, useSignal } from '@preact/signals';
import { get } from '../api/client.ts';
import type { Checkpoint } from '../api/types.ts';
import { Chart } from '../charts/chart.tsx';
import { CurveTools } from '../charts/curvetools.tsx';
import type { Line } from '../charts/curve.ts';
import { sortMetrics } from '../charts/loader.ts';
import { Gantt } from '../charts/gantt.tsx';
import { runTimes, type Run } from '../charts/runs.ts';
import { MetricChart, type TrialBook } from '../charts/metricchart.tsx';
import type { Scene } from '../charts/plot.ts';
import { settings, setZoom } from '../charts/settings.ts';
import { Await, Empty } from '../parts/status.tsx';
import { Ago, Said } from '../parts/text.tsx';
import { batchesPerEpoch } from '../state/experiment.ts';
import { mayChange } from '../state/session.ts';
import { useResource } from '../state/resource.ts';
import { formatBytes, formatCount, formatNumber, formatTime, formatValue, parseTime, toNumber } from '../text/format.ts';
import { deleteCheckpoint, Files } from './checkpoint_parts.tsx';
import type { TrialProps } from './trial.tsx';

// --- metrics

function useBook({ about, of }: TrialProps): TrialBook {
    const t = about.trial;
    const runs = useResource(settings.value.axis === 'process' ? `r${t.id}` : '', (abort) => get<{ runs: Run[] }>(`/trials/${t.id}/runs`, {}, abort));
    return {
        ordinal: () => t.number, nameOf: () => `trial ${t.id}`, detailOf: () => '', groupOf: () => '',
        clockOf: () => ({
            start: parseTime(t.startTime),
            batchesPerEpoch: batchesPerEpoch(of.config, (name) => t.hparams?.[name], t.totalBatchesProcessed, toNumber(t.progress)),
            runs: runTimes(runs.data.value?.runs ?? []),
        }),
    };
}

export function MetricsTab(props: TrialProps) {
    const { about } = props;
    const t = about.trial, book = useBook(props), hot = useSignal<number | null>(null);
    const metrics = sortMetrics(Object.entries(about.summaryMetrics).flatMap(([group, names]) => Object.keys(names).map((name) => ({ group, name }))), props.of.experiment.searcherMetric);
    const why = Number.isFinite(book.clockOf(t.id).batchesPerEpoch) ? {} : { epoch: 'The length of an epoch is not known.' };
    return (
        <div class="scrolls">
            <CurveTools hparams={[]} why={why} />
            <div class="main-row">
                <div class="charts">
                    {metrics.map((m) => (
                        <MetricChart key={`${m.group}.${m.name}`} sources={[{ path: '/series', topics: [`trial:${t.id}`, `metrics:${t.experimentId}`], trials: String(t.id) }]} metric={m} book={book} hot={hot} />
                    ))}
                    {!metrics.length && <p class="quiet">No metric was reported yet.</p>}
                </div>
                <section class="part">
                    <h2>Hyperparameters</h2>
                    <dl class="pairs">
                        {Object.entries(t.hparams ?? {}).map(([name, value]) => (
                            <div key={name}><dt><Said text={name} max={60} /></dt><dd class="num"><Said text={formatValue(value)} max={80} /></dd></div>
                        ))}
                    </dl>
                </section>
            </div>
            <SummaryTable about={about} />
        </div>
    );
}

function SummaryTable({ about }: { about: TrialProps['about'] }) {
    const rows = Object.entries(about.summaryMetrics).flatMap(([group, names]) => Object.entries(names).map(([name, s]) => ({ name: `${group}.${name}`, s })));
    if (!rows.length) return null;
    return (
        <div class="numbers" tabIndex={0} role="region" aria-label="Summary of metrics">
            <table>
                <thead><tr><th>Metric</th>{['last', 'min', 'max', 'mean', 'reports'].map((h) => <th key={h} data-right="">{h}</th>)}</tr></thead>
                <tbody>
                    {rows.map(({ name, s }) => (
                        <tr key={name}>
                            <td><Said text={name} max={100} /></td>
                            {[s.last, s.min, s.max, s.mean].map((v, i) => <td key={i} data-right="">{formatNumber(v)}</td>)}
                            <td data-right="">{formatCount(s.count)}</td>
                        </tr>
                    ))}
                </tbody>
            </table>
        </div>
    );
}

// --- checkpoints

export function CheckpointsTab({ about, of }: TrialProps) {
    const t = about.trial;
    const list = useResource(`c${t.id}`, (abort) => get<{ checkpoints: Checkpoint[] }>(`/trials/${t.id}/checkpoints`, { limit: -1, sortBy: 'stepsCompleted', orderBy: 'ORDER_BY_DESC' }, abort),
                             { topics: [`trial:${t.id}`], on: (e, r) => { if (e.name === 'checkpoint' && e.data.trialId === t.id) r.reload(); } });
    return (
        <div class="scrolls">
            <Await of={list}>
                {({ checkpoints }) => (checkpoints.length ? (
                    <ul class="checkpoints">
                        {checkpoints.map((c) => (
                            <li key={c.uuid}>
                                <div class="tools">
                                    <code>{c.uuid}</code>
                                    <span class="num">{formatCount(c.stepsCompleted)} batches</span>
                                    {c.searcherMetric !== null && <span class="num">{formatNumber(c.searcherMetric)} <span class="unit"><Said text={of.experiment.searcherMetric} max={40} /></span></span>}
                                    <span class="quiet">{formatBytes(c.size)}, <Ago time={parseTime(c.reportTime)} /></span>
                                    {c.uuid === t.latestCheckpoint && <span class="label">latest</span>}
                                    {c.state !== 'STATE_COMPLETED' && <span class="label">{c.state.replace('STATE_', '').toLowerCase()}</span>}
                                    {mayChange(of.experiment.userId) && c.state === 'STATE_COMPLETED' && (
                                        <span class="end"><button type="button" class="plain" data-danger="" onClick={() => void deleteCheckpoint(c, () => list.reload())}>Delete</button></span>
                                    )}
                                </div>
                                {c.state === 'STATE_COMPLETED' && <Files of={c} />}
                            </li>
                        ))}
                    </ul>
                ) : <Empty><p>No checkpoint was saved yet.</p></Empty>)}
            </Await>
        </div>
    );
}

// --- timeline

export function TimelineTab({ about }: TrialProps) {
    const t = about.trial;
    const list = useResource(`r${t.id}`, (abort) => get<{ runs: Run[] }>(`/trials/${t.id}/runs`, {}, abort),
                             { topics: [`trial:${t.id}`], on: (e, r) => { if (e.name === 'trial' && e.data.id === t.id) r.reload(); } });
    return (
        <div class="scrolls">
            <Await of={list}>{({ runs }) => (runs.length ? <Gantt runs={runs} /> : <Empty><p>It has not run yet.</p></Empty>)}</Await>
        </div>
    );
}

// --- resources

interface Samples {
    t: number[];
    cpu?: number[]; // cores
    memory?: number[]; // bytes
    gpu?: number[];
    gpuMemory?: number[];
}

const RESOURCES: [keyof Samples, string, boolean][] = [
    ['cpu', 'Processor, cores in use', false], ['memory', 'Memory', true], ['gpu', 'GPU, percent in use', false], ['gpuMemory', 'Memory of the GPU', true],
];

export function ResourcesTab({ about }: TrialProps) {
    const t = about.trial;
    const samples = useResource(`u${t.id}`, (abort) => get<Samples>(`/trials/${t.id}/resources`, { maxDatapoints: 1000 }, abort),
                                { topics: [`trial:${t.id}`], on: (e, r) => { if (e.name === 'resources' && e.data.trialId === t.id) r.reload(); } });
    return (
        <div class="scrolls">
            <Await of={samples}>
                {(s) => (s.t.length ? (
                    <div class="charts">
                        {RESOURCES.filter(([key]) => s[key]?.some((v) => Number.isFinite(v))).map(([key, title, bytes]) => (
                            <ResourceChart key={key} title={title} samples={s} values={s[key]!} bytes={bytes} start={parseTime(t.startTime)} />
                        ))}
                    </div>
                ) : <Empty><p>Nothing was measured: samples are taken while a trial runs.</p></Empty>)}
            </Await>
        </div>
    );
}

function ResourceChart({ title, samples, values, bytes, start }: { title: string; samples: Samples; values: number[]; bytes: boolean; start: number }) {
    const hot = useSignal<number | null>(null), data = useSignal<Line | null>(null);
    data.value = useMemo(() => ({ id: 1, label: title, x: samples.t.map((ms) => (ms - start) / 1000), y: values, low: null, high: null }), [samples]);
    const scene = useMemo(() => computed((): Scene => ({
        lines: [data.value!], ghosts: [], number: () => 1, hot: null, x: settings.value.zoom, axis: 'wall', log: false, bands: false, bytes,
    })), []);
    return <Chart title={title} scene={scene} hot={hot} nameOf={() => title} onZoom={setZoom} detailOf={() => formatTime(samples.t.at(-1) ?? NaN)} />;
}
