// Unit palette.tsx: search and commands in one list: experiments by number, name, description or label; pages; things to do.
import { useEffect, useRef } from 'preact/hooks';
import { useComputed, useSignal } from '@preact/signals';
import { get, isAbort } from '../api/client.ts';
import type { Experiment } from '../api/types.ts';
import { findKey } from '../state/keys.ts';
import { navigate } from '../state/route.ts';
import { toggleTheme } from '../state/theme.ts';
import { Dialog } from './dialog.tsx';
import { Said, State } from './text.tsx';

interface Entry {
    id: string;
    label: string;
    note?: string;
    state?: string;
    run: () => void;
}

const WAIT_MS = 120;

function commands(pages: readonly (readonly [string, string, string])[]): Entry[] {
    const go = (to: string) => () => navigate(to);
    return [
        ...pages.map(([to, word, key]) => ({ id: to, label: `Go to ${word}`, note: `g ${key}`, run: go(to) })),
        { id: 'new', label: 'New experiment', note: 'n', run: go('/new') },
        { id: 'theme', label: 'Switch between light and dark', run: toggleTheme },
        { id: 'keys', label: 'Show the keys', note: '?', run: () => findKey('?')?.run(new KeyboardEvent('keydown')) },
    ];
}

const numberOf = (text: string): string | undefined => /^#?(\d{1,15})$/.exec(text.trim())?.[1];

function byNumber(text: string): Entry[] {
    const n = numberOf(text);
    return n ? [{ id: `t${n}`, label: `Trial ${n}`, run: () => navigate(`/trials/${n}`) }] : [];
}

// The experiment of that number first, then those that the words fit.
async function find(text: string, abort: AbortSignal): Promise<Experiment[]> {
    const n = numberOf(text);
    const [list, exact] = await Promise.all([
        get<{ experiments: Experiment[] }>('/experiments', { search: text.trim(), limit: 8, orderBy: 'ORDER_BY_DESC' }, abort),
        n ? get<{ experiment: Experiment }>(`/experiments/${n}`, {}, abort).catch(() => null) : null,
    ]);
    const first = exact?.experiment;
    return first ? [first, ...list.experiments.filter((e) => e.id !== first.id)] : list.experiments;
}

const toEntry = (e: Experiment): Entry => ({
    id: `e${e.id}`, label: `${e.id} ${e.name ?? ''}`, note: e.labels.join(', '), state: e.state, run: () => navigate(`/experiments/${e.id}`),
});

export function Palette({ close, pages }: { close: () => void; pages: readonly (readonly [string, string, string])[] }) {
    const text = useSignal(''), found = useSignal<Experiment[]>([]), at = useSignal(0), failed = useSignal('');
    const list = useRef<HTMLUListElement>(null);
    useEffect(() => {
        const abort = new AbortController();
        const timer = setTimeout(() => {
            find(text.value, abort.signal).then((list) => { found.value = list; failed.value = ''; })
                .catch((error: Error) => { if (!isAbort(error)) failed.value = error.message; });
        }, text.value ? WAIT_MS : 0);
        return () => { clearTimeout(timer); abort.abort(); };
    }, [text.value]);
    const entries = useComputed(() => {
        const words = text.value.trim().toLowerCase();
        const does = commands(pages).filter((c) => c.label.toLowerCase().includes(words));
        return words ? [...found.value.slice(0, 1).map(toEntry), ...byNumber(words), ...found.value.slice(1).map(toEntry), ...does] : [...does, ...found.value.map(toEntry)];
    }).value;
    const chosen = Math.min(at.value, entries.length - 1);
    useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' }), [chosen]);
    const run = (entry: Entry | undefined): void => {
        if (!entry) return;
        close();
        setTimeout(entry.run);
    };
    const onKey = (event: KeyboardEvent): void => {
        const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
        if (step) at.value = (chosen + step + entries.length) % Math.max(entries.length, 1);
        else if (event.key === 'Enter') run(entries[chosen]);
        else return;
        event.preventDefault();
    };
    return (
        <Dialog title="Search" close={close}>
            <input type="text" role="combobox" class="search" aria-label="Search" aria-expanded="true" aria-controls="found" autofocus autocomplete="off"
                   aria-activedescendant={chosen >= 0 ? `found-${chosen}` : undefined} spellcheck={false}
                   placeholder="Number, name, description or label of an experiment; or what to do" value={text.value}
                   onInput={(e) => { text.value = e.currentTarget.value; at.value = 0; }} onKeyDown={onKey} />
            <ul id="found" role="listbox" aria-label="Found" class="found" ref={list}>
                {entries.map((entry, i) => (
                    <li key={entry.id} id={`found-${i}`} role="option" aria-selected={i === chosen} onClick={() => run(entry)}
                        onMouseMove={() => (at.value = i)}>
                        {entry.state && <State state={entry.state} bare />}
                        <Said text={entry.label} max={80} />
                        <span class="note"><Said text={entry.note} max={40} /></span>
                    </li>
                ))}
            </ul>
            {failed.value && <p class="reason"><Said text={failed.value} /></p>}
        </Dialog>
    );
}
