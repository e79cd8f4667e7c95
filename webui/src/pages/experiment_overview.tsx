// Unit experiment_overview.tsx: the first tab: what went wrong, the curves that matter, the best trial, how the search goes.
import { CurveTools } from '../charts/curvetools.tsx';
import type { Metric } from '../charts/loader.ts';
import { MetricChart } from '../charts/metricchart.tsx';
import { lazy } from '../parts/lazy.tsx';
import { Said } from '../parts/text.tsx';
import type { ExperimentView } from '../state/experiment.ts';
import { HPARAM } from '../state/trials.ts';
import { formatCount, formatNumber, formatValue } from '../text/format.ts';
import type { TabProps } from './experiment.tsx';
import { axisReasons, experimentSource } from './experiment_curves.tsx';
import { ImportancePart, LadderPart, ParallelPart } from './experiment_search.tsx';
import { selectedTrials, Swatch, TrialTable } from './experiment_trials.tsx';

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
    const metrics = mainMetrics(view.names.data.value?.names ?? [], e.searcherMetric);
    const searches = e.type === 'TYPE_EXPERIMENT' && e.searcherType !== 'single';
    return (
        <div class="scrolls">
            {e.state === 'STATE_ERROR' && <Why view={view} reason={e.reason} />}
            {e.state === 'STATE_CANCELED' && e.reason && <p class="quiet"><Said text={e.reason} /></p>}
            <CurveTools hparams={view.trials.varied} selected={selectedTrials().length} why={axisReasons(view)} />
            <div class="main-row">
                <div class="charts">
                    {metrics.map((m) => (
                        <MetricChart key={`${m.group}.${m.name}`} sources={experimentSource(view.id)} metric={{ group: m.group, name: m.name }}
                                     book={view.book} hot={view.hot} emphasis={e.numTrials > 1 ? e.bestTrialId : null} height={240} />
                    ))}
                    {!metrics.length && <figure class="chart waiting"><p class="quiet">No metric was reported yet.</p></figure>}
                </div>
                <BestPart view={view} metric={e.searcherMetric} best={e.bestTrialId} />
            </div>
            {searches && (
                <>
                    <div class="two"><LadderPart view={view} /><ImportancePart {...props} /></div>
                    <ParallelPart {...props} />
                </>
            )}
            <TrialTable view={view} metric={e.searcherMetric ?? ''} smallerIsBetter={e.smallerIsBetter} rows={Math.max(3, Math.min(12, view.trials.count))} />
        </div>
    );
}

function BestPart({ view, metric, best }: { view: ExperimentView; metric: string | null; best: number | null }) {
    const { trials } = view;
    const row = best === null ? (trials.count ? 0 : undefined) : trials.rowOf(best);
    if (row === undefined) return <section class="part best"><h2>Best so far</h2><p class="quiet">No trial was validated yet.</p></section>;
    const id = trials.idAt(row), shown = trials.varied.length ? trials.varied : trials.hparams;
    return (
        <section class="part best">
            <h2>{best === null ? 'Trial' : trials.count > 1 ? 'Best so far' : 'Result'}</h2>
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
