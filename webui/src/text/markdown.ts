// Unit markdown.ts: the part of Markdown that notes use. Pure; shown by parts/prose.tsx.

export interface Block {
    kind: 'heading' | 'code' | 'list' | 'numbers' | 'quote' | 'text';
    lines: string[];
}

export interface TextSpan {
    kind: 'text' | 'code' | 'strong' | 'em' | 'link';
    text: string;
    url?: string;
}

// How a line begins, and what is left of it.
const STARTS: [Block['kind'], RegExp][] = [
    ['heading', /^#{1,6}\s+(.*)$/], ['list', /^\s*[-*+]\s+(.*)$/], ['numbers', /^\s*\d{1,9}[.)]\s+(.*)$/], ['quote', /^>\s?(.*)$/],
];

export function parseBlocks(text: string): Block[] {
    const blocks: Block[] = [];
    let isOpen = false, isFenced = false; // of the last block: whether lines belong to it
    const add = (kind: Block['kind'], line: string): void => {
        const last = blocks.at(-1);
        if (isOpen && last?.kind === kind) last.lines.push(line);
        else blocks.push({ kind, lines: [line] });
        isOpen = kind !== 'heading';
    };
    for (const line of text.replace(/\r\n?/g, '\n').split('\n')) {
        if (/^\s*```/.test(line)) {
            isFenced = !isFenced;
            isOpen = false;
        } else if (isFenced) add('code', line);
        else if (line.trim()) add(...startOf(line));
        else isOpen = false;
    }
    return blocks;
}

function startOf(line: string): [Block['kind'], string] {
    for (const [kind, rule] of STARTS) {
        const found = rule.exec(line);
        if (found) return [kind, found[1]!];
    }
    return ['text', line];
}

const SPAN = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:\/\/[^\s()]+)\)|(https?:\/\/[^\s<>"'()]+[^\s<>"'().,;:!?])/g;

// Links lead to the web only: no other scheme is one.
export function parseSpans(text: string): TextSpan[] {
    const spans: TextSpan[] = [];
    let last = 0;
    for (const m of text.matchAll(SPAN)) {
        if (m.index > last) spans.push({ kind: 'text', text: text.slice(last, m.index) });
        last = m.index + m[0].length;
        const [, code, strong, em, label, to, plain] = m;
        if (code) spans.push({ kind: 'code', text: code });
        else if (strong) spans.push({ kind: 'strong', text: strong });
        else if (em) spans.push({ kind: 'em', text: em });
        else spans.push({ kind: 'link', text: label ?? plain!, url: to ?? plain! });
    }
    if (last < text.length) spans.push({ kind: 'text', text: text.slice(last) });
    return spans;
}
