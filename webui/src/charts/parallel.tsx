// Unit parallel.tsx: parallel coordinates: a line for each trial, through its hyperparameters to its metric. Dragging along
// an axis keeps the trials that pass there; the table below follows.
import { useMemo } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { colour } from '../state/theme.ts';
import type { Trials } from '../state/trials.ts';
import { formatNumber } from '../text/format.ts';
import { clip } from '../text/visible.ts';
import type { Brush } from '../table/order.ts';
import { Canvas } from './canvas.tsx';
import { ink } from './palette.ts';
import { makeScale, type Scale } from './scale.ts';

export interface ParallelProps {
    trials: Trials;
    columns: { name: string; title: string; log: boolean }[]; // the last one is the metric
    passing: ReadonlySet<number>; // rows that all brushes let through
    smallerIsBetter: boolean;
    brushes: Brush[];
    onBrush: (column: string, brush: Brush | null) => void;
    hot: number | null;
}

const TOP = 28, BOTTOM = 12, SIDE = 56, HEIGHT = 240;
const OWN_COLOURS = 40; // with more trials, colour says how good they are
const SHADES = 8;
const PIECE = 400; // lines of one path: longer ones are slow to draw

interface Layout {
    scales: Scale[];
    places: Float32Array[]; // of each column, by row
}

const axisX = (i: number, n: number, width: number): number => (n === 1 ? width / 2 : SIDE + ((width - 2 * SIDE) * i) / (n - 1));
const placeY = (place: number): number => TOP + (1 - place) * (HEIGHT - TOP - BOTTOM);

export function Parallel(props: ParallelProps) {
    const { trials, columns, brushes, onBrush } = props;
    const version = trials.version.value;
    const drag = useSignal<{ column: number; from: number; to: number } | null>(null);
    const layout = useMemo((): Layout => {
        const scales = columns.map((c) => makeScale(trials.column(c.name), c.log));
        return { scales, places: scales.map((s, i) => Float32Array.from({ length: trials.count }, (_, row) => s.place(trials.value(columns[i]!.name, row)))) };
    }, [trials, version, columns.map((c) => c.name).join()]);
    const toPlace = (y: number): number => Math.min(1, Math.max(0, 1 - (y - TOP) / (HEIGHT - TOP - BOTTOM)));
    const begin = (x: number, y: number, width: number): void => {
        const at = columns.map((_, i) => Math.abs(axisX(i, columns.length, width) - x));
        const column = at.indexOf(Math.min(...at));
        if (at[column]! < 28) drag.value = { column, from: toPlace(y), to: toPlace(y) };
    };
    const finish = (): void => {
        const d = drag.value;
        drag.value = null;
        if (!d) return;
        const name = columns[d.column]!.name;
        onBrush(name, Math.abs(d.to - d.from) < 0.02 ? null : brushOf(name, layout.scales[d.column]!, d.from, d.to));
    };
    return (
        <div class="parallel">
            <Canvas label={`Parallel coordinates of ${trials.count} trials: ${columns.map((c) => c.title).join(', ')}. The table of trials has the same numbers.`}
                    height={HEIGHT} deps={[layout, props.passing, drag.value, props.hot, brushes]}
                    draw={(ctx, width) => paint(ctx, width, props, layout, drag.value)}
                    onDown={begin} onUp={finish} onMove={(_, y) => { if (drag.value) drag.value = { ...drag.value, to: toPlace(y) }; }} />
            <BrushFields columns={columns} scales={layout.scales} brushes={brushes} onBrush={onBrush} />
        </div>
    );
}

function brushOf(column: string, scale: Scale, a: number, b: number): Brush {
    const low = Math.min(a, b), high = Math.max(a, b);
    if (scale.kind !== 'values') return { column, low: scale.value(low), high: scale.value(high), values: null };
    const values = scale.values.filter((v) => scale.place(v) >= low && scale.place(v) <= high);
    return { column, low: -Infinity, high: Infinity, values };
}

function paint(ctx: CanvasRenderingContext2D, width: number, props: ParallelProps, layout: Layout, drag: { column: number; from: number; to: number } | null): void {
    const { trials, columns, passing } = props;
    const xs = columns.map((_, i) => axisX(i, columns.length, width));
    const ghosts: number[] = [], shown: number[] = [];
    for (let row = 0; row < trials.count; row++) (passing.has(row) ? shown : ghosts).push(row);
    ctx.lineWidth = 1;
    strokeRows(ctx, ghosts, xs, layout, colour('--line-strong'), ghosts.length > 500 ? 0.08 : 0.25);
    if (shown.length <= OWN_COLOURS) for (const row of shown) strokeRows(ctx, [row], xs, layout, ink(trials.ordinal(trials.idAt(row))).colour, 0.9);
    else strokeShades(ctx, shown, xs, layout, props.smallerIsBetter);
    const hot = props.hot === null ? undefined : trials.rowOf(props.hot);
    if (hot !== undefined) {
        ctx.lineWidth = 2.5;
        strokeRows(ctx, [hot], xs, layout, ink(trials.ordinal(props.hot!)).colour, 1);
    }
    paintAxes(ctx, props, layout, xs, drag);
}

function strokeRows(ctx: CanvasRenderingContext2D, rows: number[], xs: number[], layout: Layout, style: string, alpha: number): void {
    ctx.strokeStyle = style;
    ctx.globalAlpha = alpha;
    for (let first = 0; first < rows.length; first += PIECE) {
        ctx.beginPath();
        for (const row of rows.slice(first, first + PIECE)) {
            let open = false;
            for (let i = 0; i < xs.length; i++) {
                const place = layout.places[i]![row]!;
                if (Number.isNaN(place)) {
                    open = false;
                    continue;
                }
                if (open) ctx.lineTo(xs[i]!, placeY(place));
                else ctx.moveTo(xs[i]!, placeY(place));
                open = true;
            }
        }
        ctx.stroke();
    }
    ctx.globalAlpha = 1;
}

// From grey to the colour of emphasis, the better the metric; the best on top.
function strokeShades(ctx: CanvasRenderingContext2D, rows: number[], xs: number[], layout: Layout, smallerIsBetter: boolean): void {
    const metric = layout.places.at(-1)!;
    const shades: number[][] = Array.from({ length: SHADES }, () => []);
    for (const row of rows) {
        const place = metric[row]!, good = Number.isNaN(place) ? 0 : smallerIsBetter ? 1 - place : place;
        shades[Math.min(SHADES - 1, Math.floor(good ** 2 * SHADES))]!.push(row);
    }
    const weak = colour('--c5'), strong = colour('--accent'), alpha = Math.max(0.06, Math.min(0.6, 60 / rows.length));
    shades.forEach((some, i) => strokeRows(ctx, some, xs, layout, i < SHADES / 2 ? weak : strong, i < SHADES / 2 ? alpha : Math.min(1, alpha * (i - 1))));
}

function paintAxes(ctx: CanvasRenderingContext2D, props: ParallelProps, layout: Layout, xs: number[], drag: { column: number; from: number; to: number } | null): void {
    const fg = colour('--fg'), quiet = colour('--fg-quiet'), accent = colour('--accent'), bg = colour('--bg');
    props.columns.forEach((c, i) => {
        const x = xs[i]!, scale = layout.scales[i]!;
        ctx.strokeStyle = quiet;
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.moveTo(x, placeY(0));
        ctx.lineTo(x, placeY(1));
        ctx.stroke();
        ctx.textAlign = i === 0 ? 'left' : i === xs.length - 1 ? 'right' : 'center';
        const edge = i === 0 ? 4 : i === xs.length - 1 ? 2 * SIDE - 4 + x - SIDE : x;
        ctx.fillStyle = fg;
        ctx.fillText(clip(c.title, 18), i === xs.length - 1 && xs.length > 1 ? Math.min(edge, x + SIDE - 4) : edge, 14);
        ctx.textAlign = 'right';
        for (const tick of scale.ticks) {
            const text = clip(tick.text, 10), y = placeY(tick.place);
            ctx.globalAlpha = 0.8;
            ctx.fillStyle = bg;
            ctx.fillRect(x - 7 - ctx.measureText(text).width, y - 7, ctx.measureText(text).width + 4, 13);
            ctx.globalAlpha = 1;
            ctx.fillStyle = quiet;
            ctx.fillText(text, x - 5, y + 4);
        }
        const range = drag?.column === i ? [drag.from, drag.to] : brushRange(props.brushes.find((b) => b.column === c.name), scale);
        if (!range) return;
        ctx.fillStyle = accent;
        ctx.globalAlpha = 0.3;
        ctx.fillRect(x - 6, placeY(Math.max(...range)), 12, Math.abs(placeY(range[0]!) - placeY(range[1]!)));
        ctx.globalAlpha = 1;
    });
}

function brushRange(brush: Brush | undefined, scale: Scale): number[] | null {
    if (!brush) return null;
    if (!brush.values) return [Number.isFinite(brush.low) ? scale.place(brush.low) : 0, Number.isFinite(brush.high) ? scale.place(brush.high) : 1];
    const places = brush.values.map((v) => scale.place(v)).filter((p) => !Number.isNaN(p));
    const half = 0.4 / scale.values.length;
    return places.length ? [Math.min(...places) - half, Math.max(...places) + half] : null;
}

// The same by keyboard: two numbers, or some values, for each axis.
function BrushFields({ columns, scales, brushes, onBrush }: { columns: ParallelProps['columns']; scales: Scale[]; brushes: Brush[]; onBrush: ParallelProps['onBrush'] }) {
    const set = (name: string, text: string, which: 'low' | 'high'): void => {
        const old = brushes.find((b) => b.column === name) ?? { column: name, low: -Infinity, high: Infinity, values: null };
        const next = { ...old, [which]: text.trim() === '' ? (which === 'low' ? -Infinity : Infinity) : Number(text) };
        onBrush(name, next.low === -Infinity && next.high === Infinity ? null : next);
    };
    const shown = (n: number | undefined): string => (n !== undefined && Number.isFinite(n) ? String(Number(n.toPrecision(4))) : '');
    return (
        <details class="ranges">
            <summary>{brushes.length ? `Ranges (${brushes.length})` : 'Ranges'}</summary>
            {columns.map((c, i) => {
                const brush = brushes.find((b) => b.column === c.name);
                if (scales[i]!.kind === 'values')
                    return (
                        <fieldset key={c.name}>
                            <legend>{clip(c.title, 30)}</legend>
                            {scales[i]!.values.slice(0, 20).map((v) => (
                                <label class="inline" key={v}>
                                    <input type="checkbox" checked={!brush || !!brush.values?.includes(v)} onChange={(e) => {
                                        const now = brush?.values ?? scales[i]!.values;
                                        const next = e.currentTarget.checked ? [...now, v] : now.filter((w) => w !== v);
                                        onBrush(c.name, next.length === scales[i]!.values.length ? null : { column: c.name, low: -Infinity, high: Infinity, values: next });
                                    }} /> {clip(v, 20)}
                                </label>
                            ))}
                        </fieldset>
                    );
                return (
                    <fieldset key={c.name}>
                        <legend>{clip(c.title, 30)}</legend>
                        <input inputMode="decimal" aria-label={`${c.title} from`} placeholder={formatNumber(scales[i]!.value(0))} value={shown(brush?.low)}
                               onChange={(e) => set(c.name, e.currentTarget.value, 'low')} />
                        to
                        <input inputMode="decimal" aria-label={`${c.title} to`} placeholder={formatNumber(scales[i]!.value(1))} value={shown(brush?.high)}
                               onChange={(e) => set(c.name, e.currentTarget.value, 'high')} />
                    </fieldset>
                );
            })}
            {brushes.length > 0 && <button type="button" onClick={() => brushes.forEach((b) => onBrush(b.column, null))}>Clear</button>}
        </details>
    );
}
