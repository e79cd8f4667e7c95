// Unit metricchart.tsx: the curves of one metric of some trials, live: loads them, smooths, groups, and shows a Chart.
import { useEffect, useMemo } from 'preact/hooks';
import { computed, useSignal, useSignalEffect, type Signal } from '@preact/signals';
import { listen } from '../api/stream.ts';
import { epoch } from '../state/connection.ts';
import { isDark } from '../state/theme.ts';
import { Chart } from './chart.tsx';
import { axisKind, axisValues, groupLines, smooth, type Curve, type Line, type TrialClock } from './curve.ts';
import type { LegendEntry } from './legend.tsx';
import { metricName, SeriesLoader, type Metric } from './loader.ts';
import type { Scene } from './plot.ts';
import { settings, setZoom, type Settings } from './settings.ts';

// What a chart must know of trials.
export interface TrialBook {
    ordinal: (id: number) => number;
    nameOf: (id: number) => string;
    detailOf: (id: number) => string;
    clockOf: (id: number) => TrialClock;
    groupOf: (id: number, by: string) => string;
}

// Where curves come from: an experiment's trials, or a single trial.
export interface CurveSource {
    path: string; // "/experiments/41/series", or "/series"
    topics: string[]; // of the stream: "metrics:41"
    trials: string; // which of them
}

export interface MetricChartProps {
    sources: CurveSource[];
    metric: Metric;
    book: TrialBook;
    hot: Signal<number | null>;
    emphasis?: number | null; // the trial that stands out when nothing else does
    legend?: Signal<readonly LegendEntry[]>; // is told which curves there are
    height?: number;
}

const BANDED = 12; // more bands than that hide each other

function toLine(c: Curve, s: Settings, book: TrialBook): Line {
    return { id: c.trialId, label: book.nameOf(c.trialId), x: axisValues(c, s.axis, book.clockOf(c.trialId)), y: c.y, low: c.min, high: c.max };
}

// All that stands between the points of the master and the picture.
export function makeScene(curves: readonly Curve[], s: Settings, book: TrialBook): Scene {
    const raw = curves.filter((c) => axisKind(s.axis) === 'batch' || c.t.length).map((c) => toLine(c, s, book)).filter((l) => l.x.length && Number.isFinite(l.x[0]));
    const soft = s.smooth ? raw.map((l) => ({ ...l, y: smooth(l.y, s.smooth), low: null, high: null })) : raw;
    const common = { hot: null, x: s.zoom, axis: s.axis, log: s.log };
    if (s.by && !s.traces) {
        const groups = groupLines(soft, (id) => book.groupOf(id, s.by));
        return { ...common, lines: groups, ghosts: [], number: (id) => -id, bands: true };
    }
    if (!s.by) return { ...common, lines: soft, ghosts: s.smooth ? raw : [], number: book.ordinal, bands: raw.length <= BANDED };
    const keys = [...new Set(soft.map((l) => book.groupOf(l.id, s.by)))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
    return { ...common, lines: soft, ghosts: [], number: (id) => keys.indexOf(book.groupOf(id, s.by)) + 1, bands: false };
}

// Zooms are ranges of the axis; the master is asked for batches or times.
function askedRange(curves: readonly Curve[], s: Settings, book: TrialBook): [number, number] | null {
    if (!s.zoom || s.axis === 'batch') return s.zoom;
    if (s.axis === 'clock') return [s.zoom[0] * 1000, s.zoom[1] * 1000];
    let from = Infinity, to = -Infinity;
    for (const c of curves) {
        const asked = axisKind(s.axis) === 'batch' ? c.x : c.t;
        axisValues(c, s.axis, book.clockOf(c.trialId)).forEach((x, i) => {
            if (x <= s.zoom![1]) to = Math.max(to, asked[Math.min(i + 1, asked.length - 1)]!);
            if (x >= s.zoom![0]) from = Math.min(from, asked[Math.max(0, i - 1)]!);
        });
    }
    return from < to ? [from, to] : null;
}

// What all loaders have found, as one picture.
function combine(loaders: SeriesLoader[], book: Signal<TrialBook>, hot: Signal<number | null>, standing: Signal<number | null>) {
    const base = computed(() => {
        void isDark.value;
        const s = settings.value;
        const curves = loaders.flatMap((l) => (s.zoom && l.fine.value.length ? l.fine.value : l.curves.value));
        return makeScene(curves, s, book.value);
    });
    return {
        scene: computed((): Scene => ({ ...base.value, hot: hot.value ?? (settings.value.by ? null : standing.value) })),
        error: computed(() => loaders.find((l) => l.error.value)?.error.value ?? ''),
        loaded: computed(() => loaders.every((l) => l.loaded.value)),
    };
}

export function MetricChart(props: MetricChartProps) {
    const { sources, metric, book, hot } = props;
    const paths = sources.map((s) => s.path).join(), trials = sources.map((s) => s.trials).join('/');
    const loaders = useMemo(() => sources.map((s) => new SeriesLoader(s.path, metric)), [paths, metricName(metric)]);
    const visible = useSignal(false), now = useSignal(book), standing = useSignal(props.emphasis ?? null);
    now.value = book;
    standing.value = props.emphasis ?? null;
    useEffect(() => {
        if (visible.value) loaders.forEach((l, i) => l.start(sources[i]!.trials, axisKind(settings.value.axis)));
    }, [loaders, trials, visible.value, axisKind(settings.value.axis)]);
    useEffect(() => {
        for (const l of loaders) if (visible.value && l.loaded.peek()) l.reload();
    }, [epoch.value]);
    useEffect(() => {
        const stop = listen(sources.flatMap((s) => s.topics), (event) => loaders.forEach((l) => l.on(event)));
        return () => { stop(); loaders.forEach((l) => l.stop()); };
    }, [loaders]);
    useSignalEffect(() => {
        const s = settings.value;
        for (const l of loaders) l.setZoom(askedRange(l.curves.peek(), s, now.peek()));
    });
    const { scene, error, loaded } = useMemo(() => combine(loaders, now, hot, standing), [loaders]);
    useSignalEffect(() => {
        const { lines, number } = scene.value;
        if (props.legend) props.legend.value = lines.map((l) => ({ id: l.id, label: l.label, number: number(l.id) }));
    });
    const groupName = (id: number): string => scene.value.lines.find((l) => l.id === id)?.label ?? '';
    return (
        <Chart title={metric.name} note={metric.group} scene={scene} hot={hot} error={error} loaded={loaded}
               nameOf={(id) => (id < 0 ? groupName(id) : book.nameOf(id))} detailOf={(id) => (id < 0 ? '' : book.detailOf(id))}
               onZoom={setZoom} onVisible={() => (visible.value = true)} {...(props.height ? { height: props.height } : {})} />
    );
}
