// Unit curvetools.tsx: the controls above charts.
import { Menu, type Item } from '../parts/menu.tsx';
import { setParams } from '../state/route.ts';
import { HPARAM } from '../state/trials.ts';
import { AXES } from './chart.tsx';
import type { Axis } from './curve.ts';
import { setAxis, settings, setZoom, shownTrials } from './settings.ts';

interface ToolsProps {
    hparams: string[]; // to group by
    selected?: number; // how many trials are selected
    why?: Partial<Record<Axis, string>>; // axes that cannot be had, and why
}

const SHOWN: [string, string][] = [['best:10', 'the best 10'], ['best:20', 'the best 20'], ['best:100', 'the best 100'], ['all', 'all (at most 200)']];

export function CurveTools({ hparams, selected, why = {} }: ToolsProps) {
    const s = settings.value;
    const axes: Item[] = (Object.keys(AXES) as Axis[]).map((axis) => ({
        label: AXES[axis], checked: s.axis === axis, run: () => setAxis(axis), ...(why[axis] ? { why: why[axis] } : {}),
    }));
    const groups: Item[] = ['', ...hparams].map((name) => ({
        label: name ? name.slice(HPARAM.length) : 'nothing', checked: s.by === name, run: () => setParams({ by: name }),
    }));
    const shown: Item[] = [...SHOWN, ...(selected ? [['selected', `the ${selected} selected`] as [string, string]] : [])]
        .map(([value, label]) => ({ label, checked: shownTrials.value === value, run: () => setParams({ show: value === 'best:20' ? null : value }) }));
    return (
        <div class="tools" role="toolbar" aria-label="Curves">
            {selected !== undefined && <Menu label="Trials" items={shown} />}
            <label class="inline">
                smooth
                <input type="range" min={0} max={0.99} step={0.01} value={s.smooth} aria-valuetext={String(s.smooth)}
                       onInput={(e) => setParams({ smooth: Number(e.currentTarget.value) || null })} />
                <span class="num quiet fixed">{s.smooth ? s.smooth.toFixed(2) : ''}</span>
            </label>
            <Menu label={`axis: ${AXES[s.axis]}`} items={axes} />
            <label class="inline"><input type="checkbox" checked={s.log} onChange={() => setParams({ log: s.log ? null : 1 })} /> log y</label>
            {hparams.length > 0 && <Menu label={s.by ? `group: ${s.by.slice(HPARAM.length)}` : 'group'} items={groups} />}
            {s.by && (
                <label class="inline">
                    <input type="checkbox" checked={s.traces} onChange={() => setParams({ traces: s.traces ? null : 1 })} /> all traces
                </label>
            )}
            {s.zoom && <button type="button" onClick={() => setZoom(null)}>Whole range</button>}
        </div>
    );
}
