// Unit loader.ts: the curves of one metric, kept up to date: read once, then only what is new; read again, finer, for the
// part that somebody zooms to.
import { signal } from '@preact/signals';
import { get, isAbort, wordsOf } from '../api/client.ts';
import type { StreamEvent } from '../api/feed.ts';
import { joinList } from '../text/list.ts';
import { appendCurve, boundCurve, readCurve, type Curve, type SeriesAnswer } from './curve.ts';

export interface Metric {
    group: string;
    name: string;
}

export const metricName = (m: Metric): string => `${m.group}.${m.name}`;

const GROUPS = ['validation', 'training'];

// The searcher's metric first, then validation, training and others, by name.
export function sortMetrics<M extends Metric>(list: readonly M[], searched: string | null = null): M[] {
    const rank = (m: M): number => {
        const group = GROUPS.indexOf(m.group);
        return m.group === 'validation' && m.name === searched ? -1 : group < 0 ? GROUPS.length : group;
    };
    return [...list].sort((a, b) => rank(a) - rank(b) || a.group.localeCompare(b.group) || a.name.localeCompare(b.name));
}

const SOON_MS = 150; // after an event, more of them are likely
const POINTS = 1000;

export class SeriesLoader {
    readonly curves = signal<readonly Curve[]>([]); // of the whole range
    readonly fine = signal<readonly Curve[]>([]); // of the part that was zoomed to; empty: none
    readonly error = signal('');
    readonly loaded = signal(false);
    private trials = '';
    private kind: 'batch' | 'time' = 'batch';
    private zoom: [number, number] | null = null;
    private dirty = new Set<number>();
    private abort = new AbortController();
    private timer = 0;
    private readonly path: string;
    private readonly metric: Metric;

    // path: "/experiments/41/series" or "/series"
    constructor(path: string, metric: Metric) {
        this.path = path;
        this.metric = metric;
    }

    // trials: "1,2,3"; of an experiment also "best:20" or "all". kind: what points are thinned out by.
    start(trials: string, kind: 'batch' | 'time'): void {
        if (trials === this.trials && kind === this.kind && this.loaded.peek()) return;
        this.trials = trials;
        this.kind = kind;
        this.reload();
    }

    stop(): void {
        clearTimeout(this.timer);
        this.timer = 0;
        this.abort.abort();
        this.abort = new AbortController();
    }

    // Everything again.
    reload(): void {
        this.stop();
        this.dirty.clear();
        void this.read(async (abort) => {
            this.curves.value = await this.ask({ trials: this.trials }, abort);
            this.loaded.value = true;
            if (this.zoom) this.fine.value = await this.askZoom(abort);
        });
    }

    // A range of batches or of milliseconds, by kind.
    setZoom(range: [number, number] | null): void {
        this.zoom = range;
        if (!range) this.fine.value = [];
        else if (this.loaded.peek()) void this.read(async (abort) => { this.fine.value = await this.askZoom(abort); });
    }

    on(event: StreamEvent): void {
        if (event.name !== 'metrics' || event.data.group !== this.metric.group || !this.loaded.peek()) return;
        const trial = Number(event.data.trialId), steps = Number(event.data.steps);
        const curve = this.curves.peek().find((c) => c.trialId === trial);
        if (/^[\d,]+$/.test(this.trials) && !this.trials.split(',').includes(String(trial))) return; // not one that was asked for
        // A run that begins at an earlier batch takes back what the one before had reported.
        if (curve && steps < (curve.x.at(-1) ?? -1)) this.curves.value = this.curves.peek().filter((c) => c !== curve);
        this.dirty.add(trial);
        this.timer ||= window.setTimeout(() => {
            this.timer = 0;
            void this.readNew();
        }, SOON_MS);
    }

    private async readNew(): Promise<void> {
        const trials = [...this.dirty];
        this.dirty.clear();
        const known = new Map(this.curves.peek().map((c) => [c.trialId, c]));
        const from = Math.min(...trials.map((id) => (this.kind === 'batch' ? known.get(id)?.x : known.get(id)?.t)?.at(-1) ?? 0));
        await this.read(async (abort) => {
            const news = await this.ask({ trials: trials.join(), from }, abort);
            for (const more of news) {
                const old = known.get(more.trialId);
                known.set(more.trialId, boundCurve(old ? appendCurve(old, more) : more, 2 * POINTS));
            }
            this.curves.value = [...known.values()];
            if (this.zoom && from <= this.zoom[1]) this.fine.value = await this.askZoom(abort);
        });
    }

    private askZoom(abort: AbortSignal): Promise<Curve[]> {
        const [from, to] = this.zoom!;
        return this.ask({ trials: this.trials, from: Math.floor(from), to: Math.ceil(to) }, abort);
    }

    private async ask(query: Record<string, string | number>, abort: AbortSignal): Promise<Curve[]> {
        const answer = await get<SeriesAnswer>(this.path, { group: this.metric.group, name: joinList([this.metric.name]), axis: this.kind, maxDatapoints: POINTS, ...query }, abort);
        return answer.series.map(readCurve);
    }

    private async read(work: (abort: AbortSignal) => Promise<void>): Promise<void> {
        try {
            await work(this.abort.signal);
            this.error.value = '';
        } catch (error) {
            if (!isAbort(error)) this.error.value = wordsOf(error);
        }
    }
}
