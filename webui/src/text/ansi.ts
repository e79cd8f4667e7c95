// Unit ansi.ts: what terminals do with escape sequences, as far as a line of a log is concerned: colours are kept, all
// other sequences are left out, and a carriage return begins the line anew. Pure.

export interface Span {
    text: string;
    fg: number; // 0 to 15; -1: none
    bg: number;
    bold: boolean;
    dim: boolean;
    italic: boolean;
    underline: boolean;
}

type Style = Omit<Span, 'text'>;

const PLAIN: Style = { fg: -1, bg: -1, bold: false, dim: false, italic: false, underline: false };

// CSI with parameters and a final letter; OSC to its end; other two-letter escapes.
const ESCAPE = /\u001b\[([\d;:]*)[ -/]*([@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[PX^_][^\u001b]*(?:\u001b\\|$)|\u001b[ -/]*[0-~]|\u009b([\d;:]*)[ -/]*([@-~])/g;

// The nearest of the sixteen colours.
function nearest(r: number, g: number, b: number): number {
    const high = Math.max(r, g, b), low = high / 2 + 24;
    if (high < 48) return 0;
    const bits = (r > low ? 1 : 0) | (g > low ? 2 : 0) | (b > low ? 4 : 0);
    if (high - Math.min(r, g, b) < 32) return high > 220 ? 15 : high > 140 ? 7 : 8;
    return bits + (high > 200 ? 8 : 0);
}

function fromTable(n: number): number {
    if (n < 16) return n;
    if (n >= 232) return nearest((n - 232) * 10 + 8, (n - 232) * 10 + 8, (n - 232) * 10 + 8);
    const part = (d: number): number => Math.floor((n - 16) / d) % 6 * 51;
    return nearest(part(36), part(6), part(1));
}

// 38;5;n and 38;2;r;g;b: the colour, and how many parameters it took.
function extended(codes: number[], at: number): [number, number] {
    if (codes[at + 1] === 5) return [fromTable(codes[at + 2] ?? 0), 2];
    if (codes[at + 1] === 2) return [nearest(codes[at + 2] ?? 0, codes[at + 3] ?? 0, codes[at + 4] ?? 0), 4];
    return [-1, 1];
}

const SWITCHES: Record<number, Partial<Style>> = {
    1: { bold: true }, 2: { dim: true }, 3: { italic: true }, 4: { underline: true }, 22: { bold: false, dim: false },
    23: { italic: false }, 24: { underline: false }, 39: { fg: -1 }, 49: { bg: -1 },
};

export function applyCodes(style: Style, parameters: string): Style {
    const codes = parameters.split(/[;:]/).map((p) => Number(p) || 0);
    let s = { ...style };
    for (let i = 0; i < codes.length; i++) {
        const c = codes[i]!;
        if (c === 0) s = { ...PLAIN };
        else if (c === 38 || c === 48) {
            const [n, used] = extended(codes, i);
            if (c === 38) s.fg = n;
            else s.bg = n;
            i += used;
        } else if (c === 7) s = { ...s, fg: s.bg < 0 ? 0 : s.bg, bg: s.fg < 0 ? 7 : s.fg };
        else if (c >= 30 && c <= 37) s.fg = c - 30;
        else if (c >= 40 && c <= 47) s.bg = c - 40;
        else if (c >= 90 && c <= 97) s.fg = c - 82;
        else if (c >= 100 && c <= 107) s.bg = c - 92;
        else Object.assign(s, SWITCHES[c]);
    }
    return s;
}

export function parseAnsi(line: string): Span[] {
    const end = line.replace(/[\r\n]+$/, '');
    const text = end.slice(end.lastIndexOf('\r') + 1);
    const spans: Span[] = [];
    let style = PLAIN, last = 0;
    const add = (part: string): void => { if (part) spans.push({ ...style, text: part }); };
    for (const match of text.matchAll(ESCAPE)) {
        add(text.slice(last, match.index));
        last = match.index + match[0].length;
        const final = match[2] ?? match[4];
        if (final === 'm') style = applyCodes(style, match[1] ?? match[3] ?? '');
    }
    add(text.slice(last));
    return spans;
}

export const stripAnsi = (line: string): string => parseAnsi(line).map((s) => s.text).join('');
