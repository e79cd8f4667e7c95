// Unit store.ts: the lines of a trial's log, read in stretches where somebody looks. Lines are known by their place among
// those that the filter lets through; the master knows them by ids that grow, and says where some of them are (marks).
import { signal } from '@preact/signals';
import { get, isAbort, wordsOf } from '../api/client.ts';
import type { LogLine } from '../api/types.ts';
import { isAnyCase } from '../text/filter.ts';

export type Mark = readonly [line: number, id: number];

interface Extent {
    lines: number;
    marks: Mark[];
    cursor: string;
    done: boolean;
}

export interface LogFilter {
    level: string;
    rankId: string;
    stdtype: string;
}

interface SearchAnswer {
    matches: Mark[];
    cursor: string;
    done: boolean;
}

const STRETCH = 200; // lines
const KEPT = 60; // stretches

export const isFiltered = (f: LogFilter): boolean => !!(f.level || f.rankId || f.stdtype);

// Where to read line n: from the line with an id, so many further.
export function placeOf(marks: readonly Mark[], n: number): { after: number; offset: number } {
    let low = 0, high = marks.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (marks[middle]![0] <= n) low = middle + 1;
        else high = middle;
    }
    const mark = marks[low - 1];
    return mark ? { after: mark[1] - 1, offset: n - mark[0] } : { after: 0, offset: n };
}

export class LogStore {
    readonly total = signal(0);
    readonly version = signal(0); // counts up when lines have come
    readonly error = signal('');
    readonly loaded = signal(false); // at least some of it
    readonly counting = signal(false); // of a filtered log: there is more to come
    private marks: Mark[] = [];
    private cursor: string | undefined;
    private stretches = new Map<number, LogLine[]>();
    private asked = new Set<number>();
    private filter: LogFilter = { level: '', rankId: '', stdtype: '' };
    private abort = new AbortController();
    private reading = false;
    private again = false;
    private readonly trial: number;

    constructor(trial: number) {
        this.trial = trial;
    }

    stop(): void {
        this.abort.abort();
        this.abort = new AbortController();
        this.asked = new Set(this.stretches.keys());
        this.reading = false;
    }

    async setFilter(filter: LogFilter): Promise<void> {
        this.stop();
        this.filter = filter;
        this.stretches.clear();
        this.asked.clear();
        this.marks = [];
        this.cursor = undefined;
        this.loaded.value = false;
        await this.refresh();
    }

    // There may be new lines.
    async refresh(): Promise<void> {
        if (this.reading) {
            this.again = true;
            return;
        }
        this.reading = true;
        await this.attempt(async (abort) => {
            do {
                this.again = false;
                this.counting.value = !(await this.count(abort));
            } while (this.counting.peek() || this.again);
        });
        this.reading = false;
        this.counting.value = false;
    }

    at(n: number): LogLine | undefined {
        return this.stretches.get(Math.floor(n / STRETCH))?.[n % STRETCH];
    }

    need(first: number, end: number): void {
        for (let s = Math.floor(first / STRETCH); s <= Math.floor(Math.max(first, end - 1) / STRETCH); s++)
            if (!this.asked.has(s) && s * STRETCH < this.total.peek()) void this.readStretch(s);
    }

    // Calls found() with some matches at a time; it can be given up.
    async search(text: string, abort: AbortSignal, found: (matches: Mark[], done: boolean) => void): Promise<void> {
        for (let cursor: string | undefined, done = false; !done && !abort.aborted;) {
            const query = { ...this.filter, searchText: text, anyCase: isAnyCase(text), cursor };
            const answer = await get<SearchAnswer>(`/trials/${this.trial}/logs/search`, query, abort);
            ({ done, cursor } = answer);
            found(answer.matches, done);
        }
    }

    // A slice of the log, behind what was counted before. True: that was all.
    private async count(abort: AbortSignal): Promise<boolean> {
        const extent = await get<Extent>(`/trials/${this.trial}/logs/extent`, { ...this.filter, cursor: this.cursor }, abort);
        const before = this.total.peek();
        if (!this.cursor || extent.lines !== before) {
            const last = Math.floor(before / STRETCH); // it was not full
            this.stretches.delete(last);
            this.asked.delete(last);
        }
        this.marks.push(...extent.marks);
        this.cursor = extent.cursor;
        this.total.value = extent.lines;
        this.loaded.value ||= extent.done || extent.lines > 0;
        this.version.value++;
        return extent.done;
    }

    private async readStretch(s: number): Promise<void> {
        this.asked.add(s);
        await this.attempt(async (abort) => {
            const query = { ...this.filter, ...placeOf(this.marks, s * STRETCH), limit: STRETCH };
            const { logs } = await get<{ logs: LogLine[] }>(`/trials/${this.trial}/logs`, query, abort);
            this.stretches.set(s, logs);
            for (const old of [...this.stretches.keys()].slice(0, Math.max(0, this.stretches.size - KEPT))) {
                this.stretches.delete(old);
                this.asked.delete(old);
            }
            this.version.value++;
        }, () => this.asked.delete(s));
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
