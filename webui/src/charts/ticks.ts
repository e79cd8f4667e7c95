// Unit ticks.ts: round numbers and round times between two others, for axes. Pure.

const S = 1, MIN = 60, H = 3600, D = 86_400;
const TIMES = [0.1, 0.2, 0.5, S, 2, 5, 10, 15, 30, MIN, 2 * MIN, 5 * MIN, 10 * MIN, 15 * MIN, 30 * MIN, H, 2 * H, 3 * H, 6 * H, 12 * H, D, 2 * D, 7 * D, 14 * D, 30 * D, 90 * D, 365 * D];

const upTo = (low: number, high: number, step: number, from = 0): number[] => {
    const out: number[] = [];
    for (let i = Math.ceil((low - from) / step - 1e-9); from + i * step <= high + step * 1e-9 && out.length < 100; i++) out.push(Number((from + i * step).toPrecision(12)));
    return out;
};

// At most about so many; whole: no fractions.
export function numberTicks(low: number, high: number, count: number, whole = false): number[] {
    const rough = (high - low) / Math.max(1, count), base = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * base).find((s) => s >= rough * 0.999) ?? 10 * base;
    return upTo(low, high, whole ? Math.max(1, Math.round(step)) : step);
}

export function logTicks(low: number, high: number, count: number): number[] {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / Math.max(1, count)));
    const pick = (parts: number[]): number[] => {
        const out: number[] = [];
        for (let e = first; e <= last; e += every)
            for (const m of parts) {
                const v = Number((m * 10 ** e).toPrecision(3));
                if (v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9)) out.push(v);
            }
        return out;
    };
    for (const parts of [[1], [1, 3], [1, 2, 5]]) {
        const out = pick(parts);
        if (out.length >= 3 || every > 1) return out;
    }
    return numberTicks(low, high, count);
}

// Seconds. offset: of the reader's zone, so that days begin at midnight; least: a step that their texts tell apart.
export function timeTicks(low: number, high: number, count: number, offset = 0, least = 0): number[] {
    const rough = Math.max(least, (high - low) / Math.max(1, count));
    const step = TIMES.find((t) => t >= rough) ?? Math.ceil(rough / (365 * D)) * 365 * D;
    return upTo(low, high, step, -offset);
}
