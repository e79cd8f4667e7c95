// Unit experiment_notes.tsx: what people write about an experiment.
import { useSignal } from '@preact/signals';
import { call } from '../api/client.ts';
import { attempt } from '../parts/dialog.tsx';
import { Prose } from '../parts/prose.tsx';
import { mayChange } from '../state/session.ts';
import type { TabProps } from './experiment.tsx';

export function NotesTab({ about }: TabProps) {
    const e = about.experiment;
    const draft = useSignal<string | null>(null);
    const save = async (): Promise<void> => {
        const done = await attempt(() => call('PATCH', `/experiments/${e.id}`, { body: { notes: draft.value ?? '' } }), 'The notes were saved.');
        if (done !== undefined) draft.value = null;
    };
    if (draft.value === null)
        return (
            <div class="scrolls">
                {e.notes ? <Prose text={e.notes} /> : <p class="quiet">There are no notes.</p>}
                {mayChange(e.userId) && <p><button type="button" onClick={() => (draft.value = e.notes ?? '')}>{e.notes ? 'Edit' : 'Write'}</button></p>}
            </div>
        );
    return (
        <div class="scrolls">
            <textarea class="notes" aria-label="Notes" value={draft.value} autofocus onInput={(ev) => (draft.value = ev.currentTarget.value)}
                      onKeyDown={(ev) => { if (ev.key === 'Enter' && (ev.ctrlKey || ev.metaKey)) void save(); }} />
            <div class="buttons start">
                <button type="button" class="main" onClick={() => void save()}>Save <kbd>Ctrl-Enter</kbd></button>
                <button type="button" onClick={() => (draft.value = null)}>Cancel</button>
            </div>
        </div>
    );
}
