// Unit trial.tsx: the page of a trial: its metrics, log, checkpoints, runs, and what it used of the machine.
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { get, post } from '../api/client.ts';
import type { Experiment, Trial } from '../api/types.ts';
import { ask, attempt } from '../parts/dialog.tsx';
import { lazy } from '../parts/lazy.tsx';
import { resumeWords, type Run } from '../charts/runs.ts';
import { Await } from '../parts/status.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { Ago, Said, State } from '../parts/text.tsx';
import { mayChange } from '../state/session.ts';
import { useResource } from '../state/resource.ts';
import { trialState } from '../state/trials.ts';
import { formatCount, formatDuration, formatNumber, parseTime } from '../text/format.ts';
import { hasEnded } from '../text/state.ts';
import { CheckpointsTab, MetricsTab, ResourcesTab, TimelineTab } from './trial_tabs.tsx';

export interface Summary {
    count: number;
    min: number;
    max: number;
    mean: number;
    last: number;
}

export interface TrialAnswer {
    trial: Trial;
    summaryMetrics: Record<string, Record<string, Summary>>;
}

export interface TrialProps {
    about: TrialAnswer;
    of: { experiment: Experiment; config: Record<string, unknown> };
}

const LogViewer = lazy(() => import('../log/viewer.tsx').then((m) => m.LogViewer));

function LogsTab({ about, of }: TrialProps) {
    const slots = (of.config.resources as { slots_per_trial?: number } | undefined)?.slots_per_trial ?? 1;
    return <LogViewer trial={about.trial.id} ranks={Math.min(slots, 64)} ended={hasEnded(about.trial.state)} />;
}

const TABS: Record<string, [string, ComponentType<TrialProps>]> = {
    metrics: ['Metrics', MetricsTab],
    logs: ['Logs', LogsTab],
    checkpoints: ['Checkpoints', CheckpointsTab],
    timeline: ['Timeline', TimelineTab],
    resources: ['Resources', ResourcesTab],
};

export default function TrialPage({ id, tab = 'metrics' }: { id?: string; tab?: string }) {
    const trial = Number(id);
    const about = useResource(`t${id}`, (abort) => get<TrialAnswer>(`/trials/${id}`, {}, abort), {
        topics: [`trial:${id}`],
        on: (e, r) => { if ((e.name === 'trial' && e.data.id === trial) || (e.name === 'metrics' && e.data.trialId === trial)) r.reload(); },
    });
    const parent = about.data.value?.trial.experimentId;
    const of = useResource(parent ? `e${parent}` : '', (abort) => get<TrialProps['of']>(`/experiments/${parent}`, {}, abort));
    const [, Tab] = TABS[tab] ?? TABS.metrics!;
    return (
        <section class="page fills" aria-labelledby="title">
            <Await of={about} lines={10}>
                {(a) => (
                    <Await of={of} lines={10}>
                        {(e) => (
                            <>
                                <Head about={a} of={e} />
                                <Tabs base={`/trials/${id}`} first="metrics" current={tab} tabs={Object.entries(TABS).map(([name, [title]]) => [name, title])} />
                                <Tab about={a} of={e} />
                            </>
                        )}
                    </Await>
                )}
            </Await>
        </section>
    );
}

// "run 2 (run 1 ended at batch 812: the task returned 1; resumed from 800)"
function RunFact({ trial: t }: { trial: Trial }) {
    const list = useResource(`r${t.id}/${t.runId}`, (abort) => get<{ runs: Run[] }>(`/trials/${t.id}/runs`, {}, abort));
    const runs = list.data.value?.runs ?? [], last = runs.at(-1), before = runs.at(-2);
    const words = before && last ? resumeWords(before, last) : '';
    return <span><a href={`/trials/${t.id}/timeline`}>run {t.runId}</a>{words && <> (<Said text={words} max={240} />)</>}</span>;
}

async function kill(t: Trial): Promise<void> {
    if (await ask({ title: `Kill trial ${t.id}?`, text: 'It ends at once, without saving. Other trials of the experiment go on.', action: 'Kill', danger: true }))
        await attempt(() => post(`/trials/${t.id}/kill`), `Trial ${t.id} was killed.`);
}

function Head({ about, of }: TrialProps) {
    const t = about.trial, e = of.experiment;
    useEffect(() => { document.title = `trial ${t.id} – det`; return () => { document.title = 'det'; }; }, [t.id]);
    const took = (parseTime(t.endTime) || Date.now()) - parseTime(t.startTime);
    return (
        <div class="head">
            <div class="tools">
                <h1 id="title">trial {t.id}</h1>
                <State state={trialState(t.state, t.runId)} />
                {t.runnerState && !hasEnded(t.state) && <span class="quiet"><Said text={t.runnerState} max={40} /></span>}
                <span class="quiet">of <a href={`/experiments/${e.id}`}>{e.id} <Said text={e.name} max={80} /></a></span>
                <span class="end">
                    <a class="button" href={`/new?fork=${e.id}&trial=${t.id}`}>Fork</a>
                    {mayChange(e.userId) && !hasEnded(t.state) && <button type="button" data-danger="" onClick={() => void kill(t)}>Kill</button>}
                </span>
            </div>
            <div class="facts quiet">
                {t.searcherMetricValue !== null && <span>best <Said text={e.searcherMetric} max={40} /> <b class="num">{formatNumber(t.searcherMetricValue)}</b></span>}
                <span class="num">{formatCount(t.totalBatchesProcessed)} batches</span>
                <span>started <Ago time={parseTime(t.startTime)} />, {t.endTime ? 'took' : 'runs for'} {formatDuration(took)}</span>
                {t.runId > 1 && <RunFact trial={t} />}
                <span>seed <span class="num">{t.seed}</span></span>
                {t.reason && <span class={t.state === 'STATE_ERROR' ? 'reason' : ''}><Said text={t.reason} max={300} /></span>}
            </div>
        </div>
    );
}
