// Unit feed.ts: one stream of events from the master, kept open: connects again after an outage, after a long sleep,
// and when other topics are wanted. Runs in the shared worker, or in the page if there is none. fetch() instead of
// EventSource, since that can neither say where it wants to go on nor tell a refusal from an outage.

export interface StreamEvent {
    name: string;
    data: Record<string, unknown>;
}

export type FeedMessage =
    | { kind: 'open' | 'lost' | 'denied' | 'resync' }
    | { kind: 'event'; event: StreamEvent };

const SILENCE_MS = 40_000; // the master says something every 15 s
const FIRST_WAIT_MS = 300, LONGEST_WAIT_MS = 4_000;

// Takes text apart into events; lines may be cut anywhere.
export class EventParser {
    lastId = '';
    private rest = '';
    private name = '';
    private lines: string[] = [];

    push(text: string, on: (name: string, data: string) => void): void {
        const lines = (this.rest + text).split('\n');
        this.rest = lines.pop() ?? '';
        for (const line of lines) this.take(line.endsWith('\r') ? line.slice(0, -1) : line, on);
    }

    private take(line: string, on: (name: string, data: string) => void): void {
        if (line === '') {
            if (this.lines.length) on(this.name || 'message', this.lines.join('\n'));
            this.name = '';
            this.lines = [];
            return;
        }
        const colon = line.indexOf(':');
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (field === 'event') this.name = value;
        else if (field === 'data') this.lines.push(value);
        else if (field === 'id') this.lastId = value;
    }
}

export class EventFeed {
    private topics = '';
    private lastId = '';
    private abort: AbortController | null = null;
    private heard = 0;
    private wait = FIRST_WAIT_MS;
    private timer: ReturnType<typeof setTimeout> | undefined;
    private readonly on: (message: FeedMessage) => void;

    constructor(on: (message: FeedMessage) => void) {
        this.on = on;
        setInterval(() => this.wake(), SILENCE_MS / 4);
    }

    set(topics: string[]): void {
        const wanted = [...new Set(topics)].sort().join(',');
        if (wanted === this.topics && this.abort) return;
        this.topics = wanted;
        this.wait = FIRST_WAIT_MS;
        this.connect();
    }

    // A computer that slept has connections that only look open.
    wake(): void {
        if (this.abort && Date.now() - this.heard > SILENCE_MS) this.connect();
    }

    close(): void {
        clearTimeout(this.timer);
        this.abort?.abort();
        this.abort = null;
        this.topics = '';
    }

    private connect(): void {
        clearTimeout(this.timer);
        this.abort?.abort();
        this.abort = null;
        if (!this.topics) return;
        const abort = (this.abort = new AbortController());
        this.heard = Date.now();
        this.follow(abort).catch(() => this.failed(abort));
    }

    private failed(abort: AbortController): void {
        if (this.abort !== abort) return; // another one has taken over
        abort.abort();
        this.on({ kind: 'lost' });
        this.timer = setTimeout(() => this.connect(), this.wait);
        this.wait = Math.min(this.wait * 1.6, LONGEST_WAIT_MS);
    }

    private async follow(abort: AbortController): Promise<void> {
        const headers: Record<string, string> = this.lastId ? { 'Last-Event-ID': this.lastId } : {};
        const response = await fetch(`/api/v1/stream?topics=${encodeURIComponent(this.topics)}`,
                                     { headers, signal: abort.signal, credentials: 'same-origin' });
        if (response.status === 401 || response.status === 403) {
            this.close();
            this.on({ kind: 'denied' });
            return;
        }
        if (!response.ok || !response.body) throw new Error(String(response.status));
        await this.read(response.body.getReader(), abort);
        throw new Error('the stream has ended');
    }

    private async read(reader: ReadableStreamDefaultReader<Uint8Array>, abort: AbortController): Promise<void> {
        const parser = new EventParser(), decoder = new TextDecoder();
        parser.lastId = this.lastId;
        for (let isOpen = false; ;) {
            const { done, value } = await reader.read();
            if (done || this.abort !== abort) return;
            this.heard = Date.now();
            parser.push(decoder.decode(value, { stream: true }), (name, data) => this.dispatch(name, data));
            this.lastId = parser.lastId;
            if (isOpen) continue;
            isOpen = true; // the first that comes is where the stream is: from now on nothing is missed
            this.wait = FIRST_WAIT_MS;
            this.on({ kind: 'open' });
        }
    }

    private dispatch(name: string, data: string): void {
        if (name === 'resync') this.on({ kind: 'resync' });
        else this.on({ kind: 'event', event: { name, data: JSON.parse(data) as Record<string, unknown> } });
    }
}
