// Unit experiment_curves.tsx: every metric of an experiment as a chart, with the same trials, axis and zoom.
import { useSignal } from '@preact/signals';
import { CurveTools } from '../charts/curvetools.tsx';
import { Legend, type LegendEntry } from '../charts/legend.tsx';
import { metricName, sortMetrics } from '../charts/loader.ts';
import { MetricChart, type CurveSource } from '../charts/metricchart.tsx';
import { shownTrials } from '../charts/settings.ts';
import { Await, Empty } from '../parts/status.tsx';
import type { ExperimentView } from '../state/experiment.ts';
import type { TabProps } from './experiment.tsx';
import { selectedTrials } from './experiment_trials.tsx';

// For the master: which trials.
export function wantedTrials(): string {
    const selected = selectedTrials();
    return shownTrials.value === 'selected' && selected.length ? selected.join() : shownTrials.value === 'selected' ? 'best:20' : shownTrials.value;
}

export const experimentSource = (id: number): CurveSource[] => [{ path: `/experiments/${id}/series`, topics: [`metrics:${id}`], trials: wantedTrials() }];

// Why an axis cannot be had.
export function axisReasons(view: ExperimentView): { epoch?: string } {
    const any = view.trials.count && Number.isFinite(view.book.clockOf(view.trials.idAt(0)).batchesPerEpoch);
    return any ? {} : { epoch: 'The length of an epoch is not known: set records_per_epoch in the configuration.' };
}

export function CurvesTab({ view, about }: TabProps) {
    void view.trials.version.value;
    const e = about.experiment, legend = useSignal<readonly LegendEntry[]>([]);
    return (
        <div class="scrolls">
            <CurveTools hparams={view.trials.varied} selected={selectedTrials().length} why={axisReasons(view)} />
            <Legend entries={legend} hot={view.hot} />
            <Await of={view.names}>
                {({ names }) => (names.length ? (
                    <div class="charts">
                        {sortMetrics(names, e.searcherMetric).map((m, i) => (
                            <MetricChart key={metricName(m)} {...(i ? {} : { legend })} sources={experimentSource(view.id)} metric={{ group: m.group, name: m.name }}
                                     book={view.book} hot={view.hot} emphasis={e.numTrials > 8 ? e.bestTrialId : null} />
                        ))}
                    </div>
                ) : <Empty><p>No metric was reported yet.</p></Empty>)}
            </Await>
        </div>
    );
}
