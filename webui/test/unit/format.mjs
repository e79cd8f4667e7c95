import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from '../support/load.mjs';

const f = await load('text/format.ts');
const { clip, showHidden } = await load('text/visible.ts');
const { stateOf } = await load('text/state.ts');
const { parseFilter } = await load('text/filter.ts');

function all(fn, rows) {
    for (const [x, wanted] of rows) assert.equal(fn(x), wanted, `${fn.name}(${x})`);
}

test('numbers have four significant digits', () => {
    all(f.formatNumber, [
        [0, '0'], [0.018234, '0.01823'], [1.5, '1.5'], [123.456, '123.5'], [12345.6, '12,346'], [1800, '1,800'], [999999, '999,999'],
        [1e6, '1e6'], [1234567, '1.235e6'], [0.00001234, '1.234e−5'], [-0.5, '−0.5'], ['NaN', 'NaN'], [NaN, 'NaN'], ['Infinity', '∞'],
        ['-Infinity', '−∞'], [null, '–'], [undefined, '–'], [0.1 + 0.2, '0.3'], [1e-300, '1e−300'], [-1e21, '−1e21'], [9999.96, '10,000'],
    ]);
});

test('what is counted keeps every digit', () => {
    all(f.formatCount, [[0, '0'], [1234567, '1,234,567'], [-5, '−5'], [NaN, '–'], [999, '999'], [1000, '1,000']]);
});

test('sizes have the unit that fits', () => {
    all(f.formatBytes, [[0, '0 bytes'], [1, '1 byte'], [999, '999 bytes'], [1000, '1 kB'], [1234567, '1.23 MB'], [12345678, '12.3 MB'], [999_999, '1 MB'], [5e15, '5 PB'], [NaN, '–']]);
});

test('durations are told in two units', () => {
    all(f.formatDuration, [
        [0, '0 ms'], [999, '999 ms'], [999.7, '1 s'], [1500, '1.5 s'], [38_400, '38 s'], [59_600, '1 min'], [252_000, '4 min 12 s'], [3_600_000, '1 h'],
        [3_900_000, '1 h 5 min'], [86_400_000, '1 d'], [100 * 3_600_000, '4 d 4 h'], [-5, '0 ms'], [NaN, '–'],
    ]);
});

test('times are told by their age', () => {
    const now = Date.parse('2026-03-05T12:00:00Z');
    for (const [ago, wanted] of [[500, 'now'], [-5000, 'now'], [5000, '5 s ago'], [240_000, '4 min ago'], [7_200_000, '2 h ago'], [47 * 3_600_000, '47 h ago'], [3 * 86_400_000, '3 d ago']])
        assert.equal(f.formatAgo(now - ago, now), wanted);
    assert.match(f.formatAgo(now - 90 * 86_400_000, now), /^2025-12-0\d$/);
    assert.equal(f.formatAgo(NaN, now), '–');
});

test('a time that was never is no time', () => {
    assert.ok(Number.isNaN(f.parseTime(null)));
    assert.ok(Number.isNaN(f.parseTime('')));
    assert.ok(Number.isNaN(f.parseTime('1970-01-01T00:00:00Z')));
    assert.equal(f.parseTime('2026-03-05T12:00:00Z'), 1772712000000);
});

test('controls and marks of direction are shown, not obeyed', () => {
    assert.equal(showHidden('a\u001b[31mb'), 'a␛[31mb');
    assert.equal(showHidden('a\u202eb'), 'a‹U+202E›b');
    assert.equal(showHidden('x\u0000y\u2066z'), 'x␀y‹U+2066›z');
    assert.equal(showHidden('tab\tand שלום'), 'tab\tand שלום');
    assert.equal(clip('one\n two'), 'one ⏎ two');
    assert.equal(clip('x'.repeat(1_000_000)).length, 501);
});

test('states have words, also those that are new', () => {
    assert.deepEqual(stateOf('STATE_ERROR'), { word: 'failed', sign: '✕', look: 'failed' });
    assert.equal(stateOf('STATE_SOMETHING_ELSE').word, 'something else');
});

test('a filter is words and bounds', () => {
    assert.deepEqual(parseFilter('mnist metric<0.03'), { words: 'mnist', bounds: [{ name: 'metric', op: '<', value: 0.03 }] });
    assert.deepEqual(parseFilter('a.b>=1e-3 two  words'), { words: 'two words', bounds: [{ name: 'a.b', op: '>', value: 0.001 }] });
    assert.deepEqual(parseFilter('x<'), { words: 'x<', bounds: [] });
    assert.deepEqual(parseFilter(''), { words: '', bounds: [] });
    assert.deepEqual(parseFilter('metric < -.5'), { words: '', bounds: [{ name: 'metric', op: '<', value: -0.5 }] });
});
