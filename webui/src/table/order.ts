// Unit order.ts: sorting and filtering of columns that are all here. Pure.

// How two values of a column stand to each other: numbers by size, then texts, then what is missing.
export function compareValues(a: unknown, b: unknown): number {
    const ka = rank(a), kb = rank(b);
    if (ka !== kb) return ka - kb;
    if (ka === 0) return Number(a) - Number(b);
    return ka === 1 ? String(a).localeCompare(String(b), undefined, { numeric: true }) : 0;
}

function rank(v: unknown): number {
    if (v === null || v === undefined || v === '' || v === 'NaN' || (typeof v === 'number' && Number.isNaN(v))) return 2;
    return typeof v === 'number' || typeof v === 'boolean' || v === 'Infinity' || v === '-Infinity' ? 0 : 1;
}

// Row numbers in order; what is missing stays at the end both ways, equal ones in their old order.
export function sortRows(rows: readonly number[], valueOf: (row: number) => unknown, down: boolean): number[] {
    return rows.slice().sort((a, b) => {
        const x = valueOf(a), y = valueOf(b);
        if (rank(x) === 2 || rank(y) === 2) return rank(x) - rank(y) || a - b;
        return (down ? -compareValues(x, y) : compareValues(x, y)) || a - b;
    });
}

// A filter of one column, as it stands in the address: name:0.01;0.1 is a range, either end may be missing; name:a|b are
// values. Names and values are encoded, so nothing in them is taken for a sign.
export interface Brush {
    column: string;
    low: number;
    high: number;
    values: string[] | null;
}

// An address that somebody has changed by hand may be anything.
function decode(text: string): string {
    try {
        return decodeURIComponent(text);
    } catch {
        return text;
    }
}

export function parseBrushes(text: string): Brush[] {
    return text.split(',').flatMap((part): Brush[] => {
        const [name = '', rule] = part.split(':');
        if (!name || rule === undefined) return [];
        const column = decode(name), range = rule.split(';');
        if (range.length === 1) return [{ column, low: -Infinity, high: Infinity, values: rule.split('|').map(decode) }];
        const [low, high] = range;
        return [{ column, low: low ? Number(low) : -Infinity, high: high ? Number(high) : Infinity, values: null }];
    });
}

const end = (n: number): string => (Number.isFinite(n) ? String(Number(n.toPrecision(6))) : '');

export function formatBrushes(brushes: readonly Brush[]): string {
    return brushes.map((b) => {
        const rule = b.values ? b.values.map(encodeURIComponent).join('|') : `${end(b.low)};${end(b.high)}`;
        return `${encodeURIComponent(b.column)}:${rule}`;
    }).join();
}

export function passes(brush: Brush, value: unknown): boolean {
    if (value === null || value === undefined) return false;
    if (brush.values) return brush.values.includes(typeof value === 'object' ? JSON.stringify(value) : String(value));
    const n = Number(value);
    return n >= brush.low && n <= brush.high;
}
