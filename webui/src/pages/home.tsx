// Unit home.tsx: the first page: what runs, what failed since yesterday, what waits, the slots.
import { get } from '../api/client.ts';
import type { Experiment } from '../api/types.ts';
import { Await } from '../parts/status.tsx';
import { Ago, Bar, Said, State } from '../parts/text.tsx';
import { now } from '../state/clock.ts';
import { useResource, type Resource } from '../state/resource.ts';
import { formatCount, formatDuration, formatPercent, parseTime, toNumber } from '../text/format.ts';
import { Best } from './experiment_columns.tsx';
import { timeLeft } from './timeleft.ts';
import { SlotStrip, useQueue, type Job } from './queue_parts.tsx';
import { Welcome } from './welcome.tsx';

interface List {
    experiments: Experiment[];
    pagination: { total: number };
}

const DAY_MS = 86_400_000, SHOWN = 12;

function useList(name: string, query: Record<string, string | number | boolean>): Resource<List> {
    return useResource(name, (abort) => get<List>('/experiments', { archived: false, limit: SHOWN, orderBy: 'ORDER_BY_DESC', ...query }, abort),
                       { topics: ['experiments'], on: (e, r) => { if (e.name === 'experiment' || e.name === 'deleted') r.reload(); } });
}

export default function HomePage() {
    const running = useList('running', { states: 'STATE_ACTIVE,STATE_STOPPING_COMPLETED,STATE_STOPPING_KILLED,STATE_STOPPING_CANCELED,STATE_STOPPING_ERROR' });
    const since = new Date(Math.floor(now.value / 3_600_000) * 3_600_000 - DAY_MS).toISOString().replace('.000', '');
    const failed = useList(`failed${since}`, { states: 'STATE_ERROR', endTimeAfter: since, sortBy: 'endTime' });
    const ended = useList('ended', { states: 'STATE_COMPLETED,STATE_CANCELED', sortBy: 'endTime' });
    const { jobs, slots } = useQueue();
    const all = [running, failed, ended];
    const isEmpty = all.every((r) => r.data.value?.pagination.total === 0) && !jobs.data.value?.jobs.length;
    if (isEmpty) return <section class="page"><h1 class="unseen">Home</h1><Welcome filtered={false} /></section>;
    const waiting = (jobs.data.value?.jobs ?? []).filter((j) => j.state === 'STATE_QUEUED');
    const isHeld = (e: Experiment): boolean => waiting.some((j) => j.experimentId === e.id); // shown with the queue
    return (
        <section class="page home">
            <h1 class="unseen">Home</h1>
            <Part title="Running" of={running} to="/experiments?state=running" none="Nothing runs." hides={isHeld} row={(e) => <RunningRow key={e.id} e={e} />} />
            <Part title="Failed since yesterday" of={failed} to="/experiments?state=failed" none="Nothing has failed." row={(e) => <FailedRow key={e.id} e={e} />} />
            <section class="part">
                <h2><a href="/queue">Queue and slots</a></h2>
                <Await of={slots} lines={1}>{(s) => <SlotStrip slots={s.slots} />}</Await>
                <Await of={jobs} lines={2}>{() => <Waiting jobs={waiting} />}</Await>
            </section>
            <Part title="Ended lately" of={ended} to="/experiments?state=completed,canceled" none="Nothing has ended yet." row={(e) => <EndedRow key={e.id} e={e} />} />
        </section>
    );
}

interface PartProps {
    title: string;
    of: Resource<List>;
    to: string;
    none: string;
    row: (e: Experiment) => preact.ComponentChild;
    hides?: (e: Experiment) => boolean;
}

function Part({ title, of, to, none, row, hides = () => false }: PartProps) {
    const all = of.data.value?.experiments ?? [], shown = all.filter((e) => !hides(e));
    const total = (of.data.value?.pagination.total ?? 0) - (all.length - shown.length);
    return (
        <section class="part">
            <h2><a href={to}>{title}</a> <span class="quiet num">{total ? formatCount(total) : ''}</span></h2>
            <Await of={of}>{() => (shown.length ? <ul class="rows">{shown.map(row)}</ul> : <p class="quiet">{none}</p>)}</Await>
            {total > shown.length && <p><a href={to}>{formatCount(total - shown.length)} more</a></p>}
        </section>
    );
}

function Name({ e }: { e: Experiment }) {
    return <a class="name" href={`/experiments/${e.id}`}><span class="quiet num">{e.id}</span> <Said text={e.name || 'experiment'} max={80} /></a>;
}

function RunningRow({ e }: { e: Experiment }) {
    const part = toNumber(e.progress), left = timeLeft(e, now.value);
    return (
        <li>
            <Name e={e} />
            <span class="course"><span class="num">{formatPercent(part)}</span><Bar part={part} label={`progress of ${e.id}`} /></span>
            <span class="best"><Best e={e} /></span>
            <span class="quiet when">{Number.isFinite(left) ? `${formatDuration(left)} left` : ''}</span>
        </li>
    );
}

function FailedRow({ e }: { e: Experiment }) {
    return (
        <li>
            <Name e={e} />
            <span class="reason wide"><Said text={e.reason ?? 'failed'} max={200} /></span>
            <span class="quiet when"><Ago time={parseTime(e.endTime)} /></span>
        </li>
    );
}

function EndedRow({ e }: { e: Experiment }) {
    return (
        <li>
            <Name e={e} />
            <State state={e.state} />
            <span class="best"><Best e={e} /></span>
            <span class="quiet when"><Ago time={parseTime(e.endTime)} /></span>
        </li>
    );
}

function Waiting({ jobs }: { jobs: Job[] }) {
    if (!jobs.length) return <p class="quiet">Nothing waits.</p>;
    return (
        <ul class="rows">
            {jobs.slice(0, SHOWN).map((j) => (
                <li key={j.jobId}>
                    <a class="name" href={`/experiments/${j.experimentId}`}><span class="quiet num">{j.experimentId}</span> <Said text={j.name} max={80} /></a>
                    <span class="quiet wide"><Said text={j.waiting} max={200} /></span>
                </li>
            ))}
        </ul>
    );
}
