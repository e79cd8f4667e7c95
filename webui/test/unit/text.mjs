import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from '../support/load.mjs';

const { parseAnsi, stripAnsi } = await load('text/ansi.ts');
const { tokenize } = await load('editor/yaml.ts');
const { offsetOf, indentAfter } = await load('editor/place.ts');
const { makeTar } = await load('editor/tar.ts');
const { toCsv, toLatex } = await load('table/export.ts');
const { EventParser } = await load('api/feed.ts');

test('colours of terminals are kept, other sequences left out', () => {
    const spans = parseAnsi('a\u001b[31;1mred\u001b[0m b\n');
    assert.deepEqual(spans.map((s) => [s.text, s.fg, s.bold]), [['a', -1, false], ['red', 1, true], [' b', -1, false]]);
    assert.equal(stripAnsi('\u001b[2J\u001b[1;1Hx\u001b]0;title\u0007y\u001b]8;;http://e\u001b\\z'), 'xyz');
    assert.equal(stripAnsi('\u001b[38;5;196mx\u001b[48;2;1;2;3my'), 'xy');
    assert.equal(parseAnsi('\u001b[38;5;196mx')[0].fg, 9);
    assert.equal(parseAnsi('\u001b[38;2;0;200;0mx')[0].fg % 8, 2);
    assert.equal(parseAnsi('\u001b[97mx\u001b[39my')[1].fg, -1);
    assert.equal(stripAnsi('10 %\r20 %\r100 %\n'), '100 %');
    assert.equal(stripAnsi('unfinished \u001b['), 'unfinished ');
    assert.deepEqual(parseAnsi(''), []);
});

test('sequences without an end do no harm', () => {
    const hostile = '\u001b['.repeat(50_000) + '\u001b[38;5'.repeat(10_000) + '\u001b[0mx';
    assert.equal(stripAnsi(hostile).at(-1), 'x');
});

test('YAML has keys, texts, numbers and comments', () => {
    const kinds = (text) => tokenize(text).filter((t) => t.kind !== 'plain').map((t) => [t.kind, t.text]);
    assert.deepEqual(kinds('name: mnist # digits'), [['key', 'name'], ['sign', ':'], ['comment', '# digits']]);
    assert.deepEqual(kinds('  lr: {minval: -4, vals: ["a", true]}'),
                     [['key', 'lr'], ['sign', ':'], ['sign', '{'], ['key', 'minval'], ['sign', ':'], ['number', '-4'], ['sign', ','], ['key', 'vals'], ['sign', ':'],
                      ['sign', '['], ['text', '"a"'], ['sign', ','], ['word', 'true'], ['sign', ']'], ['sign', '}']]);
    assert.equal(tokenize('entrypoint: model:Trial#1').map((t) => t.text).join(''), 'entrypoint: model:Trial#1');
    for (const text of ['', '   ', '"open', "'", '- - x', '#', ':::', '{[}]'])
        assert.equal(tokenize(text).map((t) => t.text).join(''), text);
});

test('places of a text are found by line and column', () => {
    const text = 'a: 1\nbb: 2\n\nc';
    assert.equal(offsetOf(text, 2, 5), 9);
    assert.equal(offsetOf(text, 2, 99), 10);
    assert.equal(offsetOf(text, 4, 1), 12);
    assert.equal(offsetOf(text, 99, 1), text.length);
    assert.equal(indentAfter('searcher:\n', 9), '  ');
    assert.equal(indentAfter('  name: x', 9), '  ');
});

test('a tar file has the bytes of its files', () => {
    const tar = makeTar([{ path: 'a.py', bytes: new TextEncoder().encode('print(1)\n') }, { path: `${'d/'.repeat(60)}f`, bytes: new Uint8Array(600) }]);
    assert.equal(tar.length % 512, 0);
    const text = new TextDecoder().decode(tar);
    assert.equal(text.slice(0, 4), 'a.py');
    assert.equal(text.slice(512, 521), 'print(1)\n');
    assert.equal(text.slice(257, 262), 'ustar');
    const head = tar.slice(0, 512), sum = parseInt(text.slice(148, 154), 8);
    head.fill(32, 148, 156);
    assert.equal(head.reduce((a, b) => a + b, 0), sum);
    assert.throws(() => makeTar([{ path: 'x'.repeat(300), bytes: new Uint8Array() }]), /too long/);
});

const columns = [{ title: 'name', text: (r) => r.name }, { title: 'lr & co', right: true, text: (r) => r.lr }];

test('CSV is quoted, and is no formula', () => {
    const text = toCsv(columns, [{ name: 'a,"b"', lr: '0.1' }, { name: '=cmd|x', lr: '−0.5' }, { name: '-1', lr: '@x' }]);
    assert.equal(text, 'name,lr & co\r\n"a,""b""",0.1\r\n\'=cmd|x,-0.5\r\n-1,\'@x\r\n');
});

test('LaTeX has no signs that mean something', () => {
    const text = toLatex(columns, [{ name: 'a_b%\\{x}', lr: '1e−5' }]);
    assert.match(text, /\\begin\{tabular\}\{lr\}/);
    assert.match(text, /a\\_b\\%\\textbackslash\{\}\\\{x\\\} & 1e\$-\$5 \\\\/);
    assert.match(text, /lr \\& co/);
});

test('events are taken apart wherever they are cut', () => {
    const text = ': hello\n\nid: 7\nevent: trial\ndata: {"a":\ndata: 1}\n\nevent: x\ndata: {}\nid: 8\n\n';
    for (let cut = 0; cut < text.length; cut++) {
        const parser = new EventParser(), got = [];
        for (const part of [text.slice(0, cut), text.slice(cut)]) parser.push(part, (name, data) => got.push([name, data]));
        assert.deepEqual(got, [['trial', '{"a":\n1}'], ['x', '{}']]);
        assert.equal(parser.lastId, '8');
    }
});

const { joinList, splitList, toggleItem } = await load('text/list.ts');
const { parseBlocks, parseSpans } = await load('text/markdown.ts');

test('lists are one text, whatever is in them', () => {
    for (const items of [[], ['a'], ['a', 'b'], ['a,b', 'c'], ['\\', ',', '\\,', 'x\\'], ['ü:;|']]) assert.deepEqual(splitList(joinList(items)), items);
    assert.deepEqual(splitList('a,,b,'), ['a', 'b']);
    assert.equal(joinList([1, 2]), '1,2');
    assert.deepEqual(toggleItem(['a'], 'b'), ['a', 'b']);
    assert.deepEqual(toggleItem(['a', 'b'], 'a'), ['b']);
});

test('notes: blocks of Markdown', () => {
    const blocks = parseBlocks('# Head\ntext\nmore\n\n- one\n- two\n1. first\n> said\n```\n# no head\n\n  x\n```\nend');
    assert.deepEqual(blocks, [
        { kind: 'heading', lines: ['Head'] }, { kind: 'text', lines: ['text', 'more'] }, { kind: 'list', lines: ['one', 'two'] },
        { kind: 'numbers', lines: ['first'] }, { kind: 'quote', lines: ['said'] }, { kind: 'code', lines: ['# no head', '', '  x'] }, { kind: 'text', lines: ['end'] },
    ]);
    assert.deepEqual(parseBlocks(''), []);
});

test('notes: spans of Markdown; only the web is linked to', () => {
    const kinds = (text) => parseSpans(text).map((s) => `${s.kind}:${s.text}${s.url ? `>${s.url}` : ''}`);
    assert.deepEqual(kinds('a **b** *c* `d*e*`'), ['text:a ', 'strong:b', 'text: ', 'em:c', 'text: ', 'code:d*e*']);
    assert.deepEqual(kinds('see https://a.b/c?d=1.'), ['text:see ', 'link:https://a.b/c?d=1>https://a.b/c?d=1', 'text:.']);
    assert.deepEqual(kinds('[x](https://a.b)'), ['link:x>https://a.b']);
    for (const bad of ['[x](javascript:alert(1))', '[x](data:text/html,y)', '[x](//evil)', 'javascript:alert(1)', '<a href=x>']) assert.ok(!kinds(bad).some((k) => k.startsWith('link')), bad);
    assert.deepEqual(kinds('2 * 3 * 4'), ['text:2 * 3 * 4']);
    const long = '*'.repeat(50_000);
    assert.equal(parseSpans(long).map((s) => s.text).join('').length <= 50_000, true);
});
