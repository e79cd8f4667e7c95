import assert from 'node:assert/strict';
import test from 'node:test';
import { load } from '../support/load.mjs';

const c = await load('charts/curve.ts');
const p = await load('charts/paint.ts');
const s = await load('charts/scale.ts');
const k = await load('charts/ticks.ts');

const curve = (x, y, min = null, max = null) => ({ trialId: 1, x, t: x.map((v) => v * 1000), y, min, max, n: x.length });
const line = (id, x, y) => ({ id, label: `l${id}`, x, y, low: null, high: null });

test('smoothing begins at the first value and ignores what is no number', () => {
    assert.deepEqual(c.smooth([1, 2, 3], 0), [1, 2, 3]);
    const soft = c.smooth([1, 1, 1, 1], 0.9);
    soft.forEach((v) => assert.ok(Math.abs(v - 1) < 1e-12));
    const gap = c.smooth([1, NaN, 1], 0.5);
    assert.ok(Number.isNaN(gap[1]));
    assert.ok(Math.abs(gap[2] - 1) < 1e-12);
    const step = c.smooth([0, 1], 0.5);
    assert.ok(Math.abs(step[1] - 2 / 3) < 1e-12);
});

test('new points are added once, and replace what was taken back', () => {
    const old = curve([1, 2, 3], [10, 20, 30]);
    assert.deepEqual(c.appendCurve(old, curve([4, 5], [40, 50])).y, [10, 20, 30, 40, 50]);
    assert.deepEqual(c.appendCurve(old, curve([3, 4], [31, 40])).y, [10, 20, 31, 40]);
    assert.deepEqual(c.appendCurve(old, curve([2], [22])).x, [1, 2]);
    assert.equal(c.appendCurve(old, curve([], [])), old);
    const banded = c.appendCurve(curve([2], [2], [1], [3]), curve([3], [5]));
    assert.deepEqual([banded.min, banded.max], [[1, 5], [3, 5]]);
});

test('a curve that grows is thinned out, and keeps its extremes', () => {
    const n = 5000, x = Array.from({ length: n }, (_, i) => i), y = x.map((i) => (i === 1234 ? 99 : i === 4321 ? -99 : 0));
    const out = c.boundCurve(curve(x, y), 1000);
    assert.ok(out.x.length <= 1000 && out.x.length >= 500);
    assert.equal(Math.max(...out.max), 99);
    assert.equal(Math.min(...out.min), -99);
    assert.equal(out.x.at(-1), n - 1);
    assert.equal(c.halveCurve(curve([1, 2, 3], [NaN, 5, 7])).min[0], 5);
});

test('values between points are interpolated, beyond them there are none', () => {
    assert.equal(c.valueAt([0, 10], [0, 1], 5), 0.5);
    assert.equal(c.valueAt([0, 10], [0, 1], 10), 1);
    assert.ok(Number.isNaN(c.valueAt([0, 10], [0, 1], 11)));
    assert.ok(Number.isNaN(c.valueAt([0, 10], [0, 1], -1)));
    assert.ok(Number.isNaN(c.valueAt([], [], 0)));
});

test('groups have a mean and a deviation', () => {
    const groups = c.groupLines([line(1, [0, 10], [0, 0]), line(2, [0, 10], [2, 2]), line(3, [0, 10], [5, 5])], (id) => (id < 3 ? 'a' : 'b'));
    assert.deepEqual(groups.map((g) => g.label), ['a (2)', 'b (1)']);
    assert.equal(groups[0].y[0], 1);
    assert.equal(groups[0].low[0], 0);
    assert.equal(groups[0].high[0], 2);
    assert.equal(groups[1].low[0], 5);
    assert.equal(c.meanLine([line(1, [], [])], 1, 'x').x.length, 0);
});

test('process time leaves pauses out', () => {
    const runs = [[1000, 3000], [10_000, Infinity]];
    assert.equal(c.processTime(runs, 500), 0);
    assert.equal(c.processTime(runs, 2000), 1000);
    assert.equal(c.processTime(runs, 9000), 2000);
    assert.equal(c.processTime(runs, 11_000), 3000);
});

test('axes are batches, epochs and times', () => {
    const some = curve([10, 20], [1, 2]);
    const clock = { start: 5000, batchesPerEpoch: 10, runs: [[5000, Infinity]] };
    assert.deepEqual(c.axisValues(some, 'batch', clock), [10, 20]);
    assert.deepEqual(c.axisValues(some, 'epoch', clock), [1, 2]);
    assert.deepEqual(c.axisValues(some, 'wall', clock), [5, 15]);
    assert.deepEqual(c.axisValues(some, 'process', clock), [5, 15]);
    assert.deepEqual(c.axisValues(some, 'clock', clock), [10, 20]);
});

test('what is not finite comes as null', () => {
    const k = c.readCurve({ trialId: 1, group: 'g', name: 'n', x: [1, 2], t: [1, 2], last: [0.5, null], min: [0.1, null], n: 2, bucket: 1 });
    assert.equal(k.y[0], 0.5);
    assert.ok(Number.isNaN(k.y[1]));
    assert.ok(Number.isNaN(k.min[1]));
    assert.equal(k.max, null);
});

test('the picture has room for all that can be seen', () => {
    const lines = [line(1, [0, 1, 2, 3], [5, NaN, 1, 100])];
    assert.deepEqual(p.extent(lines, null, false).x, [0, 3]);
    const part = p.extent(lines, [0, 0.5], false);
    assert.deepEqual(part.x, [0, 0.5]);
    assert.ok(part.y[1] < 100);
    const log = p.extent([line(1, [0, 1], [-5, 10])], null, true);
    assert.ok(log.y[0] > 0);
    assert.deepEqual(p.extent([], null, false), { x: [0, 1], y: [0, 1] });
    const dot = p.extent([line(1, [7], [3])], null, false);
    assert.ok(dot.x[0] < 7 && dot.x[1] > 7 && dot.y[0] < 3 && dot.y[1] > 3);
});

test('the nearest line is found', () => {
    const v = { left: 0, top: 0, width: 100, height: 100, x: [0, 10], y: [0, 10], log: false };
    const lines = [line(1, [0, 10], [0, 0]), line(2, [0, 10], [10, 10])];
    assert.equal(p.nearest(lines, v, 2, 95, 40).line.id, 1);
    assert.equal(p.nearest(lines, v, 98, 3, 40).line.id, 2);
    assert.equal(p.nearest(lines, v, 50, 50, 10), null);
});

test('columns are placed on axes', () => {
    const linear = s.makeScale([1, 5, null, 'NaN']);
    assert.equal(linear.kind, 'linear');
    assert.equal(linear.place(3), 0.5);
    assert.ok(Number.isNaN(linear.place(null)));
    const log = s.makeScale([0.001, 10]);
    assert.equal(log.kind, 'log');
    assert.ok(Math.abs(log.place(0.1) - 0.5) < 1e-9);
    assert.ok(Math.abs(log.value(0.5) - 0.1) < 1e-9);
    const words = s.makeScale(['sgd', 'adam', 'sgd']);
    assert.deepEqual([words.kind, words.values, words.place('adam')], ['values', ['adam', 'sgd'], 0.25]);
    assert.equal(s.makeScale([3, 3]).place(3), 0.5);
    assert.equal(s.makeScale([]).kind, 'linear');
});

test('axes have round numbers and round times', () => {
    assert.deepEqual(k.numberTicks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
    assert.deepEqual(k.numberTicks(9.2, 10.8, 8, true), [10]);
    assert.deepEqual(k.numberTicks(-0.1, 0.3, 4), [-0.1, 0, 0.1, 0.2, 0.3]);
    assert.deepEqual(k.logTicks(0.001, 1, 5), [0.001, 0.01, 0.1, 1]);
    assert.deepEqual(k.logTicks(0.1, 2, 5), [0.1, 0.3, 1]);
    assert.ok(k.logTicks(1e-30, 1e30, 6).length <= 12);
    assert.deepEqual(k.timeTicks(0, 100, 4), [0, 30, 60, 90]);
    assert.deepEqual(k.timeTicks(0, 7200, 4), [0, 1800, 3600, 5400, 7200]);
    assert.deepEqual(k.timeTicks(86_400 * 10, 86_400 * 12, 2, 3600), [86_400 * 11 - 3600, 86_400 * 12 - 3600]);
});
