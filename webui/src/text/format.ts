// Unit format.ts: numbers, sizes and times as people read them. Pure; used everywhere.

// What the API writes for a number: JSON has no NaN, so it is a string.
export type ApiNumber = number | 'NaN' | 'Infinity' | '-Infinity' | null | undefined;

export function toNumber(x: unknown): number {
    return typeof x === 'number' ? x : typeof x === 'string' && x !== '' ? Number(x) : NaN;
}

const separate = (digits: string): string => digits.replace(/\B(?=(\d{3})+(?!\d))/g, ',');

// Of things that are counted: every digit.
export function formatCount(n: number): string {
    return Number.isFinite(n) ? (n < 0 ? '−' : '') + separate(String(Math.abs(Math.round(n)))) : '–';
}

// "1 trial", "12 trials"
export function plural(n: number, word: string): string {
    return `${formatCount(n)} ${word}${n === 1 ? '' : 's'}`;
}

// Of what is measured: four significant digits.
export function formatNumber(x: unknown): string {
    if (x === null || x === undefined || x === '') return '–';
    const n = toNumber(x);
    if (Number.isNaN(n)) return 'NaN';
    const size = Math.abs(n), sign = n < 0 ? '−' : '';
    if (size === Infinity) return `${sign}∞`;
    if (size === 0) return '0';
    if (size >= 1e6 || size < 1e-4) {
        const [digits = '', exponent = '0'] = size.toExponential(3).split('e');
        return `${sign}${trimZeros(digits)}e${exponent.replace('+', '').replace('-', '−')}`;
    }
    if (Number.isInteger(n)) return sign + separate(String(size));
    const decimals = Math.max(0, 3 - Math.floor(Math.log10(size)));
    const [whole = '', part] = trimZeros(size.toFixed(Math.min(decimals, 8))).split('.');
    return sign + separate(whole) + (part ? `.${part}` : '');
}

function trimZeros(digits: string): string {
    return digits.includes('.') ? digits.replace(/\.?0+$/, '') : digits;
}

// A hyperparameter, or anything else that stands in a configuration.
export function formatValue(v: unknown): string {
    if (typeof v === 'number') return formatNumber(v);
    if (v === undefined || v === null) return '–';
    return typeof v === 'string' ? v : JSON.stringify(v);
}

export function formatPercent(part: number): string {
    return Number.isFinite(part) ? `${Math.floor(part * 100 + 1e-9)} %` : '–';
}

const SIZES = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'];

export function formatBytes(n: number): string {
    if (!Number.isFinite(n)) return '–';
    let unit = 0;
    while (Math.abs(n) >= 999.5 && unit < SIZES.length - 1) {
        n /= 1000;
        unit++;
    }
    const digits = unit === 0 || Math.abs(n) >= 99.95 ? 0 : Math.abs(n) >= 9.995 ? 1 : 2;
    return `${trimZeros(n.toFixed(digits))} ${unit === 0 && n === 1 ? 'byte' : SIZES[unit]}`;
}

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

export function formatDuration(ms: number): string {
    if (!Number.isFinite(ms)) return '–';
    if (ms < 0) ms = 0;
    if (ms < 999.5) return `${Math.round(ms)} ms`;
    if (ms < 10 * SECOND) return `${trimZeros((ms / SECOND).toFixed(1))} s`;
    if (ms < MINUTE - 500) return `${Math.round(ms / SECOND)} s`;
    const s = Math.round(ms / SECOND);
    if (s < 3600) return `${Math.floor(s / 60)} min${s % 60 ? ` ${s % 60} s` : ''}`;
    const m = Math.round(s / 60);
    if (m < 24 * 60) return `${Math.floor(m / 60)} h${m % 60 ? ` ${m % 60} min` : ''}`;
    const h = Math.round(m / 60);
    return `${Math.floor(h / 24)} d${h % 24 ? ` ${h % 24} h` : ''}`;
}

const AGES: [number, number, string][] = [
    [MINUTE, SECOND, 's'], [HOUR, MINUTE, 'min'], [2 * DAY, HOUR, 'h'], [60 * DAY, DAY, 'd'],
];

// How long ago a time was; a date if that is long ago.
export function formatAgo(time: number, now: number): string {
    if (!Number.isFinite(time)) return '–';
    const age = now - time;
    if (age < SECOND) return 'now';
    for (const [below, unit, word] of AGES) if (age < below) return `${Math.floor(age / unit)} ${word} ago`;
    return formatTime(time).slice(0, 10);
}

const two = (n: number): string => String(n).padStart(2, '0');

// The exact time, in the zone of the reader.
export function formatTime(time: number): string {
    if (!Number.isFinite(time)) return '–';
    const d = new Date(time);
    return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${formatClock(time)}`;
}

export function formatClock(time: number): string {
    const d = new Date(time);
    return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

// 0 and "" are how the API says that there was no such time.
export function parseTime(text: string | null | undefined): number {
    const time = text ? Date.parse(text) : NaN;
    return time > 0 ? time : NaN;
}
