// Unit rungs.ts: the rungs of a search in order, and where their dots stand. Pure; drawn by ladder.tsx.
import { formatCount, toNumber, type ApiNumber } from '../text/format.ts';

export type Decision = 'running' | 'waiting' | 'promoted' | 'stopped' | 'finished';

// As the master answers: GET /experiments/{id}/search.
export interface SearchAnswer {
    method: string;
    metric: string | null;
    unit: string;
    smallerIsBetter: boolean;
    brackets: { rungs: Rung[] }[];
}

export interface Rung {
    length: number;
    cutoff: ApiNumber;
    trials: { trialId: number; metric: ApiNumber; decision: Decision }[];
}

export interface Dot {
    trialId: number;
    metric: number;
    decision: Decision;
}

export interface Row {
    bracket: number; // -1: none other
    label: string;
    cutoff: number;
    dots: Dot[];
    cut: number; // how many of them are above the cut
}

// Rungs of all brackets, from the top; those without trials, too. Pure.
export function ladderRows(search: SearchAnswer): Row[] {
    const order = (a: Dot, b: Dot): number => {
        if (Number.isNaN(a.metric) || Number.isNaN(b.metric)) return Number(Number.isNaN(a.metric)) - Number(Number.isNaN(b.metric));
        return search.smallerIsBetter ? a.metric - b.metric : b.metric - a.metric;
    };
    return search.brackets.flatMap((bracket, n) => bracket.rungs.map((rung): Row => {
        const dots = rung.trials.map((t) => ({ ...t, metric: toNumber(t.metric) })).sort(order);
        const cutoff = toNumber(rung.cutoff);
        const above = dots.filter((d) => (search.smallerIsBetter ? d.metric <= cutoff : d.metric >= cutoff)).length;
        return { bracket: search.brackets.length > 1 ? n : -1, label: `${formatCount(rung.length)}`, cutoff, dots, cut: Number.isNaN(cutoff) ? -1 : above };
    }).reverse());
}

export const LEFT = 64; // of the first dot
const ROW_GAP = 8, BRACKET_GAP = 12, MAX_LINES = 4;

export interface Placed {
    row: Row;
    y: number;
    size: number; // of a dot's cell
    perLine: number;
    lines: number;
}

// Dots are as large as fits: some lines for each rung at most, but never smaller than can be seen.
export function placeRows(rows: Row[], width: number): { placed: Placed[]; height: number } {
    const room = Math.max(80, width - LEFT - 90);
    let y = 4;
    const placed = rows.map((row, i) => {
        let size = 12;
        while (size > 3 && Math.ceil(row.dots.length / Math.floor(room / size)) > MAX_LINES) size--;
        const perLine = Math.floor(room / size), lines = Math.max(1, Math.ceil(row.dots.length / perLine));
        if (i && rows[i - 1]!.bracket !== row.bracket) y += BRACKET_GAP;
        const place = { row, y, size, perLine, lines };
        y += Math.max(16, lines * size) + ROW_GAP;
        return place;
    });
    return { placed, height: y + 4 };
}
