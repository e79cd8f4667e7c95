// Unit source.ts: where a table's rows come from: a list that is all here, or pages of a long one on the master.
import { useEffect, useMemo } from 'preact/hooks';
import { computed, signal, type ReadonlySignal } from '@preact/signals';
import { ApiError, isAbort, wordsOf } from '../api/client.ts';
import { epoch } from '../state/connection.ts';

export interface Source<R> {
    readonly total: number;
    at(i: number): R | undefined; // undefined: not read yet
    need?(first: number, end: number): void;
}

export function listSource<R>(rows: readonly R[]): Source<R> {
    return { total: rows.length, at: (i) => rows[i] };
}

export interface Page<R> {
    rows: R[];
    total: number;
}

type Load<R> = (offset: number, limit: number, abort: AbortSignal) => Promise<Page<R>>;

const PAGE = 100;
const REREAD_MS = 1000;

// Pages that were looked at. What is on the screen stays there until the answer to another question has come.
export class PagedSource<R> {
    readonly error = signal<ApiError | undefined>(undefined);
    private readonly version = signal(0);
    private pages = new Map<number, R[]>();
    private asked = new Set<number>();
    private count = 0;
    private known = false;
    private stale = false; // pages belong to an earlier question
    private abort = new AbortController();
    private window: [number, number] = [0, PAGE];
    private timer = 0;
    private readonly keyOf: (row: R) => unknown;
    load: Load<R>;

    readonly view: ReadonlySignal<Source<R> & { isLoading: boolean }>;

    constructor(load: Load<R>, keyOf: (row: R) => unknown) {
        this.load = load;
        this.keyOf = keyOf;
        this.view = computed(() => {
            void this.version.value;
            return {
                total: this.count,
                isLoading: !this.known && !this.error.value,
                at: (i: number) => this.pages.get(Math.floor(i / PAGE))?.[i % PAGE],
                need: (first: number, end: number) => this.need(first, end),
            };
        });
    }

    // Another question, or the same one again.
    restart(): void {
        this.abort.abort();
        this.abort = new AbortController();
        this.asked.clear();
        this.stale = true;
        this.need(...this.window);
    }

    stop(): void {
        this.abort.abort();
        clearTimeout(this.timer);
    }

    need(first: number, end: number): void {
        this.window = [first, end];
        const last = Math.max(first, end - 1);
        for (let p = Math.floor(first / PAGE); p <= Math.floor(last / PAGE); p++)
            if (!this.asked.has(p) && (!this.known || p * PAGE < this.count || p === 0)) void this.read(p);
    }

    // A row has changed, or a new one may have come.
    patch(row: R): void {
        const key = this.keyOf(row);
        for (const rows of this.pages.values()) {
            const i = rows.findIndex((r) => this.keyOf(r) === key);
            if (i < 0) continue;
            rows[i] = row;
            this.version.value++;
            return;
        }
        this.reread();
    }

    reread(): void {
        if (this.timer) return;
        this.timer = window.setTimeout(() => {
            this.timer = 0;
            this.restart();
        }, REREAD_MS);
    }

    loadedRows(): R[] {
        return [...this.pages.entries()].sort((a, b) => a[0] - b[0]).flatMap(([, rows]) => rows);
    }

    private async read(page: number): Promise<void> {
        const abort = this.abort;
        this.asked.add(page);
        try {
            const { rows, total } = await this.load(page * PAGE, PAGE, abort.signal);
            if (abort !== this.abort) return;
            if (this.stale) this.pages = new Map();
            this.stale = false;
            this.known = true;
            this.count = total;
            this.pages.set(page, rows);
            this.error.value = undefined;
        } catch (error) {
            if (abort !== this.abort || isAbort(error)) return;
            this.asked.delete(page);
            this.error.value = error instanceof ApiError ? error : new ApiError(0, wordsOf(error));
        }
        this.version.value++;
    }
}

// question: what the rows depend on; when it changes, other rows are read.
export function usePages<R>(question: string, load: Load<R>, keyOf: (row: R) => unknown): PagedSource<R> {
    const source = useMemo(() => new PagedSource(load, keyOf), []);
    source.load = load;
    useEffect(() => source.restart(), [question, epoch.value]);
    useEffect(() => () => source.stop(), []);
    return source;
}
