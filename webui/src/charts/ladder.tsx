// Unit ladder.tsx: the rungs of a search: which trial got how far, where the cut was, who goes on. Longest rung on top; in
// a rung the best trials stand first.
import { useMemo } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { Said } from '../parts/text.tsx';
import { navigate } from '../state/route.ts';
import { colour } from '../state/theme.ts';
import { formatNumber } from '../text/format.ts';
import { Canvas } from './canvas.tsx';
import { inkIndex } from './palette.ts';
import { ladderRows, LEFT, placeRows, type Decision, type Dot, type Placed, type Row, type SearchAnswer } from './rungs.ts';

const WORDS: Record<Decision, string> = { running: 'runs', waiting: 'waits', promoted: 'goes on', stopped: 'was stopped', finished: 'finished' };

const cellAt = (p: Placed, i: number): [number, number] => [LEFT + (i % p.perLine) * p.size + p.size / 2, p.y + Math.floor(i / p.perLine) * p.size + p.size / 2];

function drawDot(ctx: CanvasRenderingContext2D, dot: Dot, x: number, y: number, size: number, fill: string): void {
    const radius = Math.max(1, size / 2 - (size > 6 ? 1.5 : 0.5));
    ctx.fillStyle = ctx.strokeStyle = fill;
    ctx.lineWidth = size > 6 ? 1.5 : 0.75;
    ctx.globalAlpha = dot.decision === 'stopped' ? 0.55 : 1;
    ctx.setLineDash(dot.decision === 'running' ? [2, 2] : []);
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 7);
    if (dot.decision === 'promoted' || dot.decision === 'finished') ctx.fill();
    else ctx.stroke();
    if (dot.decision === 'waiting') ctx.fillRect(x - 1, y - 1, 2, 2);
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
}

interface LadderProps {
    search: SearchAnswer;
    ordinal: (id: number) => number;
    hot: Signal<number | null>;
    links?: boolean;
}

export function Ladder({ search, ordinal, hot, links = true }: LadderProps) {
    const rows = useMemo(() => ladderRows(search), [search]);
    const width = useSignal(600), tip = useSignal<{ dot: Dot; x: number; y: number } | null>(null), tabular = useSignal(false);
    const { placed, height } = useMemo(() => placeRows(rows, width.value), [rows, width.value]);
    const find = (x: number, y: number): Dot | null => {
        for (const p of placed) {
            if (y < p.y || y >= p.y + p.lines * p.size) continue;
            const column = Math.floor((x - LEFT) / p.size), line = Math.floor((y - p.y) / p.size);
            if (column >= 0 && column < p.perLine) return p.row.dots[line * p.perLine + column] ?? null;
        }
        return null;
    };
    const draw = (ctx: CanvasRenderingContext2D, w: number): void => {
        if (w !== width.value) width.value = w;
        const colours = Array.from({ length: 8 }, (_, i) => colour(`--c${i}`)), quiet = colour('--fg-quiet'), fg = colour('--fg');
        for (const p of placed) {
            ctx.textAlign = 'right';
            ctx.fillStyle = quiet;
            ctx.fillText(p.row.label, LEFT - 10, p.y + 12);
            p.row.dots.forEach((dot, i) => drawDot(ctx, dot, ...cellAt(p, i), p.size, colours[inkIndex(ordinal(dot.trialId))]!));
            const i = p.row.dots.findIndex((d) => d.trialId === hot.value);
            if (i >= 0) {
                ctx.strokeStyle = fg;
                ctx.lineWidth = 1.5;
                ctx.beginPath();
                ctx.arc(...cellAt(p, i), p.size / 2 + 1, 0, 7);
                ctx.stroke();
            }
            if (p.row.cut >= 0 && p.row.cut <= p.row.dots.length) drawCut(ctx, p, quiet);
        }
    };
    return (
        <div class="ladder">
            <Canvas label={`Rungs of the search: ${rows.length}`} height={height} deps={[placed, hot.value]} draw={draw}
                    onMove={(x, y) => {
                        const dot = find(x, y);
                        tip.value = dot && { dot, x, y };
                        hot.value = dot?.trialId ?? null;
                    }}
                    onLeave={() => { tip.value = null; hot.value = null; }}
                    onDown={(x, y) => { const dot = find(x, y); if (dot && links) navigate(`/trials/${dot.trialId}`); }} />
            {tip.value && (
                <div class="tip" data-left={tip.value.x > 260 ? '' : undefined} style={{ left: `${tip.value.x}px`, top: `${tip.value.y}px` }}>
                    <b>trial {tip.value.dot.trialId}</b> <span class="num">{formatNumber(tip.value.dot.metric)}</span>
                    <div class="quiet">{WORDS[tip.value.dot.decision]}</div>
                </div>
            )}
            <p class="legend quiet">
                <span aria-hidden="true">●</span> goes on <span aria-hidden="true">○</span> stopped <span aria-hidden="true">⊙</span> waits <span aria-hidden="true">◌</span> runs
                <button type="button" class="plain" aria-pressed={tabular.value} onClick={() => (tabular.value = !tabular.value)}>Table</button>
            </p>
            {tabular.value && <LadderTable rows={rows} metric={search.metric} links={links} />}
        </div>
    );
}

function drawCut(ctx: CanvasRenderingContext2D, p: Placed, style: string): void {
    const last = Math.min(p.row.dots.length, p.perLine);
    ctx.fillStyle = style;
    ctx.textAlign = 'left';
    ctx.fillText(`cut ${formatNumber(p.row.cutoff)}`, LEFT + last * p.size + 8, p.y + 12);
    if (!p.row.cut || p.row.cut >= p.row.dots.length) return;
    const x = LEFT + (p.row.cut % p.perLine) * p.size, y = p.y + Math.floor(p.row.cut / p.perLine) * p.size;
    ctx.fillRect(x - 0.5, y, 1, p.size);
}

function LadderTable({ rows, metric, links }: { rows: Row[]; metric: string | null; links: boolean }) {
    return (
        <div class="numbers" tabIndex={0} role="region" aria-label="Numbers of the rungs">
            <table>
                <thead><tr><th>Bracket</th><th>Length</th><th>Trial</th><th data-right=""><Said text={metric} max={40} /></th><th>Decision</th></tr></thead>
                <tbody>
                    {rows.flatMap((row) => row.dots.slice(0, 100).map((d) => (
                        <tr key={`${row.bracket}-${row.label}-${d.trialId}`}>
                            <td>{row.bracket < 0 ? '' : row.bracket + 1}</td><td>{row.label}</td>
                            <td>{links ? <a href={`/trials/${d.trialId}`}>{d.trialId}</a> : d.trialId}</td>
                            <td data-right="">{formatNumber(d.metric)}</td><td>{WORDS[d.decision]}</td>
                        </tr>
                    )))}
                </tbody>
            </table>
        </div>
    );
}
