// Unit editor.tsx: a field for YAML: lines have numbers and colours, what is wrong is underlined where it is. The text is in
// an ordinary text area, so that everything that browsers do with text works; the colours are behind it.
import { useRef } from 'preact/hooks';
import { YamlLine } from '../parts/code.tsx';
import { Said } from '../parts/text.tsx';
import { indentAfter, offsetOf } from './place.ts';

export interface Problem {
    line: number | null; // from 1; null: of no line
    column: number | null;
    path: string | null; // "searcher.max_trials"
    message: string;
    missing?: boolean; // a key that is required and not there
    template?: string | null; // where it stands, if not in this text
}

interface EditorProps {
    text: string;
    problems: Problem[];
    label: string;
    onInput: (text: string) => void;
    onSubmit: () => void;
}

// "line 4, column 15: searcher.max_trials must be at least 1, found 0"
export function describe(p: Problem): string {
    const where = p.template ? `template ${p.template}` : p.line ? `line ${p.line}, column ${p.column ?? 1}` : '';
    return `${where}${where ? ': ' : ''}${p.path ? `${p.path}: ` : ''}${p.message}`;
}

export function Editor({ text, problems, label, onInput, onSubmit }: EditorProps) {
    const area = useRef<HTMLTextAreaElement>(null);
    const leaving = useRef(false); // Escape was pressed: Tab moves on
    const type = (insert: string): void => {
        const a = area.current!;
        a.setRangeText(insert, a.selectionStart, a.selectionEnd, 'end');
        onInput(a.value);
    };
    const onKey = (event: KeyboardEvent): void => {
        if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) onSubmit();
        else if (event.key === 'Enter') type(`\n${indentAfter(text, area.current!.selectionStart)}`);
        else if (event.key === 'Tab' && !event.shiftKey && !leaving.current) type('  ');
        else {
            leaving.current = event.key === 'Escape';
            return;
        }
        event.preventDefault();
    };
    const goTo = (p: Problem): void => {
        const at = offsetOf(text, p.line ?? 1, p.column ?? 1);
        area.current!.focus();
        area.current!.setSelectionRange(at, at);
    };
    const lines = text.split('\n');
    return (
        <div class="editor">
            <div class="sheet code">
                <pre aria-hidden="true">
                    {lines.map((line, i) => <EditorLine key={i} number={i + 1} line={line} problems={problems.filter((p) => p.line === i + 1 && !p.template)} />)}
                </pre>
                <textarea ref={area} class="code" aria-label={label} aria-invalid={problems.length > 0} aria-describedby="problems" spellcheck={false} autocomplete="off" wrap="off"
                          value={text} onInput={(e) => onInput(e.currentTarget.value)} onKeyDown={onKey} />
            </div>
            <ul id="problems" class="problems" aria-live="polite">
                {problems.map((p, i) => (
                    <li key={i}>
                        <button type="button" class="plain" onClick={() => goTo(p)}>
                            <Said text={describe(p)} max={400} />
                        </button>
                    </li>
                ))}
            </ul>
        </div>
    );
}

function EditorLine({ number, line, problems }: { number: number; line: string; problems: Problem[] }) {
    const first = problems[0];
    const from = first ? Math.max(0, Math.min((first.column ?? 1) - 1, line.length)) : 0;
    const word = first ? /^[^\s,}\]]*/.exec(line.slice(from))![0].length || 1 : 0;
    return (
        <div class="row" data-wrong={first ? '' : undefined}>
            <span class="no">{number}</span>
            <span class="line">
                <YamlLine line={line || ' '} />
                {first && <span class="wavy" style={{ left: `${from}ch`, width: `${word}ch` }} />}
            </span>
        </div>
    );
}
