// Unit ansi.tsx: a line of a log with its colours.
import { parseAnsi } from '../text/ansi.ts';
import { isAnyCase } from '../text/filter.ts';
import { showHidden } from '../text/visible.ts';

const LONGEST = 2000; // characters that are shown of a line

export function Coloured({ text, mark = '' }: { text: string; mark?: string }) {
    const cut = text.length > LONGEST;
    return (
        <bdi class="line">
            {parseAnsi(cut ? text.slice(0, LONGEST) : text).map((s, i) => (
                <span key={i} data-fg={s.fg < 0 ? undefined : s.fg} data-bg={s.bg < 0 ? undefined : s.bg} data-bold={s.bold ? '' : undefined}
                      data-dim={s.dim ? '' : undefined} data-under={s.underline ? '' : undefined}>
                    {marked(showHidden(s.text), mark)}
                </span>
            ))}
            {cut && <span class="quiet">… {text.length.toLocaleString('en')} characters</span>}
        </bdi>
    );
}

function marked(text: string, mark: string) {
    if (!mark) return text;
    const any = isAnyCase(mark), out = [], low = any ? text.toLowerCase() : text, word = mark;
    let last = 0;
    for (let at = low.indexOf(word); at >= 0; at = low.indexOf(word, last)) {
        out.push(text.slice(last, at), <mark key={at}>{text.slice(at, at + word.length)}</mark>);
        last = at + word.length;
    }
    out.push(text.slice(last));
    return out;
}
