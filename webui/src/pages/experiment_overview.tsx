// Unit experiment_overview.tsx: the first tab: what went wrong, the curves that matter, the best trial, how the search goes.
import { useSignal } from '@preact/signals';
import { CurveTools } from '../charts/curvetools.tsx';
import type { Metric } from '../charts/loader.ts';
import { Legend, type LegendEntry } from '../charts/legend.tsx';
import { MetricChart } from '../charts/metricchart.tsx';
import { settings } from '../charts/settings.ts';
import { Swatch } from '../charts/swatch.tsx';
import { lazy } from '../parts/lazy.tsx';
import { Said } from '../parts/text.tsx';
import type { ExperimentView } from '../state/experiment.ts';
import { HPARAM } from '../state/trials.ts';
import { formatCount, formatNumber, formatValue } from '../text/format.ts';
import { hasEnded } from '../text/state.ts';
import type { TabProps } from './experiment.tsx';
import { axisReasons, experimentSource } from './experiment_curves.tsx';
import { ImportancePart, LadderPart, ParallelPart, ScatterPart } from './experiment_search.tsx';
import { selectedTrials, TrialTable } from './experiment_trials.tsx';

const Why = lazy(() => import('./why.tsx').then((m) => m.Why));

// The searcher's metric first, then a loss of training.
function mainMetrics(names: readonly Metric[], searched: string | null): Metric[] {
    const validation = names.find((n) => n.group === 'validation' && n.name === searched) ?? names.find((n) => n.group === 'validation');
    const training = names.find((n) => n.group === 'training' && n.name === 'loss') ?? names.find((n) => n.group === 'training');
    return [validation, training].filter((m): m is Metric & { trials: number } => !!m);
}

export function Overview(props: TabProps) {
    const { view, about } = props;
    const e = about.experiment;
    void view.trials.version.value;
    const legend = useSignal<readonly LegendEntry[]>([]);
    const metrics = mainMetrics(view.names.data.value?.names ?? [], e.searcherMetric);
    const searches = e.type === 'TYPE_EXPERIMENT' && e.searcherType !== 'single';
    return (
        <div class="scrolls">
            {e.state === 'STATE_ERROR' && <Why view={view} reason={e.reason} />}
            {e.state === 'STATE_CANCELED' && e.reason && <p class="quiet"><Said text={e.reason} /></p>}
            {metrics.length > 0 && <CurveTools hparams={view.trials.varied} selected={selectedTrials().length} why={axisReasons(view)} />}
            {settings.value.by && <Legend entries={legend} hot={view.hot} />}
            <div class="main-row" data-low={metrics.length ? undefined : ''}>
                <div class="charts">
                    {metrics.map((m, i) => (
                        <MetricChart key={`${m.group}.${m.name}`} sources={experimentSource(view.id)} metric={{ group: m.group, name: m.name }}
                                     book={view.book} hot={view.hot} emphasis={e.numTrials > 1 ? e.bestTrialId : null} height={240}
                                     {...(i ? {} : { legend })} />
                    ))}
                    {!metrics.length && view.names.data.value && <p class="quiet">{hasEnded(e.state) ? 'No metric was reported.' : 'No metric was reported yet.'}</p>}
                </div>
                <BestPart view={view} metric={e.searcherMetric} best={e.bestTrialId} ended={hasEnded(e.state)} />
            </div>
            {searches && (
                <>
                    <div class="two"><LadderPart view={view} otherwise={<ScatterPart {...props} />} /><ImportancePart {...props} /></div>
                    <ParallelPart {...props} />
                </>
            )}
            <TrialTable view={view} metric={e.searcherMetric ?? ''} smallerIsBetter={e.smallerIsBetter} rows={Math.max(1, Math.min(12, view.trials.count))} />
        </div>
    );
}

function BestPart({ view, metric, best, ended }: { view: ExperimentView; metric: string | null; best: number | null; ended: boolean }) {
    const { trials } = view;
    const row = best === null ? (trials.count ? 0 : undefined) : trials.rowOf(best);
    if (row === undefined) return <section class="part best"><h2>Best so far</h2><p class="quiet">No trial was validated yet.</p></section>;
    const id = trials.idAt(row), shown = trials.varied.length ? trials.varied : trials.hparams;
    return (
        <section class="part best">
            <h2>{best === null ? 'Trial' : trials.count > 1 ? (ended ? 'Best trial' : 'Best so far') : 'Result'}</h2>
            {best !== null && <p class="large num">{formatNumber(trials.value('metric', row))} <span class="unit"><Said text={metric} max={40} /></span></p>}
            <p><Swatch number={trials.ordinal(id)} /><a href={`/trials/${id}`}>trial {id}</a> after {formatCount(trials.number('batches', row))} batches</p>
            <dl class="pairs">
                {shown.slice(0, 16).map((name) => (
                    <div key={name}><dt><Said text={name.slice(HPARAM.length)} max={30} /></dt><dd class="num"><Said text={formatValue(trials.value(name, row))} max={40} /></dd></div>
                ))}
            </dl>
            {trials.text('checkpoint', row) && <p><a href={`/trials/${id}/checkpoints`}>checkpoints</a> · <a href={`/trials/${id}/logs`}>log</a></p>}
        </section>
    );
}
