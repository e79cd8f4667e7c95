// Unit experiment.ts: one experiment with its trials, kept up to date: what the tabs of its page share.
import { useEffect, useMemo } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { get } from '../api/client.ts';
import { listen } from '../api/stream.ts';
import type { Experiment, Trial } from '../api/types.ts';
import type { TrialBook } from '../charts/metricchart.tsx';
import type { Metric } from '../charts/loader.ts';
import type { TrialClock } from '../charts/curve.ts';
import { runTimes, type Run } from '../charts/runs.ts';
import { formatValue } from '../text/format.ts';
import { joinList } from '../text/list.ts';
import { useResource, type Resource } from './resource.ts';
import { listParam, param } from './route.ts';
import { groupNames, HPARAM, Trials, type TrialsAnswer } from './trials.ts';

export interface ExperimentAnswer {
    experiment: Experiment;
    config: Record<string, unknown>;
    warnings: { message?: string; line?: number }[] | string[];
    waiting?: string; // why trials of it have no slots
    allocatedSlots?: number; // that others of its trials have then
}

export interface ExperimentView {
    id: number;
    about: Resource<ExperimentAnswer>;
    table: Resource<TrialsAnswer>;
    names: Resource<{ names: (Metric & { trials: number })[] }>;
    trials: Trials;
    hot: Signal<number | null>; // the trial that the pointer is at
    book: TrialBook;
}

const GATHER_MS = 60; // many trials may change in the same moment

type Runs = ReadonlyMap<number, [number, number][]>;

export function useExperiment(id: number): ExperimentView {
    const trials = useMemo(() => new Trials(), [id]);
    const hot = useSignal<number | null>(null);
    const about = useResource(`e${id}`, (abort) => get<ExperimentAnswer>(`/experiments/${id}`, {}, abort));
    const metrics = joinList(listParam('cols').filter((c) => c.includes(':')));
    const table = useResource(`t${id}/${metrics}`, async (abort) => {
        const answer = await get<TrialsAnswer>(`/experiments/${id}/trialsTable`, { limit: -1, metrics }, abort);
        trials.read(answer);
        return answer;
    });
    const names = useResource(`n${id}`, (abort) => get<{ names: (Metric & { trials: number })[] }>(`/experiments/${id}/metricNames`, {}, abort));
    const runs = useRuns(id, param('axis').value === 'process', trials, about.data.value?.experiment.smallerIsBetter ?? true);
    useEffect(() => {
        let changed = new Map<number, Trial>(), timer = 0;
        const flush = (): void => {
            timer = 0;
            for (const t of changed.values()) trials.patch(t);
            changed = new Map();
        };
        return listen(['experiments', `experiment:${id}`, `metrics:${id}`], ({ name, data }) => {
            if (name === 'experiment' && data.id === id) follow(about, data as unknown as Experiment);
            if (name === 'trial' && data.experimentId === id) {
                changed.set(data.id as number, data as unknown as Trial);
                timer ||= window.setTimeout(flush, GATHER_MS);
            }
            if (name === 'metrics' && data.experimentId === id) {
                const known = names.data.peek()?.names;
                if (!known?.some((n) => n.group === data.group)) names.reload();
                if (metrics) table.reload();
            }
        });
    }, [id, metrics]);
    return { id, about, table, names, trials, hot, book: makeBook(trials, about.data.value?.config ?? {}, runs) };
}

function follow(about: Resource<ExperimentAnswer>, e: Experiment): void {
    const old = about.data.peek();
    if (!old) return;
    about.data.value = { ...old, experiment: e };
    if (old.experiment.state !== e.state || old.experiment.numTrials !== e.numTrials) about.reload(); // what it waits for is another thing now
}

const MAX_RUNS_READ = 100; // trials

// When trials ran, for the axis of process time: asked for one by one, the best first.
function useRuns(id: number, wanted: boolean, trials: Trials, smallerIsBetter: boolean): Runs {
    const runs = useResource(wanted && trials.count ? `r${id}` : '', async (abort) => {
        const ids = trials.ranked(smallerIsBetter).slice(0, MAX_RUNS_READ).map((row) => trials.idAt(row));
        return Promise.all(ids.map(async (trial) => [trial, (await get<{ runs: Run[] }>(`/trials/${trial}/runs`, {}, abort)).runs] as const));
    });
    const all = runs.data.value;
    return useMemo(() => new Map(all?.map(([trial, list]) => [trial, runTimes(list)])), [all]);
}

// Batches of an epoch: said by the configuration, or seen from how far a trial has got.
export function batchesPerEpoch(config: Record<string, unknown>, hparam: (name: string) => unknown, batches: number, progress: number): number {
    const records = Number(config.records_per_epoch), size = Number(hparam('global_batch_size'));
    if (records > 0 && size > 0) return records / size;
    const length = (config.searcher as { max_length?: Record<string, number> } | undefined)?.max_length;
    return length?.epochs && progress > 0 ? batches / progress : NaN;
}

function makeBook(trials: Trials, config: Record<string, unknown>, runs: Runs): TrialBook {
    const row = (id: number): number => trials.rowOf(id) ?? -1, names = new Map<string, (value: unknown) => string>();
    const hparam = (id: number, name: string): unknown => trials.value(HPARAM + name, row(id));
    return {
        ordinal: (id) => trials.ordinal(id),
        nameOf: (id) => `trial ${id}`,
        detailOf: (id) => trials.varied.slice(0, 6).map((name) => `${name.slice(HPARAM.length)} ${formatValue(trials.value(name, row(id)))}`).join(', '),
        groupOf: (id, by) => {
            const nameOf = names.get(by) ?? groupNames(trials.column(by));
            names.set(by, nameOf);
            return `${by.slice(HPARAM.length)} ${nameOf(trials.value(by, row(id)))}`;
        },
        clockOf: (id): TrialClock => ({
            start: trials.number('startTime', row(id)),
            batchesPerEpoch: batchesPerEpoch(config, (name) => hparam(id, name), trials.number('batches', row(id)), trials.number('progress', row(id))),
            runs: runs.get(id) ?? [],
        }),
    };
}
