// Unit stream.ts: what happens on the master, as it happens. listen() is all that pages need; behind it is one
// stream for all tabs (worker.ts), or one of this tab's own where there are no shared workers.
import { known } from './client.ts';
import { EventFeed, type FeedMessage, type StreamEvent } from './feed.ts';
import type { TabMessage } from './worker.ts';
import { masterAnswered, masterLost, readEverythingAgain } from '../state/connection.ts';

declare const WORKER_URL: string;

interface Listener {
    topics: string[];
    on: (event: StreamEvent) => void;
}

const listeners = new Set<Listener>();
let tell: ((message: TabMessage) => void) | null = null;
let sent = '';
let timer = 0;

function take(message: FeedMessage | { kind: 'ping' }): void {
    switch (message.kind) {
    case 'event':
        for (const l of [...listeners]) l.on(message.event);
        break;
    case 'open':
        masterAnswered();
        opened();
        break;
    case 'lost':
        masterLost();
        break;
    case 'denied':
        known.value = false;
        break;
    case 'resync':
        readEverythingAgain();
        break;
    case 'ping':
        tell?.({ pong: true });
        break;
    }
}

function ownFeed(): (message: TabMessage) => void {
    const feed = new EventFeed(take);
    return (message) => {
        if (message.topics?.length) feed.set(message.topics);
        else if (message.topics || message.bye) feed.close();
        if (message.wake) feed.wake();
    };
}

function sharedFeed(): (message: TabMessage) => void {
    if (typeof SharedWorker === 'undefined') return ownFeed();
    const worker = new SharedWorker(WORKER_URL, { name: 'det', type: 'module' });
    worker.onerror = () => {
        tell = ownFeed();
        announce(true);
    };
    worker.port.onmessage = ({ data }) => take(data as FeedMessage | { kind: 'ping' });
    return (message) => worker.port.postMessage(message);
}

function announce(always = false): void {
    const topics = [...new Set([...listeners].flatMap((l) => l.topics))].sort();
    if (!tell || (!always && topics.join() === sent)) return;
    sent = topics.join();
    tell({ topics });
}

const PATIENCE_MS = 400;

let opened = (): void => {};

// Resolves when nothing that happens is missed any more: what is read from then on stays up to date. If that takes long,
// it does not wait, and everything is read again when it is so far.
export async function startStream(): Promise<void> {
    if (tell) {
        announce(true);
        return;
    }
    let late = false;
    const open = new Promise<void>((resolve) => {
        opened = () => {
            opened = () => {};
            if (late) readEverythingAgain();
            resolve();
        };
    });
    listen(['experiments'], () => {}); // a stream has at least one topic
    tell = sharedFeed();
    addEventListener('pagehide', () => tell?.({ bye: true }));
    addEventListener('pageshow', (event) => event.persisted && announce(true));
    addEventListener('online', () => tell?.({ wake: true }));
    document.addEventListener('visibilitychange', () => {
        if (document.visibilityState !== 'visible') return;
        announce(true);
        tell?.({ wake: true });
    });
    announce(true);
    await Promise.race([open, new Promise((resolve) => setTimeout(resolve, PATIENCE_MS)).then(() => (late = true))]);
}

// Calls on() for every event of these topics, and maybe of others, until the function that it returns is called.
export function listen(topics: string[], on: (event: StreamEvent) => void): () => void {
    const listener = { topics, on };
    listeners.add(listener);
    schedule();
    return () => {
        listeners.delete(listener);
        schedule();
    };
}

// Pages come and go in the same moment: the stream changes its topics once.
function schedule(): void {
    clearTimeout(timer);
    timer = window.setTimeout(announce, 20);
}
