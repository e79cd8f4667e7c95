// Unit timeleft.ts: how long an experiment will take, if it goes on as it has. Pure.
import type { Experiment } from '../api/types.ts';
import { parseTime, toNumber } from '../text/format.ts';

export function timeLeft(e: Pick<Experiment, 'progress' | 'startTime' | 'state'>, at: number): number {
    const part = toNumber(e.progress), spent = at - parseTime(e.startTime);
    return e.state === 'STATE_ACTIVE' && part > 0.02 && part < 1 ? (spent * (1 - part)) / part : NaN;
}
