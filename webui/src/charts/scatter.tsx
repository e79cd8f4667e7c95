// Unit scatter.tsx: a hyperparameter against the metric, a dot for each trial.
import { useMemo } from 'preact/hooks';
import type { Signal } from '@preact/signals';
import { navigate } from '../state/route.ts';
import { colour } from '../state/theme.ts';
import type { Trials } from '../state/trials.ts';
import { clip } from '../text/visible.ts';
import { Canvas } from './canvas.tsx';
import { inkIndex } from './palette.ts';
import { makeScale } from './scale.ts';

const LEFT = 44, RIGHT = 8, TOP = 6, BOTTOM = 20, HEIGHT = 150, NEAR = 12;
const OWN_COLOURS = 40;

interface ScatterProps {
    trials: Trials;
    column: { name: string; title: string; log: boolean };
    metric: string; // its title
    passing: ReadonlySet<number>;
    hot: Signal<number | null>;
}

export function Scatter({ trials, column, metric, passing, hot }: ScatterProps) {
    const version = trials.version.value;
    const { x, y } = useMemo(() => ({ x: makeScale(trials.column(column.name), column.log), y: makeScale(trials.column('metric')) }),
                             [trials, version, column.name]);
    const at = (row: number, width: number): [number, number] => [
        LEFT + x.place(trials.value(column.name, row)) * (width - LEFT - RIGHT),
        TOP + (1 - y.place(trials.value('metric', row))) * (HEIGHT - TOP - BOTTOM),
    ];
    const draw = (ctx: CanvasRenderingContext2D, width: number): void => {
        ctx.fillStyle = colour('--fg-quiet');
        ctx.strokeStyle = colour('--line');
        ctx.textAlign = 'right';
        for (const t of y.ticks) {
            const ty = TOP + (1 - t.place) * (HEIGHT - TOP - BOTTOM);
            ctx.fillText(t.text, LEFT - 4, ty + 4);
            ctx.strokeRect(LEFT, ty, width - LEFT - RIGHT, 0);
        }
        ctx.textAlign = 'center';
        const every = Math.ceil(x.ticks.length / Math.max(1, Math.floor((width - LEFT) / 48)));
        x.ticks.forEach((t, i) => { if (i % every === 0) ctx.fillText(clip(t.text, 9), Math.min(width - 16, LEFT + t.place * (width - LEFT - RIGHT)), HEIGHT - 6); });
        const colours = Array.from({ length: 8 }, (_, i) => colour(`--c${i}`)), few = trials.count <= OWN_COLOURS, accent = colour('--accent');
        const radius = few ? 3 : trials.count > 1000 ? 1.5 : 2;
        for (let row = 0; row < trials.count; row++) {
            const [px, py] = at(row, width);
            if (Number.isNaN(px + py)) continue;
            ctx.globalAlpha = passing.has(row) ? (few ? 0.9 : 0.5) : 0.1;
            ctx.fillStyle = few ? colours[inkIndex(trials.ordinal(trials.idAt(row)))]! : accent;
            dot(ctx, px, py, radius);
        }
        ctx.globalAlpha = 1;
        const row = hot.value === null ? undefined : trials.rowOf(hot.value);
        if (row === undefined) return;
        ctx.strokeStyle = colour('--fg');
        ctx.lineWidth = 1.5;
        ctx.beginPath();
        ctx.arc(...at(row, width), 5, 0, 7);
        ctx.stroke();
    };
    const find = (px: number, py: number, width: number): number | null => {
        let best = -1, least = NEAR;
        for (let row = 0; row < trials.count; row++) {
            const [x1, y1] = at(row, width), away = Math.hypot(x1 - px, y1 - py);
            if (away < least) [best, least] = [row, away];
        }
        return best < 0 ? null : trials.idAt(best);
    };
    return (
        <figure class="scatter">
            <figcaption class="quiet">{clip(column.title, 30)} → {clip(metric, 30)}</figcaption>
            <Canvas label={`${column.title} against ${metric}, ${trials.count} trials; the table of trials has the same numbers`} height={HEIGHT}
                    deps={[x, y, passing, hot.value]} draw={draw} onMove={(px, py, w) => (hot.value = find(px, py, w))} onLeave={() => (hot.value = null)}
                    onDown={(px, py, w) => { const id = find(px, py, w); if (id !== null) navigate(`/trials/${id}`); }} />
        </figure>
    );
}

function dot(ctx: CanvasRenderingContext2D, x: number, y: number, radius: number): void {
    if (radius < 2) {
        ctx.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
        return;
    }
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 7);
    ctx.fill();
}
