// Unit store.ts: the lines of a trial's log, read in stretches where somebody looks. Lines are known by their number in the
// log; the master knows them by ids that grow, and says where some of them are (marks).
import { signal } from '@preact/signals';
import { get, isAbort, wordsOf } from '../api/client.ts';
import type { LogLine } from '../api/types.ts';
import { lowerBound } from '../charts/curve.ts';

export interface Extent {
    lines: number;
    marks: [number, number][]; // number of a line, its id
}

export interface LogFilter {
    level: string;
    rankId: string;
    stdtype: string;
}

export interface Match {
    id: number;
    line: number;
}

interface SearchAnswer {
    matches: Match[];
    cursor?: string | null;
    done: boolean;
}

const STRETCH = 200; // lines
const KEPT = 60; // stretches
const FILTERED_PAGE = 1000;

export const isFiltered = (f: LogFilter): boolean => !!(f.level || f.rankId || f.stdtype);

// Where to read line n: from the line with an id, so many further.
export function placeOf(marks: readonly [number, number][], n: number): { after: number; offset: number } {
    const i = lowerBound(marks.map(([line]) => line), n + 1) - 1;
    const mark = marks[i];
    return mark ? { after: mark[1] - 1, offset: n - mark[0] } : { after: 0, offset: n };
}

export class LogStore {
    readonly total = signal(0);
    readonly version = signal(0); // counts up when lines have come
    readonly error = signal('');
    readonly loaded = signal(false);
    readonly more = signal(false); // of a filtered log: there may be more
    private marks: [number, number][] = [];
    private stretches = new Map<number, LogLine[]>();
    private asked = new Set<number>();
    private filtered: LogLine[] = [];
    private filter: LogFilter = { level: '', rankId: '', stdtype: '' };
    private abort = new AbortController();
    private reading = false;
    private readonly trial: number;

    constructor(trial: number) {
        this.trial = trial;
    }

    stop(): void {
        this.abort.abort();
        this.abort = new AbortController();
        this.asked.clear();
        this.reading = false;
    }

    async setFilter(filter: LogFilter): Promise<void> {
        this.stop();
        this.filter = filter;
        this.filtered = [];
        this.stretches.clear();
        this.loaded.value = false;
        await this.refresh();
    }

    // Lines that have come since.
    async refresh(): Promise<void> {
        if (isFiltered(this.filter)) return this.readFiltered();
        return this.attempt(async (abort) => {
            const extent = await get<Extent>(`/trials/${this.trial}/logs/extent`, {}, abort);
            const last = Math.floor(Math.max(0, this.total.peek() - 1) / STRETCH);
            if (extent.lines !== this.total.peek()) { // the last stretch was not full
                this.stretches.delete(last);
                this.asked.delete(last);
            }
            this.marks = extent.marks ?? [];
            this.total.value = extent.lines;
            this.loaded.value = true;
            this.version.value++;
        });
    }

    at(n: number): LogLine | undefined {
        if (isFiltered(this.filter)) return this.filtered[n];
        return this.stretches.get(Math.floor(n / STRETCH))?.[n % STRETCH];
    }

    need(first: number, end: number): void {
        if (isFiltered(this.filter)) {
            if (this.more.peek() && end >= this.filtered.length) void this.readFiltered();
            return;
        }
        for (let s = Math.floor(first / STRETCH); s <= Math.floor(Math.max(first, end - 1) / STRETCH); s++)
            if (!this.asked.has(s) && s * STRETCH < this.total.peek()) void this.readStretch(s);
    }

    // Calls found() with some matches at a time; it can be given up.
    async search(text: string, abort: AbortSignal, found: (matches: Match[], done: boolean) => void): Promise<void> {
        for (let cursor: string | undefined, done = false; !done && !abort.aborted;) {
            const answer = await get<SearchAnswer>(`/trials/${this.trial}/logs/search`, { searchText: text, cursor, ...this.filter }, abort);
            done = answer.done || !answer.cursor;
            cursor = answer.cursor ?? undefined;
            found(answer.matches, done);
        }
    }

    private async readStretch(s: number): Promise<void> {
        this.asked.add(s);
        await this.attempt(async (abort) => {
            const { logs } = await get<{ logs: LogLine[] }>(`/trials/${this.trial}/logs`, { ...placeOf(this.marks, s * STRETCH), limit: STRETCH }, abort);
            this.stretches.set(s, logs);
            for (const old of [...this.stretches.keys()].slice(0, Math.max(0, this.stretches.size - KEPT))) {
                this.stretches.delete(old);
                this.asked.delete(old);
            }
            this.version.value++;
        }, () => this.asked.delete(s));
    }

    private async readFiltered(): Promise<void> {
        if (this.reading) return;
        this.reading = true;
        await this.attempt(async (abort) => {
            const after = this.filtered.at(-1)?.id ?? 0;
            const answer = await get<{ logs: LogLine[]; pagination: { next?: string } }>(
                `/trials/${this.trial}/logs`, { ...this.filter, after, limit: FILTERED_PAGE }, abort);
            this.filtered.push(...answer.logs);
            this.more.value = !!answer.pagination.next;
            this.total.value = this.filtered.length;
            this.loaded.value = true;
            this.version.value++;
        });
        this.reading = false;
    }

    private async attempt(work: (abort: AbortSignal) => Promise<void>, failed?: () => void): Promise<void> {
        try {
            await work(this.abort.signal);
            this.error.value = '';
        } catch (error) {
            failed?.();
            if (!isAbort(error)) this.error.value = wordsOf(error);
        }
    }
}
