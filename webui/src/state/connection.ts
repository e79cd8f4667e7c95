// Unit connection.ts: whether the master answers, and whether it knows who we are. Written by the API's client and by
// the stream; shown by the shell.
import { signal } from '@preact/signals';

export interface Connection {
    state: 'ok' | 'lost';
    since: number; // of the state; ms
}

export const connection = signal<Connection>({ state: 'ok', since: Date.now() });

// Counts up whenever everything that is shown should be read again: after an outage, after a long sleep.
export const epoch = signal(0);

export function masterAnswered(): void {
    if (connection.peek().state === 'ok') return;
    connection.value = { state: 'ok', since: Date.now() };
    epoch.value++;
}

export function masterLost(): void {
    if (connection.peek().state === 'lost') return;
    connection.value = { state: 'lost', since: Date.now() };
}

export function readEverythingAgain(): void {
    epoch.value++;
}
