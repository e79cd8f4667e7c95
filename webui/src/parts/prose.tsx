// Unit prose.tsx: notes as people write them, with the part of Markdown that they use: headings, lists, code, emphasis,
// links. It becomes elements, never HTML; what is no Markdown is shown as it is.
import type { ComponentChild } from 'preact';
import { showHidden } from '../text/visible.ts';
import { parseBlocks, parseSpans, type Block, type TextSpan } from '../text/markdown.ts';

function Span({ span }: { span: TextSpan }) {
    switch (span.kind) {
    case 'code':
        return <code>{showHidden(span.text)}</code>;
    case 'strong':
        return <strong><Spans text={span.text} /></strong>;
    case 'em':
        return <em><Spans text={span.text} /></em>;
    case 'link':
        return <a href={span.url!} target="_blank" rel="noreferrer noopener">{showHidden(span.text)}</a>;
    case 'text':
        return <>{showHidden(span.text)}</>;
    }
}

function Spans({ text }: { text: string }) {
    return <>{parseSpans(text).map((s, i) => <Span key={i} span={s} />)}</>;
}

const BLOCKS: Record<Block['kind'], (b: Block, key: number) => ComponentChild> = {
    heading: (b, key) => <h2 key={key}><Spans text={b.lines[0]!} /></h2>,
    code: (b, key) => <pre key={key} class="lines">{showHidden(b.lines.join('\n'))}</pre>,
    list: (b, key) => <ul key={key}>{b.lines.map((line, i) => <li key={i}><Spans text={line} /></li>)}</ul>,
    numbers: (b, key) => <ol key={key}>{b.lines.map((line, i) => <li key={i}><Spans text={line} /></li>)}</ol>,
    quote: (b, key) => <blockquote key={key}><Spans text={b.lines.join('\n')} /></blockquote>,
    text: (b, key) => <p key={key}><Spans text={b.lines.join('\n')} /></p>,
};

export function Prose({ text }: { text: string }) {
    return <bdi class="prose">{parseBlocks(text).map((b, i) => BLOCKS[b.kind](b, i))}</bdi>;
}
