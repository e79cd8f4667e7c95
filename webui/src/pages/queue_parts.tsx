// Unit queue_parts.tsx: the queue and the slots, as several pages show them.
import { get } from '../api/client.ts';
import type { Job as JobRecord } from '../api/types.ts';
import { useResource, type Resource } from '../state/resource.ts';
import { clip } from '../text/visible.ts';

export interface Job extends JobRecord {
    name: string | null;
    type: string;
    userId: number;
    requestedSlots: number;
    allocatedSlots: number;
    waiting: string | null;
}

export interface Slot {
    id: number;
    device: string;
    uuid: string | null;
    enabled: boolean;
    allocationId: string | null;
    trialId: number | null;
}

export function useQueue(): { jobs: Resource<{ jobs: Job[] }>; slots: Resource<{ slots: Slot[] }> } {
    const on = (e: { name: string }, r: Resource<never>): void => { if (e.name === 'queue' || e.name === 'experiment') r.reload(); };
    const jobs = useResource('jobs', (abort) => get<{ jobs: Job[] }>('/jobs', {}, abort), { topics: ['queue', 'experiments'], on: on as never });
    const slots = useResource('slots', (abort) => get<{ slots: Slot[] }>('/slots', {}, abort), { topics: ['queue', 'experiments'], on: on as never });
    return { jobs, slots };
}

const words = (s: Slot): string => (!s.enabled ? 'disabled' : s.trialId !== null ? `trial ${s.trialId}` : 'free');

// All slots at a glance.
export function SlotStrip({ slots }: { slots: Slot[] }) {
    const busy = slots.filter((s) => s.trialId !== null).length, off = slots.filter((s) => !s.enabled).length;
    return (
        <div class="strip">
            <span class="num">{busy} of {slots.length} slots in use{off ? `, ${off} disabled` : ''}</span>
            <span class="cells">
                {slots.slice(0, 256).map((s) => (
                    <a key={s.id} class="cell" data-use={!s.enabled ? 'off' : s.trialId !== null ? 'busy' : 'free'} href={s.trialId !== null ? `/trials/${s.trialId}` : '/queue'}
                       title={`slot ${s.id}, ${clip(s.device, 40)}: ${words(s)}`}><span class="unseen">slot {s.id}: {words(s)}</span></a>
                ))}
            </span>
        </div>
    );
}
