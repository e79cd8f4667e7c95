// Unit yaml.ts: colours for YAML: which part of a line is a key, a text, a number, a comment. Good enough to read by; what
// is wrong with a configuration is said by the master. Pure.

export type Kind = 'key' | 'text' | 'number' | 'word' | 'comment' | 'sign' | 'plain';

export interface Token {
    kind: Kind;
    text: string;
}

const RULES: [Kind, RegExp][] = [
    ['comment', /^(?:^|(?<=\s))#.*$/],
    ['text', /^"(?:[^"\\]|\\.)*"?/],
    ['text', /^'(?:[^']|'')*'?/],
    ['key', /^[^\s#"'{}[\],:&*!|>-][^#"'{}[\],:]*(?=:(?:\s|$))/],
    ['number', /^[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[-+]?\d+)?(?=[\s,\]}]|$)/i],
    ['word', /^(?:true|false|null|yes|no|~)(?=[\s,\]}]|$)/],
    ['sign', /^(?:[{}[\],|>]|:(?=\s|$)|-(?=\s|$))/],
];

export function tokenize(line: string): Token[] {
    const out: Token[] = [];
    let rest = line, before = '';
    while (rest) {
        const found = match(rest, before);
        const last = out.at(-1);
        if (last && last.kind === 'plain' && found.kind === 'plain') last.text += found.text;
        else out.push(found);
        rest = rest.slice(found.text.length);
        before = found.text;
    }
    return out;
}

function match(rest: string, before: string): Token {
    const space = /^\s+/.exec(rest);
    if (space) return { kind: 'plain', text: space[0] };
    for (const [kind, rule] of RULES) {
        if (kind === 'comment' && before && !/\s$/.test(before)) continue;
        if (kind === 'number' && before && !/[\s,[{]$/.test(before)) continue;
        const found = rule.exec(rest);
        if (found?.[0]) return { kind, text: found[0] };
    }
    const plain = /^[^\s#"'{}[\],:]+|^./.exec(rest)!;
    return { kind: 'plain', text: plain[0] };
}
