// Unit queue.tsx: what runs and what waits, in the order of the queue, with the words of "det why"; the slots.
import { call, post } from '../api/client.ts';
import { attempt } from '../parts/dialog.tsx';
import { Await, Empty } from '../parts/status.tsx';
import { Ago, Said, State } from '../parts/text.tsx';
import { mayChange, me, users } from '../state/session.ts';
import { listSource } from '../table/source.ts';
import { Table, type Column } from '../table/table.tsx';
import { formatTime, parseTime } from '../text/format.ts';
import { stateOf } from '../text/state.ts';
import { SlotStrip, useQueue, type Job, type Slot } from './queue_parts.tsx';

function columns(jobs: Job[], changed: () => void): Column<Job>[] {
    const slots = (j: Job): string => (j.allocatedSlots === j.requestedSlots ? String(j.allocatedSlots) : `${j.allocatedSlots}/${j.requestedSlots}`);
    const change = (j: Job, body: Record<string, unknown>): void => void attempt(() => call('PATCH', `/jobs/${j.jobId}`, { body })).then(changed);
    const before = (j: Job): Job | undefined => jobs[jobs.indexOf(j) - 1];
    return [
        { key: 'place', title: '#', width: 40, right: true, wide: true, cell: (j) => <span class="num quiet">{jobs.indexOf(j) + 1}</span>, text: (j) => String(jobs.indexOf(j) + 1) },
        {
            key: 'name', title: 'Experiment', width: 180, small: 130, grow: true, text: (j) => j.name ?? '',
            cell: (j) => <a href={`/experiments/${j.experimentId}`}><span class="quiet num">{j.experimentId}</span> <Said text={j.name} max={80} /></a>,
        },
        { key: 'state', title: 'State', width: 110, small: 32, cell: (j) => <State state={j.state} />, text: (j) => stateOf(j.state).word },
        { key: 'waiting', title: 'Waits because it', width: 220, grow: true, wide: true, cell: (j) => <span class="quiet"><Said text={j.waiting} max={200} /></span>, text: (j) => j.waiting ?? '' },
        { key: 'slots', title: 'Slots', width: 64, right: true, hint: 'held, or held/wanted', cell: (j) => <span class="num">{slots(j)}</span>, text: slots },
        {
            key: 'priority', title: 'Priority', width: 84, right: true, hint: '1 is first', text: (j) => String(j.priority),
            cell: (j) => (mayChange(j.userId) ? (
                <input class="tight num" type="number" min={1} max={99} value={j.priority} aria-label={`Priority of ${j.experimentId}`}
                       onChange={(e) => change(j, { priority: Number(e.currentTarget.value) })} />
            ) : <span class="num">{j.priority}</span>),
        },
        { key: 'owner', title: 'Owner', width: 88, wide: true, cell: (j) => <span class="quiet"><Said text={users.value.get(j.userId)} max={30} /></span>, text: (j) => users.value.get(j.userId) ?? '' },
        { key: 'since', title: 'Submitted', width: 96, right: true, wide: true, cell: (j) => <span class="quiet"><Ago time={parseTime(j.submissionTime)} /></span>, text: (j) => formatTime(parseTime(j.submissionTime)) },
        {
            key: 'move', title: '', width: 52, text: () => '',
            cell: (j) => (mayChange(j.userId) && before(j) ? (
                <button type="button" class="plain" aria-label={`Move ${j.experimentId} up`} title="One place up" onClick={() => change(j, { aheadOf: before(j)!.jobId })}>↑</button>
            ) : null),
        },
    ];
}

export default function QueuePage() {
    const { jobs, slots } = useQueue();
    const again = (): void => { jobs.reload(); slots.reload(); };
    return (
        <section class="page fills" aria-labelledby="title">
            <div class="tools"><h1 id="title">Queue and slots</h1></div>
            <Await of={slots} lines={1}>{({ slots: list }) => <><SlotStrip slots={list} /><Slots slots={list} changed={again} /></>}</Await>
            <Await of={jobs} lines={6}>
                {({ jobs: list }) => (
                    <Table name="Queue" main columns={columns(list, again)} source={listSource(list)} keyOf={(j) => j.jobId ?? ''} hrefOf={(j) => `/experiments/${j.experimentId}`}>
                        <Empty><p>Nothing runs, nothing waits.</p></Empty>
                    </Table>
                )}
            </Await>
        </section>
    );
}

function Slots({ slots, changed }: { slots: Slot[]; changed: () => void }) {
    const set = (s: Slot): void => void attempt(() => post(`/slots/${s.id}/${s.enabled ? 'disable' : 'enable'}`)).then(changed);
    return (
        <details>
            <summary>Slots</summary>
            <ul class="rows">
                {slots.map((s) => (
                    <li key={s.id}>
                        <span class="num">slot {s.id}</span>
                        <span class="quiet"><Said text={s.device} max={60} /></span>
                        <span class="wide">{!s.enabled ? 'disabled' : s.trialId !== null ? <a href={`/trials/${s.trialId}`}>trial {s.trialId}</a> : 'free'}</span>
                        {me.value?.admin && <button type="button" class="small" onClick={() => set(s)}>{s.enabled ? 'Disable' : 'Enable'}</button>}
                    </li>
                ))}
            </ul>
        </details>
    );
}
