// Unit code.tsx: text of files: with numbers of lines, coloured if it is YAML; and differences between files.
import { tokenize } from '../editor/yaml.ts';
import { showHidden } from '../text/visible.ts';

const MAX_LINES = 5000, MAX_LINE = 2000;

function cutLine(line: string): string {
    return line.length > MAX_LINE ? `${line.slice(0, MAX_LINE)}…` : line;
}

export function YamlLine({ line }: { line: string }) {
    return <>{tokenize(showHidden(cutLine(line))).map((t, i) => <span key={i} data-kind={t.kind}>{t.text}</span>)}</>;
}

export function Code({ text, yaml, label }: { text: string; yaml?: boolean; label: string }) {
    const lines = text.replace(/\n$/, '').split('\n');
    return (
        <div class="code" tabIndex={0} role="region" aria-label={label}>
            <pre>
                {lines.slice(0, MAX_LINES).map((line, i) => (
                    <div key={i} class="row"><span class="no" aria-hidden="true">{i + 1}</span><bdi>{yaml ? <YamlLine line={line} /> : showHidden(cutLine(line)) || ' '}</bdi></div>
                ))}
            </pre>
            {lines.length > MAX_LINES && <p class="quiet">{lines.length - MAX_LINES} more lines are not shown.</p>}
        </div>
    );
}

const SIGNS: Record<string, string> = { '+': 'added', '-': 'removed', '@': 'place' };

// A unified diff.
export function Diff({ text, label }: { text: string; label: string }) {
    const lines = text.replace(/\n$/, '').split('\n').filter((l) => !/^(---|\+\+\+) /.test(l));
    return (
        <div class="code" tabIndex={0} role="region" aria-label={label}>
            <pre>
                {lines.slice(0, MAX_LINES).map((line, i) => (
                    <div key={i} class="row" data-diff={SIGNS[line[0] ?? '']}><bdi>{showHidden(cutLine(line)) || ' '}</bdi></div>
                ))}
            </pre>
        </div>
    );
}
