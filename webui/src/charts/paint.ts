// Unit paint.ts: draws lines and bands on a canvas. Pure but for the canvas. Of points that fall on the same column of
// pixels, only the first, the least, the greatest and the last are drawn: it looks the same.
import { lowerBound, type Line } from './curve.ts';

export interface View {
    left: number;
    top: number;
    width: number;
    height: number; // pixels of the canvas
    x: [number, number];
    y: [number, number];
    log: boolean;
}

export interface Transform {
    x: (value: number) => number;
    y: (value: number) => number;
}

export function transformOf(v: View): Transform {
    const sx = v.width / (v.x[1] - v.x[0] || 1);
    const scale = v.log ? Math.log10 : (value: number) => value;
    const low = scale(v.y[0]), sy = v.height / (scale(v.y[1]) - low || 1);
    return {
        x: (value) => v.left + (value - v.x[0]) * sx,
        y: (value) => v.top + v.height - (scale(value) - low) * sy,
    };
}

// Points that can be seen, and one beyond on either side, so that lines leave the picture.
export function visiblePart(x: readonly number[], from: number, to: number): [number, number] {
    return [Math.max(0, lowerBound(x, from) - 1), Math.min(x.length, lowerBound(x, to) + 2)];
}

// step: every how manieth point; more than 1 while something moves.
export function traceLine(ctx: CanvasRenderingContext2D, v: View, xs: readonly number[], ys: readonly number[], step = 1): void {
    const t = transformOf(v);
    const [begin, end] = visiblePart(xs, v.x[0], v.x[1]);
    let column = NaN, low = 0, high = 0, last = 0, open = false;
    const flush = (): void => {
        if (low !== last || high !== last) {
            ctx.lineTo(column, low);
            ctx.lineTo(column, high);
        }
        ctx.lineTo(column, last);
    };
    ctx.beginPath();
    for (let i = begin; i < end; i += step) {
        const value = ys[i]!;
        if (!Number.isFinite(value) || (v.log && value <= 0)) {
            if (open) flush();
            open = false;
            continue;
        }
        const px = t.x(xs[i]!), py = t.y(value), c = Math.round(px * 2) / 2;
        if (open && c === column) {
            low = Math.min(low, py);
            high = Math.max(high, py);
            last = py;
            continue;
        }
        if (open) flush();
        else ctx.moveTo(px, py);
        open = true;
        column = c;
        low = high = last = py;
    }
    if (open) flush();
    ctx.stroke();
}

export function fillBand(ctx: CanvasRenderingContext2D, v: View, line: Line): void {
    if (!line.low || !line.high) return;
    const t = transformOf(v);
    const [begin, end] = visiblePart(line.x, v.x[0], v.x[1]);
    const floor = (value: number): number => (v.log && value <= 0 ? v.y[0] : value);
    ctx.beginPath();
    for (let i = begin; i < end; i++) if (Number.isFinite(line.high[i])) ctx.lineTo(t.x(line.x[i]!), t.y(floor(line.high[i]!)));
    for (let i = end - 1; i >= begin; i--) if (Number.isFinite(line.low[i])) ctx.lineTo(t.x(line.x[i]!), t.y(floor(line.low[i]!)));
    ctx.closePath();
    ctx.fill();
}

// Stretches a range so that it has these values in it; log: those above 0.
function stretch(range: [number, number], values: readonly number[] | null, begin: number, end: number, log: boolean): void {
    if (!values) return;
    for (let i = begin; i < end; i++) {
        const value = values[i]!;
        if (!Number.isFinite(value) || (log && value <= 0)) continue;
        if (value < range[0]) range[0] = value;
        if (value > range[1]) range[1] = value;
    }
}

// What is to be seen of the lines: all of them, or the part x.
export function extent(lines: readonly Line[], part: [number, number] | null, log: boolean): { x: [number, number]; y: [number, number] } {
    const x: [number, number] = [Infinity, -Infinity], y: [number, number] = [Infinity, -Infinity];
    for (const l of lines) {
        const [begin, end] = part ? visiblePart(l.x, part[0], part[1]) : [0, l.x.length];
        if (l.x.length) stretch(x, [l.x[0]!, l.x.at(-1)!], 0, 2, false);
        for (const values of [l.y, l.low, l.high]) stretch(y, values, begin, end, log);
    }
    if (x[0] === x[1]) {
        x[0] -= 1;
        x[1] += 1;
    }
    return { x: part ?? (x[0] <= x[1] ? x : [0, 1]), y: y[0] <= y[1] ? pad(y[0], y[1], log) : log ? [0.1, 1] : [0, 1] };
}

function pad(low: number, high: number, log: boolean): [number, number] {
    if (log) return [low / 1.1, high * 1.1];
    const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 0.5;
    return [low - room, high + room];
}

// The line nearest to a point of the canvas, and which of its points.
export function nearest(lines: readonly Line[], v: View, px: number, py: number, within: number): { line: Line; index: number } | null {
    const t = transformOf(v);
    const at = v.x[0] + ((px - v.left) / v.width) * (v.x[1] - v.x[0]);
    let best: { line: Line; index: number } | null = null, least = within;
    for (const line of lines) {
        let i = lowerBound(line.x, at);
        if (i > 0 && (i === line.x.length || at - line.x[i - 1]! < line.x[i]! - at)) i--;
        if (i >= line.x.length || !Number.isFinite(line.y[i])) continue;
        const away = Math.hypot((t.x(line.x[i]!) - px) / 3, t.y(line.y[i]!) - py);
        if (away < least) {
            least = away;
            best = { line, index: i };
        }
    }
    return best;
}
