// Unit experiment.tsx: the page of an experiment: what it is, what can be done, and its tabs.
import type { ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import type { Experiment } from '../api/types.ts';
import { ActionDialog } from '../parts/actiondialog.tsx';
import { experimentItems, rename, setLabels } from '../parts/actions.tsx';
import { lazy } from '../parts/lazy.tsx';
import { Menu } from '../parts/menu.tsx';
import { Await } from '../parts/status.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { Ago, Said, State } from '../parts/text.tsx';
import { now } from '../state/clock.ts';
import { useExperiment, type ExperimentAnswer, type ExperimentView } from '../state/experiment.ts';
import { useKeys } from '../state/keys.ts';
import { mayChange, users } from '../state/session.ts';
import { formatDuration, formatPercent, parseTime, toNumber } from '../text/format.ts';
import { hasEnded } from '../text/state.ts';
import { timeLeft } from './timeleft.ts';
import { Overview } from './experiment_overview.tsx';
import { TrialsTab } from './experiment_trials.tsx';
import { CurvesTab } from './experiment_curves.tsx';
import { SearchTab } from './experiment_search.tsx';

export interface TabProps {
    view: ExperimentView;
    about: ExperimentAnswer;
}

const TABS: Record<string, [string, ComponentType<TabProps>]> = {
    overview: ['Overview', Overview],
    trials: ['Trials', TrialsTab],
    curves: ['Curves', CurvesTab],
    search: ['Search', SearchTab],
    configuration: ['Configuration', lazy(() => import('./experiment_code.tsx').then((m) => m.ConfigurationTab))],
    code: ['Code', lazy(() => import('./experiment_code.tsx').then((m) => m.CodeTab))],
    notes: ['Notes', lazy(() => import('./experiment_notes.tsx').then((m) => m.NotesTab))],
};

export default function ExperimentPage({ id, tab = 'overview' }: { id?: string; tab?: string }) {
    const view = useExperiment(Number(id));
    const [, Tab] = TABS[tab] ?? TABS.overview!;
    return (
        <section class="page fills" aria-labelledby="title">
            <Await of={view.about} lines={10}>
                {(about) => (
                    <>
                        <Head about={about} />
                        <Tabs base={`/experiments/${id}`} current={tab} first="overview"
                              tabs={Object.entries(TABS).map(([name, [title]]) => [name, title])} />
                        <Tab view={view} about={about} />
                    </>
                )}
            </Await>
        </section>
    );
}

function Head({ about }: { about: ExperimentAnswer }) {
    const e = about.experiment;
    const acting = useSignal(false);
    const items = experimentItems([e]);
    const first = items.filter((i) => ['Pause', 'Activate', 'Fork', 'Kill'].includes(i.label));
    useKeys([{ key: '.', does: 'What can be done with the experiment', run: () => (acting.value = true) }]);
    useEffect(() => { document.title = `${e.id} ${e.name ?? ''} – det`; return () => { document.title = 'det'; }; }, [e.id, e.name]);
    const left = timeLeft(e, now.value);
    return (
        <div class="head">
            <div class="tools">
                <h1 id="title"><span class="quiet num">{e.id}</span> <Said text={e.name || 'experiment'} max={120} /></h1>
                <State state={about.waiting && !about.allocatedSlots ? 'STATE_QUEUED' : e.state} />
                {!hasEnded(e.state) && <span class="num">{formatPercent(toNumber(e.progress))}</span>}
                {Number.isFinite(left) && <span class="quiet">· {formatDuration(left)} left</span>}
                {e.archived && <span class="label">archived</span>}
                <span class="end">
                    {first.map((item) => (
                        <button type="button" key={item.label} data-danger={item.danger ? '' : undefined} onClick={item.run}>{item.label}</button>
                    ))}
                    <Menu label="More" side="right" items={items.filter((i) => !first.includes(i))}>⋯</Menu>
                </span>
            </div>
            <Facts e={e} />
            {about.waiting && <p class="quiet">It <Said text={about.waiting} />.</p>}
            {acting.value && <ActionDialog title={`Experiment ${e.id}`} items={items} close={() => (acting.value = false)} />}
        </div>
    );
}

function Facts({ e }: { e: Experiment }) {
    const editable = mayChange(e.userId);
    return (
        <div class="facts quiet">
            {e.description && <span><Said text={e.description} max={200} /></span>}
            <span>{e.type === 'TYPE_GENERIC' ? 'job' : <Said text={e.searcherType} />}{e.numTrials > 1 ? `, ${e.numTrials} trials` : ''}</span>
            <span>started <Ago time={parseTime(e.startTime)} />{e.endTime ? `, took ${formatDuration(parseTime(e.endTime) - parseTime(e.startTime))}` : ''}</span>
            <span><Said text={users.value.get(e.userId)} max={40} /></span>
            {e.forkedFrom !== null && <span>fork of <a href={`/experiments/${e.forkedFrom}`}>{e.forkedFrom}</a></span>}
            {e.private && <span>private</span>}
            <span>
                {e.labels.map((label) => (
                    <span class="label" key={label}>
                        <Said text={label} max={40} />
                        {editable && <button type="button" class="plain" aria-label={`Remove the label ${label}`} onClick={() => void setLabels(e, e.labels.filter((l) => l !== label))}>✕</button>}
                    </span>
                ))}
                {editable && <button type="button" class="plain small" onClick={() => experimentItems([e]).find((i) => i.label === 'Label')?.run()}>+ label</button>}
                {editable && <button type="button" class="plain small" onClick={() => void rename(e)}>rename</button>}
            </span>
        </div>
    );
}
