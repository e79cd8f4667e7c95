// Unit dialog.tsx: windows above the page, questions before something cannot be undone, and short news.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { signal } from '@preact/signals';
import { wordsOf } from '../api/client.ts';
import { Said } from './text.tsx';

export function Dialog({ title, close, children, wide }: {
    title: string; close: () => void; children: ComponentChildren; wide?: boolean;
}) {
    const dialog = useRef<HTMLDialogElement>(null);
    useEffect(() => {
        const shown = dialog.current!;
        const before = document.activeElement as HTMLElement | null;
        shown.showModal();
        return () => {
            shown.close();
            before?.focus?.();
        };
    }, []);
    return (
        <dialog ref={dialog} aria-label={title} data-wide={wide ? '' : undefined}
                onCancel={(e) => { e.preventDefault(); close(); }}
                onClick={(e) => e.target === dialog.current && close()}>
            <div class="inside">
                <h2>{title}</h2>
                {children}
            </div>
        </dialog>
    );
}

// --- questions

interface Question {
    title: string;
    text: string;
    action: string;
    danger?: boolean;
    field?: { label: string; value: string };
    answer: (value: string | null) => void;
}

const question = signal<Question | null>(null);

// Whether somebody agrees.
export function ask(q: Omit<Question, 'answer' | 'field'>): Promise<boolean> {
    return new Promise((resolve) => (question.value = { ...q, answer: (v) => resolve(v !== null) }));
}

// What somebody types, or null.
export function askText(q: Omit<Question, 'answer' | 'field'>, field: { label: string; value: string }): Promise<string | null> {
    return new Promise((resolve) => (question.value = { ...q, field, answer: resolve }));
}

export function Questions() {
    const q = question.value;
    const input = useRef<HTMLInputElement>(null);
    if (!q) return null;
    const done = (value: string | null): void => {
        question.value = null;
        q.answer(value);
    };
    return (
        <Dialog title={q.title} close={() => done(null)}>
            <form onSubmit={(e) => { e.preventDefault(); done(input.current?.value ?? ''); }}>
                {q.text && <p><Said text={q.text} /></p>}
                {q.field && <label class="field">{q.field.label}<input ref={input} value={q.field.value} autofocus /></label>}
                <div class="buttons">
                    <button type="button" onClick={() => done(null)}>Cancel</button>
                    <button type="submit" class="main" data-danger={q.danger ? '' : undefined} autofocus={!q.field}>{q.action}</button>
                </div>
            </form>
        </Dialog>
    );
}

// --- news

interface News {
    id: number;
    text: string;
    bad: boolean;
}

const news = signal<News[]>([]);
let nextNews = 1;

export function notify(text: string, bad = false): void {
    const item = { id: nextNews++, text, bad };
    news.value = [...news.value.slice(-3), item];
    setTimeout(() => forget(item), bad ? 12_000 : 4_000);
}

function forget(item: News): void {
    news.value = news.value.filter((n) => n !== item);
}

// Does something for somebody who waits, and says how it went; '' says nothing.
export async function attempt<T>(what: () => Promise<T>, done = ''): Promise<T | undefined> {
    try {
        const result = await what();
        if (done) notify(done);
        return result;
    } catch (error) {
        notify(wordsOf(error), true);
        return undefined;
    }
}

export function NewsList() {
    return (
        <div class="news" role="status" aria-live="polite">
            {news.value.map((n) => (
                <div key={n.id} data-bad={n.bad ? '' : undefined}>
                    <Said text={n.text} max={400} />
                    <button type="button" class="plain" aria-label="Close" onClick={() => forget(n)}>✕</button>
                </div>
            ))}
        </div>
    );
}
