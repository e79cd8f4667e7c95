// Unit resource.ts: something that is read from the master and kept up to date while it is shown. What was read stays
// on the screen while it is read again, and while the master is away.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { signal, type Signal } from '@preact/signals';
import { ApiError, isAbort, wordsOf } from '../api/client.ts';
import type { StreamEvent } from '../api/feed.ts';
import { listen } from '../api/stream.ts';
import { epoch } from './connection.ts';

const PAUSE_MS = 400; // between two reads of the same thing

export class Resource<T> {
    readonly data: Signal<T | undefined> = signal(undefined);
    readonly error: Signal<ApiError | undefined> = signal(undefined);
    private abort: AbortController | null = null;
    private again = false;
    private timer = 0;
    load: (abort: AbortSignal) => Promise<T>;

    constructor(load: (abort: AbortSignal) => Promise<T>) {
        this.load = load;
    }

    get isLoading(): boolean {
        return this.data.value === undefined && this.error.value === undefined;
    }

    // Soon; many calls are one read, and the last of them is heard.
    reload(): void {
        if (this.abort || this.timer) this.again = true;
        else void this.read();
    }

    clear(): void {
        this.stop();
        this.data.value = undefined;
        this.error.value = undefined;
    }

    stop(): void {
        this.abort?.abort();
        this.abort = null;
        clearTimeout(this.timer);
        this.timer = 0;
        this.again = false;
    }

    private async read(): Promise<void> {
        const abort = (this.abort = new AbortController());
        try {
            const data = await this.load(abort.signal);
            if (this.abort !== abort) return;
            this.data.value = data;
            this.error.value = undefined;
        } catch (error) {
            if (this.abort !== abort || isAbort(error)) return;
            this.error.value = error instanceof ApiError ? error : new ApiError(0, wordsOf(error));
        }
        this.abort = null;
        this.timer = window.setTimeout(() => {
            this.timer = 0;
            if (!this.again) return;
            this.again = false;
            void this.read();
        }, PAUSE_MS);
    }
}

export interface ResourceOptions<T> {
    topics?: string[];
    // What to do about an event; the default is to read again when there are topics.
    on?: (event: StreamEvent, resource: Resource<T>) => void;
}

// key: what is read; another key is another thing, and what was known of the old one is forgotten. '': nothing.
export function useResource<T>(key: string, load: (abort: AbortSignal) => Promise<T>,
                               options: ResourceOptions<T> = {}): Resource<T> {
    const resource = useMemo(() => new Resource(load), []);
    const shown = useRef('');
    const last = useRef(options);
    last.current = options;
    resource.load = load;
    const topics = options.topics?.join() ?? '';
    useEffect(() => {
        if (shown.current !== key) resource.clear();
        shown.current = key;
        if (key) resource.reload();
    }, [key, epoch.value]);
    useEffect(() => {
        if (!topics || !key) return undefined;
        return listen(topics.split(','), (event) => {
            if (last.current.on) last.current.on(event, resource);
            else resource.reload();
        });
    }, [topics, key]);
    useEffect(() => () => resource.stop(), []);
    return resource;
}
