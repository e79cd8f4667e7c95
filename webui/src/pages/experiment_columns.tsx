// Unit experiment_columns.tsx: what the list of experiments says about each.
import type { Experiment } from '../api/types.ts';
import { Ago, Bar, Labels, Said, State, Unit } from '../parts/text.tsx';
import { users } from '../state/session.ts';
import type { Column } from '../table/table.tsx';
import { formatCount, formatDuration, formatNumber, formatPercent, formatTime, parseTime, toNumber } from '../text/format.ts';
import { hasEnded, stateOf } from '../text/state.ts';
import { clip } from '../text/visible.ts';
import type { Job } from './queue_parts.tsx';

function Course({ e, job }: { e: Experiment; job: Job | undefined }) {
    if (e.reason && e.state === 'STATE_ERROR') return <span class="reason" title={clip(e.reason)}><Said text={e.reason} max={200} /></span>;
    if (isWaiting(e, job)) return <span class="quiet" title={clip(job?.waiting ?? '')}><Said text={job?.waiting} max={200} /></span>;
    if (hasEnded(e.state)) return <span class="quiet">took {formatDuration(parseTime(e.endTime) - parseTime(e.startTime))}</span>;
    const part = toNumber(e.progress);
    return <span class="course"><span class="num">{formatPercent(part)}</span><Bar part={part} label="progress" /></span>;
}

export function Best({ e }: { e: Experiment }) {
    const value = toNumber(e.bestTrialSearcherMetric);
    if (e.bestTrialId === null) return <span class="quiet">–</span>;
    return <><span class="num">{formatNumber(value)}</span> <Unit><Said text={e.searcherMetric} max={24} /></Unit></>;
}

const started = (e: Experiment): number => parseTime(e.startTime);

// It wants to run, and nothing of it does.
export const isWaiting = (e: Pick<Experiment, 'state'>, job: Pick<Job, 'state'> | undefined): boolean =>
    e.state === 'STATE_ACTIVE' && job?.state === 'STATE_QUEUED';

const shownState = (e: Experiment, job: Job | undefined): string => (isWaiting(e, job) ? 'STATE_QUEUED' : e.state);

export function experimentColumns(jobs: ReadonlyMap<number, Job>): Column<Experiment>[] {
    const jobOf = (e: Experiment): Job | undefined => jobs.get(e.id);
    const slotsOf = (e: Experiment): string => {
        const { allocatedSlots: held = 0, requestedSlots: wanted = 0 } = jobOf(e) ?? {};
        return held || wanted ? (held === wanted ? String(held) : `${held}/${wanted}`) : '–';
    };
    return [
        { key: 'id', title: 'ID', width: 64, small: 48, right: true, sorts: true, cell: (e) => <span class="num quiet">{e.id}</span>, text: (e) => String(e.id) },
        {
            key: 'name', title: 'Name', width: 180, small: 110, grow: true, sorts: true, text: (e) => e.name ?? '',
            cell: (e) => <><a href={`/experiments/${e.id}`}><Said text={e.name || `experiment ${e.id}`} max={120} /></a><Labels labels={e.labels} /></>,
        },
        { key: 'state', title: 'State', width: 104, small: 32, sorts: true, cell: (e) => <State state={shownState(e, jobOf(e))} />, text: (e) => stateOf(shownState(e, jobOf(e))).word },
        { key: 'progress', title: 'Progress', width: 150, grow: true, sorts: true, wide: true, cell: (e) => <Course e={e} job={jobOf(e)} />, text: (e) => formatNumber(e.progress) },
        { key: 'best', title: 'Best', width: 150, small: 112, sorts: true, cell: (e) => <Best e={e} />, text: (e) => formatNumber(e.bestTrialSearcherMetric) },
        { key: 'trials', title: 'Trials', width: 64, right: true, sorts: true, wide: true, cell: (e) => <span class="num">{formatCount(e.numTrials)}</span>, text: (e) => String(e.numTrials) },
        { key: 'slots', title: 'Slots', width: 56, right: true, wide: true, hint: 'held, or held/wanted', cell: (e) => <span class="num">{slotsOf(e)}</span>, text: slotsOf },
        { key: 'owner', title: 'Owner', width: 88, sorts: true, wide: true, cell: (e) => <span class="quiet"><Said text={users.value.get(e.userId)} max={30} /></span>, text: (e) => users.value.get(e.userId) ?? '' },
        { key: 'started', title: 'Started', width: 96, right: true, sorts: true, wide: true, cell: (e) => <span class="quiet"><Ago time={started(e)} /></span>, text: (e) => formatTime(started(e)) },
    ];
}
