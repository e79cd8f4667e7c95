// Unit scale.ts: where a value of a column lies on an axis from 0 to 1: numbers evenly or by their logarithm, anything else
// in the order of its kind. Pure.
import { formatNumber, formatValue } from '../text/format.ts';
import { logTicks, numberTicks } from './ticks.ts';

export interface Scale {
    kind: 'linear' | 'log' | 'values';
    place: (value: unknown) => number; // NaN: nowhere
    value: (place: number) => number; // of a number's scale
    values: string[]; // of the third kind
    ticks: { place: number; text: string }[];
}

const MAX_TICKS = 5;

const isNumber = (v: unknown): boolean => typeof v === 'number' || v === 'Infinity' || v === '-Infinity' || v === 'NaN';

export function makeScale(column: readonly unknown[], wantsLog = false): Scale {
    const there = column.filter((v) => v !== null && v !== undefined);
    return there.length && !there.every(isNumber) ? valueScale(there) : numberScale(there as number[], wantsLog);
}

const textOf = (v: unknown): string => (typeof v === 'object' ? JSON.stringify(v) : String(v));

function valueScale(column: readonly unknown[]): Scale {
    const values = [...new Set(column.map(textOf))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    const places = new Map(values.map((v, i) => [v, (i + 0.5) / values.length]));
    return {
        kind: 'values', values, value: () => NaN,
        place: (v) => (v === null || v === undefined ? NaN : places.get(textOf(v)) ?? NaN),
        ticks: values.length <= 12 ? values.map((v) => ({ place: places.get(v)!, text: formatValue(v) })) : [],
    };
}

function numberScale(column: readonly number[], wantsLog: boolean): Scale {
    let low = Infinity, high = -Infinity;
    for (const v of column) {
        if (!Number.isFinite(v)) continue;
        if (v < low) low = v;
        if (v > high) high = v;
    }
    if (!(low <= high)) [low, high] = [0, 1];
    const log = low > 0 && (wantsLog || high / low >= 100);
    const into = log ? Math.log10 : (v: number): number => v;
    const from = into(low), size = into(high) - from;
    const place = (v: unknown): number => {
        const n = Number(v);
        if (v === null || v === undefined || !Number.isFinite(n)) return NaN;
        return size ? (into(n) - from) / size : 0.5;
    };
    const value = (p: number): number => (log ? 10 ** (from + p * size) : from + p * size);
    const marks = size ? (log ? logTicks : numberTicks)(low, high, MAX_TICKS) : [low];
    return { kind: log ? 'log' : 'linear', values: [], place, value, ticks: marks.map((v) => ({ place: place(v), text: formatNumber(v) })) };
}
