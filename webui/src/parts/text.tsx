// Unit text.tsx: words on the screen: texts of people, times, states, numbers with their units.
import type { ComponentChildren } from 'preact';
import { now } from '../state/clock.ts';
import { formatAgo, formatPercent, formatTime } from '../text/format.ts';
import { stateOf } from '../text/state.ts';
import { clip } from '../text/visible.ts';
import { copyText } from './clipboard.ts';

// What somebody wrote, on one line, kept apart from the direction of what stands around it.
export function Said({ text, max }: { text: string | null | undefined; max?: number }) {
    if (!text) return null;
    return <bdi>{clip(text, max)}</bdi>;
}

export function Ago({ time }: { time: number }) {
    return <time title={formatTime(time)}>{formatAgo(time, now.value)}</time>;
}

export function State({ state, bare = false }: { state: string; bare?: boolean }) {
    const s = stateOf(state);
    return (
        <span class="state" data-look={s.look} title={bare ? s.word : undefined}>
            <span aria-hidden="true">{s.sign}</span>
            <span class={bare ? 'unseen' : 'word'}>{s.word}</span>
        </span>
    );
}

export function Bar({ part, label }: { part: number; label: string }) {
    const shown = Number.isFinite(part) ? Math.min(1, Math.max(0, part)) : 0;
    return (
        <span class="bar" role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100}
              aria-valuenow={Math.floor(shown * 100)} aria-valuetext={formatPercent(shown)}>
            <span style={{ width: `${shown * 100}%` }} />
        </span>
    );
}

export function Unit({ children }: { children: ComponentChildren }) {
    return <span class="unit">{children}</span>;
}

export function Labels({ labels }: { labels: string[] }) {
    return <>{labels.map((label) => <span class="label" key={label}><Said text={label} max={40} /></span>)}</>;
}

export function Copy({ text, label }: { text: string; label?: string }) {
    const copy = (event: MouseEvent): void => {
        const button = event.currentTarget as HTMLButtonElement;
        void copyText(text).then(() => {
            button.dataset.copied = 'yes';
            setTimeout(() => delete button.dataset.copied, 1500);
        });
    };
    return <button type="button" class="copy" onClick={copy}>{label ?? 'Copy'}</button>;
}
