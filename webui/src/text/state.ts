// Unit state.ts: the states of the API in words, with a sign and a look each. Pure.

export type Look = 'running' | 'waiting' | 'paused' | 'done' | 'failed' | 'ended';

export interface StateWords {
    word: string;
    sign: string;
    look: Look;
}

const STATES: Record<string, [string, string, Look]> = {
    STATE_ACTIVE: ['running', '●', 'running'],
    STATE_PAUSED: ['paused', '‖', 'paused'],
    STATE_STOPPING_COMPLETED: ['completing', '◌', 'running'],
    STATE_STOPPING_CANCELED: ['canceling', '◌', 'paused'],
    STATE_STOPPING_KILLED: ['stopping', '◌', 'paused'],
    STATE_STOPPING_ERROR: ['failing', '◌', 'failed'],
    STATE_COMPLETED: ['completed', '✓', 'done'],
    STATE_CANCELED: ['canceled', '■', 'ended'],
    STATE_ERROR: ['failed', '✕', 'failed'],
    STATE_DELETING: ['deleting', '◌', 'ended'],
    STATE_DELETE_FAILED: ['not deleted', '✕', 'failed'],
    STATE_DELETED: ['deleted', '■', 'ended'],
    STATE_PARTIALLY_DELETED: ['partly deleted', '■', 'ended'],
    STATE_QUEUED: ['waiting', '○', 'waiting'],
    STATE_SCHEDULED: ['running', '●', 'running'],
    STATE_SCHEDULED_BACKFILLED: ['running until others can', '●', 'running'],
    STATE_ENDED: ['ended', '■', 'ended'],
    STATE_PENDING: ['waiting', '○', 'waiting'],
    STATE_ASSIGNED: ['starting', '◌', 'waiting'],
    STATE_PULLING: ['starting', '◌', 'waiting'],
    STATE_STARTING: ['starting', '◌', 'waiting'],
    STATE_RUNNING: ['running', '●', 'running'],
    STATE_WAITING: ['running', '●', 'running'],
    STATE_TERMINATING: ['stopping', '◌', 'paused'],
    STATE_TERMINATED: ['ended', '■', 'ended'],
};

export function stateOf(state: string): StateWords {
    const [word, sign, look] = STATES[state] ?? [state.replace(/^STATE_/, '').toLowerCase().replace(/_/g, ' '), '·', 'ended'];
    return { word, sign, look };
}

export const ENDED = ['STATE_COMPLETED', 'STATE_CANCELED', 'STATE_ERROR'];

export const hasEnded = (state: string): boolean => ENDED.includes(state) || /DELET/.test(state);

// The groups that people filter by.
export const STATE_FILTERS: [string, string[]][] = [
    ['running', ['STATE_ACTIVE', 'STATE_STOPPING_COMPLETED', 'STATE_STOPPING_CANCELED', 'STATE_STOPPING_KILLED', 'STATE_STOPPING_ERROR']],
    ['paused', ['STATE_PAUSED']],
    ['completed', ['STATE_COMPLETED']],
    ['failed', ['STATE_ERROR']],
    ['canceled', ['STATE_CANCELED']],
];
