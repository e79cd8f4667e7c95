// Unit chart.tsx: a chart of one metric with what belongs to it: its title, what the pointer is at, its table. It is
// drawn when it is visible.
import { useEffect, useRef } from 'preact/hooks';
import { signal, useSignal, useSignalEffect, type ReadonlySignal, type Signal } from '@preact/signals';
import { Failed } from '../parts/status.tsx';
import { Said } from '../parts/text.tsx';
import { isDark } from '../state/theme.ts';
import { formatBytes, formatDuration, formatNumber, formatTime } from '../text/format.ts';
import { ChartTable } from './charttable.tsx';
import type { Axis } from './curve.ts';
import { Plot, type Pointed, type Scene } from './plot.ts';

export interface ChartProps {
    title: string;
    note?: string; // beside the title
    scene: ReadonlySignal<Scene>;
    hot: Signal<number | null>;
    nameOf: (id: number) => string;
    detailOf?: (id: number) => string;
    onZoom: (range: [number, number] | null) => void;
    onVisible?: () => void;
    error?: ReadonlySignal<string>;
    loaded?: ReadonlySignal<boolean>;
    height?: number;
}

export const AXES: Record<Axis, string> = { batch: 'batches', epoch: 'epochs', wall: 'wall time', process: 'process time', clock: 'clock' };

export function formatAxis(axis: Axis, x: number): string {
    if (axis === 'wall' || axis === 'process') return formatDuration(x * 1000);
    if (axis === 'clock') return formatTime(x * 1000);
    return `${formatNumber(axis === 'batch' ? Math.round(x) : x)} ${AXES[axis]}`;
}

// Calls back when the element is first seen.
export function useVisible(element: { current: Element | null }, seen: () => void): void {
    useEffect(() => {
        const watch = new IntersectionObserver((entries) => {
            if (!entries.some((e) => e.isIntersecting)) return;
            watch.disconnect();
            seen();
        }, { rootMargin: '120px' });
        watch.observe(element.current!);
        return () => watch.disconnect();
    }, []);
}

// Where the pointer is in one of the charts, for all of them.
const cursor = signal<{ axis: Axis; x: number } | null>(null);

export function Chart(props: ChartProps) {
    const box = useRef<HTMLDivElement>(null), plot = useRef<Plot | null>(null);
    const hover = useSignal<Pointed | null>(null), visible = useSignal(false), tabular = useSignal(false);
    useVisible(box, () => {
        visible.value = true;
        props.onVisible?.();
    });
    usePlot(props, box, plot, hover, visible);
    const scene = props.scene.value;
    const empty = props.loaded?.value && !scene.lines.length;
    return (
        <figure class="chart">
            <figcaption>
                <h3><Said text={props.title} max={80} /></h3>
                {props.note && <span class="quiet"><Said text={props.note} max={40} /></span>}
                <span class="quiet end">{AXES[scene.axis]}</span>
                {scene.x && <button type="button" class="plain" onClick={() => props.onZoom(null)}>Whole range</button>}
                <button type="button" class="plain" aria-pressed={tabular.value} onClick={() => (tabular.value = !tabular.value)}>Table</button>
            </figcaption>
            {props.error?.value && <Failed words={props.error.value} />}
            <div class="plot" ref={box} tabIndex={0} role="group" aria-busy={props.loaded && !props.loaded.value ? true : undefined} style={{ height: `${props.height ?? 220}px` }}
                 aria-label={`Curves of ${props.title}, ${scene.lines.length}. Keys: + and − zoom, arrows move, 0 shows all.`}
                 onKeyDown={(e) => zoomByKey(e, plot.current, props.onZoom)}>
                {empty && <p class="nothing quiet">Nothing was reported yet.</p>}
                {hover.value && <Tip hover={hover.value} axis={scene.axis} {...props} />}
            </div>
            {tabular.value && <ChartTable lines={scene.lines} axis={scene.axis} nameOf={props.nameOf} />}
        </figure>
    );
}

function usePlot(props: ChartProps, box: { current: HTMLDivElement | null }, plot: { current: Plot | null }, hover: Signal<Pointed | null>, visible: Signal<boolean>): void {
    const last = useRef(props);
    last.current = props;
    useEffect(() => {
        if (!visible.value) return;
        plot.current ??= new Plot(box.current!, props.scene.peek(), {
            onZoom: (range) => last.current.onZoom(range),
            onCursor: (x) => (cursor.value = x === null ? null : { axis: last.current.scene.peek().axis, x }),
            onHover: (at) => {
                hover.value = at;
                last.current.hot.value = at?.line.id ?? null;
            },
        });
        plot.current.update(props.scene.value);
    }, [props.scene.value, visible.value, isDark.value]);
    useSignalEffect(() => {
        const c = cursor.value;
        plot.current?.setCursor(c && c.axis === props.scene.peek().axis ? c.x : null);
    });
    useEffect(() => {
        const watch = new ResizeObserver(() => plot.current?.redraw());
        watch.observe(box.current!);
        return () => {
            watch.disconnect();
            plot.current?.destroy();
            plot.current = null;
        };
    }, []);
}

function zoomByKey(event: KeyboardEvent, plot: Plot | null, onZoom: ChartProps['onZoom']): void {
    if (!plot || event.target !== event.currentTarget) return;
    const [from, to] = plot.shown, size = to - from, middle = (from + to) / 2;
    const parts: Record<string, [number, number] | null> = {
        '+': [middle - size / 4, middle + size / 4], '-': [middle - size, middle + size], '0': null,
        ArrowLeft: [from - size / 5, to - size / 5], ArrowRight: [from + size / 5, to + size / 5],
    };
    if (!(event.key in parts)) return;
    event.preventDefault();
    event.stopPropagation();
    onZoom(parts[event.key]!);
}

function Tip({ hover, axis, nameOf, detailOf, scene }: { hover: Pointed; axis: Axis } & ChartProps) {
    const { line, index } = hover, format = scene.value.bytes ? formatBytes : formatNumber;
    const left = hover.left > 260;
    return (
        <div class="tip" data-left={left ? '' : undefined} style={{ left: `${hover.left}px`, top: `${hover.top}px` }}>
            <b><Said text={nameOf(line.id)} max={60} /></b> <span class="num">{format(line.y[index]!)}</span>
            <div class="quiet">{formatAxis(axis, line.x[index]!)}</div>
            {line.low && line.high && line.low[index] !== line.high[index] && (
                <div class="quiet">{formatNumber(line.low[index])} to {formatNumber(line.high[index])}</div>
            )}
            {detailOf && <div class="quiet"><Said text={detailOf(line.id)} max={160} /></div>}
        </div>
    );
}
