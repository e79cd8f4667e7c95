// Unit plot.ts: one picture of curves: axes, lines, the cursor, zooming and moving with the pointer. Lines have points of
// their own each, so they are not drawn over a common grid; paint.ts traces them.
import { colour } from '../state/theme.ts';
import { formatBytes, formatClock, formatDuration, formatNumber, formatTime } from '../text/format.ts';
import type { Axis, Line } from './curve.ts';
import { extent, fillBand, nearest, traceLine, transformOf, type View } from './paint.ts';
import { ink } from './palette.ts';
import { logTicks, numberTicks, timeTicks } from './ticks.ts';

export interface Scene {
    lines: readonly Line[];
    ghosts: readonly Line[]; // behind them: what was smoothed
    number: (id: number) => number; // of a line: its colour
    hot: number | null; // the line that is meant; the others step back
    x: [number, number] | null; // the part to show; null: all
    axis: Axis;
    log: boolean;
    bands: boolean;
    bytes?: boolean; // what y counts
}

export interface Pointed {
    line: Line;
    index: number;
    left: number; // of the pointer, in the picture
    top: number;
}

export interface PlotEvents {
    onZoom: (range: [number, number] | null) => void;
    onHover: (at: Pointed | null) => void;
    onCursor: (x: number | null) => void;
}

const NEAR = 40; // pixels
const COARSE_POINTS = 40_000; // at most so many are drawn while something moves
const TOP = 8, RIGHT = 12, BOTTOM = 22;

function xTicks(axis: Axis, low: number, high: number, count: number): number[] {
    if (axis === 'clock') return timeTicks(low, high, count, -new Date(low * 1000).getTimezoneOffset() * 60, 1);
    return axis === 'wall' || axis === 'process' ? timeTicks(low, high, count) : numberTicks(low, high, count, axis === 'batch');
}

function xText(axis: Axis, v: number, step: number): string {
    if (axis === 'wall' || axis === 'process') return step < 1 ? `${v.toFixed(1)} s` : formatDuration(v * 1000);
    if (axis !== 'clock') return formatNumber(v);
    return step < 60 ? formatClock(v * 1000) : step < 43_200 ? formatTime(v * 1000).slice(11, 16) : formatTime(v * 1000).slice(5, 10);
}

export class Plot {
    private scene: Scene;
    private range: { x: [number, number]; y: [number, number] };
    private view: View;
    private moving = false;
    private frame = 0;
    private readonly target: HTMLElement;
    private readonly events: PlotEvents;
    private readonly canvas = document.createElement('canvas');
    private readonly cursor = document.createElement('div');
    private readonly chosen = document.createElement('div');

    constructor(target: HTMLElement, scene: Scene, events: PlotEvents) {
        this.target = target;
        this.scene = scene;
        this.events = events;
        this.range = extent([...scene.lines, ...scene.ghosts], scene.x, scene.log);
        this.view = { left: 40, top: TOP, width: 1, height: 1, ...this.range, log: scene.log };
        this.cursor.className = 'cursor';
        this.cursor.hidden = true;
        this.chosen.className = 'chosen';
        target.prepend(this.canvas, this.cursor, this.chosen);
        this.canvas.addEventListener('pointermove', (e) => this.hover(e));
        this.canvas.addEventListener('pointerleave', () => this.leave());
        this.canvas.addEventListener('pointerdown', (e) => this.press(e));
        this.canvas.addEventListener('dblclick', () => events.onZoom(null));
        this.draw();
    }

    update(scene: Scene): void {
        this.scene = scene;
        this.range = extent([...scene.lines, ...scene.ghosts], scene.x, scene.log);
        this.redraw();
    }

    // Once per frame, however often it is called.
    redraw(): void {
        this.frame ||= requestAnimationFrame(() => {
            this.frame = 0;
            this.draw();
        });
    }

    destroy(): void {
        cancelAnimationFrame(this.frame);
        this.canvas.remove();
        this.cursor.remove();
        this.chosen.remove();
    }

    // The range of x that is shown.
    get shown(): [number, number] {
        return this.range.x;
    }

    // A line at x, where another picture has its pointer.
    setCursor(x: number | null): void {
        const seen = x !== null && x >= this.range.x[0] && x <= this.range.x[1];
        this.cursor.hidden = !seen;
        if (seen) this.cursor.style.transform = `translateX(${transformOf(this.view).x(x)}px)`;
    }

    // --- drawing

    private draw(): void {
        const { clientWidth: width, clientHeight: height } = this.target, ratio = devicePixelRatio;
        if (!width || !height) return;
        if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
            this.canvas.width = Math.round(width * ratio);
            this.canvas.height = Math.round(height * ratio);
        }
        const ctx = this.canvas.getContext('2d')!;
        ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
        ctx.clearRect(0, 0, width, height);
        if (!this.scene.lines.length) return; // an axis would be of nothing
        ctx.font = '11px system-ui, sans-serif';
        this.drawAxes(ctx, width, height);
        const v = this.view;
        ctx.save();
        ctx.beginPath();
        ctx.rect(v.left, v.top, v.width, v.height);
        ctx.clip();
        this.drawLines(ctx, v);
        ctx.restore();
    }

    private drawAxes(ctx: CanvasRenderingContext2D, width: number, height: number): void {
        const { axis, log, bytes } = this.scene, { x, y } = this.range;
        const rows = Math.max(2, Math.floor((height - TOP - BOTTOM) / 36));
        const ys = log ? logTicks(y[0], y[1], rows) : numberTicks(y[0], y[1], rows);
        const texts = ys.map(bytes ? formatBytes : formatNumber);
        const left = Math.ceil(Math.max(20, ...texts.map((t) => ctx.measureText(t).width))) + 10;
        this.view = { left, top: TOP, width: Math.max(1, width - left - RIGHT), height: Math.max(1, height - TOP - BOTTOM), x, y, log };
        const t = transformOf(this.view), bottom = TOP + this.view.height, right = left + this.view.width;
        const xs = xTicks(axis, x[0], x[1], Math.max(2, Math.floor(this.view.width / 64))), step = (xs[1] ?? Infinity) - (xs[0] ?? 0);
        ctx.strokeStyle = colour('--line');
        ctx.fillStyle = colour('--fg-quiet');
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.textAlign = 'right';
        ys.forEach((v, i) => {
            const py = Math.round(t.y(v)) + 0.5;
            ctx.moveTo(left, py);
            ctx.lineTo(right, py);
            ctx.fillText(texts[i]!, left - 6, py + 3.5);
        });
        ctx.textAlign = 'center';
        for (const v of xs) {
            const px = Math.round(t.x(v)) + 0.5, text = xText(axis, v, step), half = ctx.measureText(text).width / 2;
            ctx.moveTo(px, TOP);
            ctx.lineTo(px, bottom);
            ctx.fillText(text, Math.min(width - half - 1, Math.max(half + 1, px)), bottom + 15);
        }
        ctx.stroke();
    }

    private drawLines(ctx: CanvasRenderingContext2D, v: View): void {
        const { lines, ghosts, hot, bands } = this.scene;
        const points = lines.reduce((sum, l) => sum + l.x.length, 0);
        const step = this.moving ? Math.max(1, Math.ceil(points / COARSE_POINTS)) : 1;
        ctx.lineJoin = 'round';
        if (bands && !this.moving)
            for (const line of lines) {
                ctx.globalAlpha = hot === null || hot === line.id ? 0.16 : 0.05;
                ctx.fillStyle = ink(this.scene.number(line.id)).colour;
                fillBand(ctx, v, line);
            }
        for (const line of ghosts) this.drawLine(ctx, line, v, 1, 0.25, step);
        for (const line of lines) if (line.id !== hot) this.drawLine(ctx, line, v, 1.25, hot === null ? 1 : 0.28, step);
        for (const line of lines) if (line.id === hot) this.drawLine(ctx, line, v, 2.25, 1, step);
    }

    private drawLine(ctx: CanvasRenderingContext2D, line: Line, v: View, width: number, alpha: number, step: number): void {
        const { colour: style, dash } = ink(this.scene.number(line.id));
        ctx.globalAlpha = alpha;
        ctx.strokeStyle = ctx.fillStyle = style;
        ctx.lineWidth = width;
        ctx.setLineDash(this.moving ? [] : dash);
        traceLine(ctx, v, line.x, line.y, step);
        if (line.x.length > 1) return;
        const t = transformOf(v);
        ctx.beginPath();
        ctx.arc(t.x(line.x[0]!), t.y(line.y[0]!), 3, 0, 7);
        ctx.fill();
    }

    // --- the pointer

    private at(event: PointerEvent): [number, number] {
        const box = this.canvas.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
    }

    private valueAt(px: number): number {
        const v = this.view;
        return v.x[0] + ((Math.min(v.left + v.width, Math.max(v.left, px)) - v.left) / v.width) * (v.x[1] - v.x[0]);
    }

    private hover(event: PointerEvent): void {
        if (event.buttons) return;
        const [px, py] = this.at(event), v = this.view;
        if (px < v.left || px > v.left + v.width || py > v.top + v.height) {
            this.leave();
            return;
        }
        const found = nearest(this.scene.lines, v, px, py, NEAR);
        this.events.onHover(found && { ...found, left: px, top: py });
        this.events.onCursor(this.valueAt(px));
    }

    private leave(): void {
        this.events.onHover(null);
        this.events.onCursor(null);
    }

    // Dragging chooses a part to zoom to; with Shift, or the middle button, it moves the picture.
    private press(event: PointerEvent): void {
        const pans = event.shiftKey || event.button === 1;
        if (event.button !== 0 && !pans) return;
        event.preventDefault();
        this.target.focus({ preventScroll: true });
        this.canvas.setPointerCapture(event.pointerId);
        this.leave();
        const [start] = this.at(event), from = this.range.x;
        const drag = (e: PointerEvent): void => {
            if (pans) this.move(from, start - this.at(e)[0]);
            else this.choose(start, this.at(e)[0]);
        };
        const end = (e: PointerEvent): void => {
            this.canvas.removeEventListener('pointermove', drag);
            this.canvas.removeEventListener('pointerup', end);
            this.canvas.removeEventListener('pointercancel', end);
            const [stop] = this.at(e);
            this.chosen.style.width = '0';
            this.moving = false;
            if (pans) this.events.onZoom(this.range.x);
            else if (Math.abs(stop - start) > 4 && e.type === 'pointerup') {
                const [a, b] = [this.valueAt(start), this.valueAt(stop)];
                this.events.onZoom(a < b ? [a, b] : [b, a]);
            }
        };
        this.canvas.addEventListener('pointermove', drag);
        this.canvas.addEventListener('pointerup', end);
        this.canvas.addEventListener('pointercancel', end);
    }

    private choose(from: number, to: number): void {
        const v = this.view, fit = (px: number): number => Math.min(v.left + v.width, Math.max(v.left, px));
        const [a, b] = [fit(Math.min(from, to)), fit(Math.max(from, to))];
        Object.assign(this.chosen.style, { left: `${a}px`, width: `${b - a}px`, top: `${v.top}px`, height: `${v.height}px` });
    }

    // At once, before finer points have come.
    private move(from: [number, number], pixels: number): void {
        const by = (pixels / this.view.width) * (from[1] - from[0]);
        this.moving = true;
        this.range = { ...this.range, x: [from[0] + by, from[1] + by] };
        this.redraw();
    }
}
