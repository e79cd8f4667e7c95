// Unit curve.ts: the points of one metric of one trial, as the master sends them: thinned out to buckets, of which the
// last, the least and the greatest value are known. Pure.
import { toNumber } from '../text/format.ts';

export interface Curve {
    trialId: number;
    x: number[]; // batches
    t: number[]; // ms since 1970; empty if the axis is batches
    y: number[]; // the last value of a bucket
    min: number[] | null; // null: every bucket is a single point
    max: number[] | null;
    n: number; // points that were reported
}

// As the master answers: GET .../series.
export interface SeriesAnswer {
    series: {
        trialId: number;
        group: string;
        name: string;
        x: number[];
        t?: number[];
        last: (number | null)[];
        min?: (number | null)[];
        max?: (number | null)[];
        n: number;
        bucket: number;
    }[];
}

export function readCurve(s: SeriesAnswer['series'][number]): Curve {
    return {
        trialId: s.trialId, x: s.x, t: s.t ?? [], n: s.n, y: s.last.map(toNumber),
        min: s.min?.map(toNumber) ?? null, max: s.max?.map(toNumber) ?? null,
    };
}

// The place of the first x that is not less.
export function lowerBound(x: readonly number[], value: number): number {
    let low = 0, high = x.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (x[middle]! < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

// A curve with the points of another at its end; what both have is taken from the newer one.
export function appendCurve(old: Curve, more: Curve): Curve {
    if (!more.x.length) return old;
    const keep = lowerBound(old.x, more.x[0]!);
    const join = (a: number[], b: number[]): number[] => (keep === a.length ? a.concat(b) : a.slice(0, keep).concat(b));
    const banded = old.min || more.min;
    return {
        trialId: old.trialId,
        x: join(old.x, more.x), t: join(old.t, more.t), y: join(old.y, more.y),
        min: banded ? join(old.min ?? old.y, more.min ?? more.y) : null,
        max: banded ? join(old.max ?? old.y, more.max ?? more.y) : null,
        n: old.n - (old.x.length - keep) + more.n,
    };
}

// Half as many buckets: pairs become one.
export function halveCurve(c: Curve): Curve {
    const out: Curve = { trialId: c.trialId, x: [], t: [], y: [], min: [], max: [], n: c.n };
    const low = c.min ?? c.y, high = c.max ?? c.y;
    for (let i = 0; i < c.x.length; i += 2) {
        const j = Math.min(i + 1, c.x.length - 1);
        out.x.push(c.x[j]!);
        if (c.t.length) out.t.push(c.t[j]!);
        out.y.push(c.y[j]!);
        out.min!.push(least(low[i]!, low[j]!));
        out.max!.push(-least(-high[i]!, -high[j]!));
    }
    return out;
}

// NaN counts only among its like.
const least = (a: number, b: number): number => (Number.isNaN(a) ? b : Number.isNaN(b) ? a : Math.min(a, b));

// What has grown while somebody looked on does not grow for ever.
export function boundCurve(c: Curve, maxPoints: number): Curve {
    let out = c;
    while (out.x.length > maxPoints) out = halveCurve(out);
    return out;
}

// Exponential moving average, corrected for its beginning; weight 0 is the curve itself.
export function smooth(y: readonly number[], weight: number): number[] {
    if (weight <= 0) return y.slice();
    let sum = 0, norm = 0;
    return y.map((v) => {
        if (!Number.isFinite(v)) return v;
        sum = sum * weight + (1 - weight) * v;
        norm = norm * weight + (1 - weight);
        return sum / norm;
    });
}

// The value of a curve between its points; NaN before its first and behind its last.
export function valueAt(x: readonly number[], y: readonly number[], at: number): number {
    const i = lowerBound(x, at);
    if (i === x.length || (i === 0 && x[0] !== at)) return NaN;
    if (x[i] === at) return y[i]!;
    const part = (at - x[i - 1]!) / (x[i]! - x[i - 1]!);
    return y[i - 1]! + part * (y[i]! - y[i - 1]!);
}

export interface Line {
    id: number; // of the trial; of a group: its number, negative
    label: string;
    x: number[];
    y: number[];
    low: number[] | null;
    high: number[] | null;
}

const GROUP_POINTS = 300;

// Mean and standard deviation of several lines, on a grid of their common range.
export function meanLine(lines: readonly Line[], id: number, label: string): Line {
    const first = Math.min(...lines.map((l) => l.x[0] ?? Infinity)), last = Math.max(...lines.map((l) => l.x.at(-1) ?? -Infinity));
    const out: Line = { id, label, x: [], y: [], low: [], high: [] };
    if (!(first <= last)) return out;
    const count = first === last ? 1 : GROUP_POINTS;
    for (let i = 0; i < count; i++) {
        const at = count === 1 ? first : first + ((last - first) * i) / (count - 1);
        const values = lines.map((l) => valueAt(l.x, l.y, at)).filter(Number.isFinite);
        if (!values.length) continue;
        const mean = values.reduce((a, b) => a + b, 0) / values.length;
        const deviation = Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length);
        out.x.push(at);
        out.y.push(mean);
        out.low!.push(mean - deviation);
        out.high!.push(mean + deviation);
    }
    return out;
}

export function groupLines(lines: readonly Line[], keyOf: (id: number) => string): Line[] {
    const groups = new Map<string, Line[]>();
    for (const line of lines) {
        const key = keyOf(line.id);
        groups.set(key, [...(groups.get(key) ?? []), line]);
    }
    return [...groups.entries()].sort((a, b) => a[0].localeCompare(b[0], undefined, { numeric: true }))
        .map(([key, members], i) => meanLine(members, -1 - i, `${key} (${members.length})`));
}

// --- axes

export type Axis = 'batch' | 'epoch' | 'wall' | 'process' | 'clock';

export interface TrialClock {
    start: number; // ms
    batchesPerEpoch: number; // NaN: not known
    runs: readonly [number, number][]; // when its runs began and ended; ms
}

// Time that a trial has run until then, without its pauses.
export function processTime(runs: TrialClock['runs'], time: number): number {
    let sum = 0;
    for (const [start, end] of runs) sum += Math.max(0, Math.min(end, time) - start);
    return sum;
}

// What the master thins out by.
export const axisKind = (axis: Axis): 'batch' | 'time' => (axis === 'batch' || axis === 'epoch' ? 'batch' : 'time');

// Seconds, epochs or batches; of the clock, seconds since 1970.
export function axisValues(c: Curve, axis: Axis, clock: TrialClock): number[] {
    switch (axis) {
    case 'batch':
        return c.x;
    case 'epoch':
        return c.x.map((x) => x / clock.batchesPerEpoch);
    case 'wall':
        return c.t.map((t) => (t - clock.start) / 1000);
    case 'process':
        return c.t.map((t) => processTime(clock.runs, t) / 1000);
    case 'clock':
        return c.t.map((t) => t / 1000);
    }
}
