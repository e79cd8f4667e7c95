// Unit actions.tsx: what can be done to experiments, one or many: the table behind buttons, menus and keys.
import { call, post } from '../api/client.ts';
import type { Experiment } from '../api/types.ts';
import { mayChange } from '../state/session.ts';
import { navigate } from '../state/route.ts';
import { hasEnded } from '../text/state.ts';
import { ask, askText, attempt } from './dialog.tsx';
import type { Item } from './menu.tsx';

type Steer = 'pause' | 'activate' | 'kill' | 'archive' | 'unarchive';

interface Action {
    verb: Steer;
    label: string;
    done: string;
    fits: (e: Experiment) => boolean;
    danger?: boolean;
}

const ACTIONS: Action[] = [
    { verb: 'pause', label: 'Pause', done: 'paused', fits: (e) => e.state === 'STATE_ACTIVE' },
    { verb: 'activate', label: 'Activate', done: 'activated', fits: (e) => e.state === 'STATE_PAUSED' },
    { verb: 'kill', label: 'Kill', done: 'killed', fits: (e) => !hasEnded(e.state), danger: true },
    { verb: 'archive', label: 'Archive', done: 'archived', fits: (e) => hasEnded(e.state) && !e.archived },
    { verb: 'unarchive', label: 'Unarchive', done: 'unarchived', fits: (e) => e.archived },
];

const nameAll = (list: Experiment[]): string =>
    list.length === 1 ? `experiment ${list[0]!.id}` : `${list.length} experiments`;

async function steer(action: Action, list: Experiment[]): Promise<void> {
    if (action.danger && !(await ask({
        title: `Kill ${nameAll(list)}?`,
        text: 'Trials end at once, without saving. What was reported and saved before stays.',
        action: 'Kill', danger: true,
    }))) return;
    await attempt(() => Promise.all(list.map((e) => post(`/experiments/${e.id}/${action.verb}`))),
                  `${capital(nameAll(list))} ${list.length === 1 ? 'was' : 'were'} ${action.done}.`);
}

const capital = (text: string): string => text[0]!.toUpperCase() + text.slice(1);

async function addLabel(list: Experiment[]): Promise<void> {
    const label = await askText({ title: `Label ${nameAll(list)}`, text: '', action: 'Add' }, { label: 'Label', value: '' });
    if (!label?.trim()) return;
    await attempt(() => Promise.all(list.map((e) => call('PUT', `/experiments/${e.id}/labels/${encodeURIComponent(label.trim())}`))));
}

export async function rename(e: Experiment): Promise<void> {
    const name = await askText({ title: `Rename experiment ${e.id}`, text: '', action: 'Rename' }, { label: 'Name', value: e.name ?? '' });
    if (name?.trim()) await attempt(() => call('PATCH', `/experiments/${e.id}`, { body: { name: name.trim() } }));
}

export function setLabels(e: Experiment, labels: string[]): Promise<unknown> {
    return attempt(() => call('PATCH', `/experiments/${e.id}`, { body: { labels } }));
}

async function remove(list: Experiment[]): Promise<void> {
    if (!(await ask({
        title: `Delete ${nameAll(list)}?`,
        text: 'Metrics, logs and checkpoints are deleted, too. This cannot be undone.',
        action: 'Delete', danger: true,
    }))) return;
    await attempt(() => Promise.all(list.map((e) => call('DELETE', `/experiments/${e.id}`))), `${capital(nameAll(list))} will be deleted.`);
}

const forkUrl = (e: Experiment): string => `/new?fork=${e.id}`;

// All that fits at least one of them; for the others it is not done.
export function experimentItems(list: Experiment[]): Item[] {
    const mine = list.filter((e) => mayChange(e.userId));
    const items: Item[] = ACTIONS
        .map((a) => ({ a, fitting: mine.filter(a.fits) }))
        .filter(({ fitting }) => fitting.length)
        .map(({ a, fitting }) => ({ label: a.label, danger: !!a.danger, run: () => void steer(a, fitting) }));
    const only = list.length === 1 ? list[0] : undefined;
    if (only) items.unshift({ label: 'Fork', run: () => navigate(forkUrl(only)) });
    if (mine.length) items.push({ label: 'Label', run: () => void addLabel(mine) });
    if (only && mine.length) items.push({ label: 'Rename', run: () => void rename(only) });
    const ended = mine.filter((e) => hasEnded(e.state));
    if (ended.length) items.push({ label: 'Delete', danger: true, run: () => void remove(ended) });
    return items;
}
