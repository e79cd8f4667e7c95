// Unit settings.ts: how curves are shown, as it stands in the address: the same for all charts of a page.
import { computed } from '@preact/signals';
import { param, setParams, url } from '../state/route.ts';
import type { Axis } from './curve.ts';

export interface Settings {
    smooth: number; // weight, 0 to 0.99
    axis: Axis;
    log: boolean;
    by: string; // a hyperparameter to group by; '': none
    traces: boolean; // of groups: all traces instead of the mean
    zoom: [number, number] | null;
}

const AXIS_NAMES: Axis[] = ['batch', 'epoch', 'wall', 'process', 'clock'];

export function parseSettings(p: URLSearchParams): Settings {
    const axis = p.get('axis') as Axis | null;
    const zoom = (p.get('zoom') ?? '').split(';').map(Number);
    return {
        smooth: Math.min(0.99, Math.max(0, Number(p.get('smooth')) || 0)),
        axis: axis && AXIS_NAMES.includes(axis) ? axis : 'batch',
        log: p.get('log') === '1',
        by: p.get('by') ?? '',
        traces: p.get('traces') === '1',
        zoom: zoom.length === 2 && zoom.every(Number.isFinite) && zoom[0]! < zoom[1]! ? [zoom[0]!, zoom[1]!] : null,
    };
}

export const settings = computed(() => parseSettings(url.value.searchParams));

export function setZoom(range: [number, number] | null): void {
    setParams({ zoom: range ? range.map((v) => Number(v.toPrecision(8))).join(';') : null });
}

// Zooming in another axis would mean something else.
export function setAxis(axis: Axis): void {
    setParams({ axis: axis === 'batch' ? null : axis, zoom: null });
}

// Which trials' curves are shown: "best:20", "all", or the selected ones.
export const shownTrials = param('show', 'best:20');
