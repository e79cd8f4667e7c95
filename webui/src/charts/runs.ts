// Unit runs.ts: the runs of a trial. Pure; drawn by gantt.tsx.

import { formatCount, parseTime } from '../text/format.ts';

// As the master answers: GET /trials/{id}/runs.
export interface Run {
    run: number;
    state: string;
    askedTime: string | null;
    startTime: string | null; // when it got its slots
    endTime: string | null;
    fromBatch: number | null;
    toBatch: number | null;
    rolledBackTo: number | null; // the next run began there
    exit: string | null;
    reason: string | null;
}

// What part of a run was lost because the next one began before its end; 0 to 1.
export function lostPart(r: Run): number {
    const to = r.toBatch ?? 0, done = to - (r.fromBatch ?? 0);
    return r.rolledBackTo === null || done <= 0 ? 0 : Math.min(1, Math.max(0, (to - r.rolledBackTo) / done));
}

const ENDS: Record<string, string> = {
    DONE: 'done', PREEMPTED: 'gave its slots back', KILLED: 'killed', TASK_FAILED: 'failed', NODE_FAILED: 'the machine failed', ABORTED: 'aborted',
    RESTORE_FAILED: 'could not be found again', UNRECOVERABLE: 'failed for good',
};

// How it ended, and why; "" while it runs.
export const endWords = (r: Run): string => (r.endTime ? [ENDS[r.exit ?? ''], r.reason].filter(Boolean).join(': ') : '');

// How a run came to follow another one: "run 1 failed at batch 812: signal 9; resumed from 800".
export function resumeWords(before: Run, last: Run): string {
    const at = before.toBatch !== null ? ` at batch ${formatCount(before.toBatch)}` : '';
    const how = [`run ${before.run} ${ENDS[before.exit ?? ''] ?? 'ended'}${at}`, before.reason].filter(Boolean).join(': ');
    return `${how}; resumed from ${last.fromBatch ? formatCount(last.fromBatch) : 'the beginning'}`;
}

// When runs began and ended, for process time; one that goes on has no end.
export function runTimes(runs: readonly Run[]): [number, number][] {
    return runs.filter((r) => r.startTime).map((r) => [parseTime(r.startTime), parseTime(r.endTime) || Infinity]);
}
