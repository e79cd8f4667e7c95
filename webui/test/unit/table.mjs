import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from '../support/load.mjs';

const o = await load('table/order.ts');
const w = await load('table/window.ts');
const { ladderRows, placeRows } = await load('charts/rungs.ts');
const { lostPart } = await load('charts/runs.ts');
const { placeOf } = await load('log/store.ts');
const { Trials, groupNames } = await load('state/trials.ts');

test('rows are sorted by number, then text; what is missing comes last', () => {
    const values = [3, null, 1, 'NaN', 2];
    const sort = (down) => o.sortRows([0, 1, 2, 3, 4], (i) => values[i], down).map((i) => values[i]);
    assert.deepEqual(sort(false), [1, 2, 3, null, 'NaN']);
    assert.deepEqual(sort(true), [3, 2, 1, null, 'NaN']);
    assert.deepEqual(o.sortRows([0, 1, 2], (i) => ['b10', 'b9', 'a'][i], false), [2, 1, 0]);
});

test('brushes survive the address bar', () => {
    const brushes = [
        { column: 'hparams.lr', low: 0.01, high: Infinity, values: null },
        { column: 'hparams.a:b,c', low: -Infinity, high: Infinity, values: ['x|y', 'z,w', ''] },
    ];
    assert.deepEqual(o.parseBrushes(o.formatBrushes(brushes)), brushes);
    assert.deepEqual(o.parseBrushes(''), []);
    assert.deepEqual(o.parseBrushes('nonsense'), []);
});

test('a brush lets through what lies in it', () => {
    const [range] = o.parseBrushes('x:1;2'), [values] = o.parseBrushes('x:true|a');
    assert.deepEqual([1, 2, 0.9, null, 'z'].map((v) => o.passes(range, v)), [true, true, false, false, false]);
    assert.deepEqual([true, 'a', 'b', null].map((v) => o.passes(values, v)), [true, true, false, false]);
});

test('only some rows are in the DOM', () => {
    for (const top of [0, 5, 1000, 279_000, 1e9]) {
        const r = w.visibleRange(top, 800, 28, 10_000);
        assert.ok(r.end - r.first <= 60 && r.first >= 0 && r.end <= 10_000, JSON.stringify(r));
    }
    assert.deepEqual(w.visibleRange(0, 800, 28, 0), { first: 0, end: 0 });
    const middle = w.visibleRange(2800, 280, 28, 10_000);
    assert.ok(middle.first <= 100 && middle.end >= 111);
});

test('a long log is scrolled by proportion, to its very end', () => {
    const scale = w.scrollScale(1_000_000, 18, 700);
    assert.equal(scale.pixels, w.MAX_PIXELS);
    assert.equal(Math.round((scale.pixels - 700) * scale.ratio), 1_000_000 * 18 - 700);
    assert.deepEqual(w.scrollScale(100, 18, 700), { pixels: 1800, ratio: 1 });
});

test('lines are read from the mark before them', () => {
    const marks = [[0, 17], [500, 900], [1000, 2000]];
    assert.deepEqual(placeOf(marks, 0), { after: 16, offset: 0 });
    assert.deepEqual(placeOf(marks, 499), { after: 16, offset: 499 });
    assert.deepEqual(placeOf(marks, 500), { after: 899, offset: 0 });
    assert.deepEqual(placeOf(marks, 1200), { after: 1999, offset: 200 });
    assert.deepEqual(placeOf([], 3), { after: 0, offset: 3 });
});

test('a ladder has its longest rung on top and the best trials first', () => {
    const rows = ladderRows({
        method: 'asha', metric: 'e', smallerIsBetter: true,
        brackets: [{ rungs: [
            { length: 10, cutoff: 0.2, trials: [{ trialId: 1, metric: 0.3, decision: 'stopped' }, { trialId: 2, metric: 0.1, decision: 'promoted' }, { trialId: 3, metric: 'NaN', decision: 'running' }] },
            { length: 40, trials: [{ trialId: 2, metric: 0.05, decision: 'running' }] },
        ] }],
    });
    assert.deepEqual(rows.map((r) => r.label), ['40', '10']);
    assert.deepEqual(rows[1].dots.map((d) => d.trialId), [2, 1, 3]);
    assert.equal(rows[1].cut, 1);
    assert.equal(rows[0].cut, -1);
    const many = placeRows([{ bracket: -1, label: '10', cutoff: NaN, cut: -1, dots: Array.from({ length: 10_000 }, () => ({})) }], 800);
    assert.ok(many.height < 300, String(many.height));
});

test('the lost part of a run is what the next one did again', () => {
    const run = { run: 1, state: '', startTime: '', endTime: '', fromBatch: 0, toBatch: 100 };
    assert.equal(lostPart({ ...run, rolledBackTo: 80 }), 0.2);
    assert.equal(lostPart({ ...run, rolledBackTo: null }), 0);
    assert.equal(lostPart({ ...run, toBatch: 0, rolledBackTo: 0 }), 0);
});

test('rows of trials follow their events', () => {
    const t = new Trials();
    t.read({ total: 2, columns: [
        { name: 'id', values: [7, 8] }, { name: 'number', values: [1, 2] }, { name: 'state', values: ['STATE_ACTIVE', 'STATE_ACTIVE'] }, { name: 'metric', values: [null, 0.5] },
        { name: 'hparams.lr', values: [0.1, 0.2] }, { name: 'hparams.same', values: [1, 1] }, { name: 'validation.e:last', values: [null, 0.5] },
    ] });
    assert.deepEqual(t.varied, ['hparams.lr']);
    const event = { id: 9, number: 3, state: 'STATE_ACTIVE', hparams: { lr: 0.3, same: 1, net: { depth: 2 } }, searcherMetricValue: 0.2, latestValidation: { metrics: { avgMetrics: { e: 0.2 } } } };
    t.patch(event);
    assert.equal(t.count, 3);
    assert.equal(t.value('hparams.net.depth', 2), 2);
    assert.equal(t.value('validation.e:last', 2), 0.2);
    assert.deepEqual(t.ranked(true).map((r) => t.idAt(r)), [9, 8, 7]);
    assert.deepEqual(t.ranked(false).map((r) => t.idAt(r)), [8, 9, 7]);
    t.patch({ ...event, state: 'STATE_COMPLETED' });
    assert.equal(t.count, 3);
    assert.equal(t.text('state', 2), 'STATE_COMPLETED');
});

test('many numbers are grouped by quarters, few values by themselves', () => {
    const few = groupNames(['a', 'b', 0.1]);
    assert.deepEqual([few('a'), few(0.1)], ['a', '0.1']);
    const many = groupNames(Array.from({ length: 100 }, (_, i) => i));
    assert.equal(many(3), '0 to 25');
    assert.equal(many(99), '75 to 99');
    assert.equal(new Set(Array.from({ length: 100 }, (_, i) => many(i))).size, 4);
});
