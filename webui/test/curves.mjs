// Curves: smoothing, axes, logarithms, groups, zooming with one cursor over all charts.
import assert from 'node:assert/strict';
import test from 'node:test';
import { waitFor } from './support/master.mjs';
import { files, random, single } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const LONG = `
from task import *
import random
ready()
n = operation()['op']['validateAfter']['length']
random.seed(1)
for first in range(1, n + 1, 500):
    call('POST', '/trials/%s/metrics' % trial, {'trialRunId': run, 'reports': [
        {'group': 'training', 'stepsCompleted': i, 'metrics': {'loss': 1000.0 / i + random.random(), 'speed': float(i % 7)}} for i in range(first, min(n, first + 499) + 1)]}, str(uuid.uuid4()))
report('validation', n, error=0.5)
checkpoint(n)
complete(n, 0.5)
`;

const s = suite({
    prepare: async (m) => {
        s.search = await m.create(random('groups', 8), files());
        s.long = await m.create(single('many points', 5000), { 'train.py': LONG });
        s.few = await m.create(single('few points', 20), files());
        for (const id of [s.search, s.long, s.few]) await m.waitExperiment(id, 'STATE_COMPLETED');
        [s.trial, s.longTrial] = [(await m.trials(s.few))[0], (await m.trials(s.long))[0]];
    },
});

const chart = (page, name) => page.locator('figure.chart').filter({ has: page.getByRole('heading', { name, exact: true }) });

// The numbers behind a chart: rows of [what stands at the left, values...].
async function numbers(figure) {
    const button = figure.getByRole('button', { name: 'Table' });
    if ((await button.getAttribute('aria-pressed')) !== 'true') await button.click();
    const rows = await figure.locator('.numbers tbody tr').evaluateAll((all) => all.map((r) => [...r.children].map((c) => c.textContent)));
    return rows.map(([at, ...values]) => [at, ...values.map((v) => Number(v.replace(/,/g, '').replace('−', '-').replace('e−', 'e-')))]);
}

const near = (a, b) => Math.abs(a - b) <= Math.max(Math.abs(b) * 6e-4, 1e-9);

async function reported(m, trial, name) {
    const { metrics } = await m.get(`trials/${trial}/metrics?group=training&limit=-1`);
    return metrics.map((r) => [r.stepsCompleted, r.metrics[name], Date.parse(r.reportTime)]);
}

test('curves show what was reported', async () => {
    await s.at(`/trials/${s.trial.id}`, async (page) => {
        const wanted = await reported(s.master, s.trial.id, 'loss');
        const got = await waitFor(async () => { const n = await numbers(chart(page, 'loss')); return n.length === 20 && n; }, 'the points');
        got.forEach(([at, value], i) => {
            assert.equal(at, `${wanted[i][0]} batches`);
            assert.ok(near(value, wanted[i][1]), `${value} is not ${wanted[i][1]}`);
        });
    });
});

test('smoothing draws a moving average, and the address knows it', async () => {
    await s.at(`/trials/${s.trial.id}`, async (page) => {
        const raw = (await reported(s.master, s.trial.id, 'loss')).map((r) => r[1]);
        const slider = page.getByLabel('smooth');
        await slider.focus();
        await slider.fill('0.8');
        let sum = 0, norm = 0;
        const soft = raw.map((v) => { sum = sum * 0.8 + 0.2 * v; norm = norm * 0.8 + 0.2; return sum / norm; });
        await waitFor(async () => (await numbers(chart(page, 'loss'))).every(([, v], i) => near(v, soft[i])), 'the smoothed values');
        assert.match(page.url(), /smooth=0\.8/);
    });
});

test('axes are batches, wall time, process time and the clock', async () => {
    await s.at(`/trials/${s.trial.id}`, async (page) => {
        const wanted = await reported(s.master, s.trial.id, 'loss');
        const { runs } = await s.master.get(`trials/${s.trial.id}/runs`);
        const choose = async (name) => {
            await page.getByRole('button', { name: /^axis/ }).click();
            await page.getByRole('menuitemcheckbox', { name, exact: true }).click();
            await page.keyboard.press('Escape');
        };
        const seconds = (text) => Number(/^([\d.]+) (ms|s)/.exec(text)?.[1]) / (/ ms/.test(text) ? 1000 : 1);
        for (const [name, start] of [['wall time', Date.parse(s.trial.startTime)], ['process time', Date.parse(runs[0].startTime)]]) {
            await choose(name);
            const got = await waitFor(async () => { const n = await numbers(chart(page, 'loss')); return / m?s$/.test(n[0]?.[0] ?? '') && n.length >= 10 && n; }, name);
            const last = seconds(got.at(-1)[0]), exact = (wanted.at(-1)[2] - start) / 1000;
            assert.ok(Math.abs(last - exact) <= 0.06 + exact * 0.01, `${name}: ${last} is not ${exact}`);
        }
        await choose('clock');
        await waitFor(async () => /^\d{4}-\d\d-\d\d \d\d:/.test((await numbers(chart(page, 'loss')))[0]?.[0] ?? ''), 'the clock');
        await page.getByRole('button', { name: /^axis/ }).click();
        const epochs = page.getByRole('menuitemcheckbox', { name: 'epochs' });
        assert.equal(await epochs.getAttribute('aria-disabled'), 'true');
        assert.match(await epochs.getAttribute('title'), /epoch is not known/);
    });
});

test('epochs are an axis when their length is known', async () => {
    const config = single('epochs', 20, ', global_batch_size: 10').replace('max_restarts', 'records_per_epoch: 50\nmax_restarts');
    const id = await s.master.create(config, files());
    await s.master.waitExperiment(id, 'STATE_COMPLETED');
    await s.at(`/experiments/${id}/curves?axis=epoch`, async (page) => {
        const got = await waitFor(async () => { const n = await numbers(chart(page, 'loss')); return n.length === 20 && n; }, 'the points');
        assert.equal(got.at(-1)[0], '4 epochs');
    });
});

test('a logarithmic axis is a choice that the address knows', async () => {
    await s.at(`/experiments/${s.search}/curves`, async (page) => {
        await chart(page, 'loss').waitFor();
        await page.getByLabel('log y').check();
        assert.match(page.url(), /log=1/);
    });
});

test('trials are grouped by a hyperparameter: mean and deviation, or all traces', async () => {
    await s.at(`/experiments/${s.search}/curves?show=all`, async (page) => {
        const loss = chart(page, 'loss');
        await waitFor(async () => /, 8\./.test(await loss.locator('.plot').getAttribute('aria-label')), 'eight curves');
        await page.getByRole('button', { name: 'group' }).click();
        await page.getByRole('menuitemcheckbox', { name: 'optimizer' }).click();
        await page.keyboard.press('Escape');
        await waitFor(async () => /, 2\./.test(await loss.locator('.plot').getAttribute('aria-label')), 'two groups');
        const titles = await (async () => { await numbers(loss); return loss.locator('.numbers th').allTextContents(); })();
        const trials = await s.master.trials(s.search);
        for (const kind of ['adam', 'sgd'])
            assert.ok(titles.includes(`optimizer ${kind} (${trials.filter((t) => t.hparams.optimizer === kind).length})`), titles.join());
        const wanted = [];
        for (const t of trials.filter((x) => x.hparams.optimizer === 'adam')) wanted.push((await reported(s.master, t.id, 'loss'))[0][1]);
        const [, first] = (await numbers(loss))[0];
        assert.ok(near(first, wanted.reduce((a, b) => a + b, 0) / wanted.length), 'the mean');
        await page.getByLabel('all traces').check();
        await waitFor(async () => /, 8\./.test(await loss.locator('.plot').getAttribute('aria-label')), 'all traces');
    });
});

test('a part that is zoomed to is read again, finer; all charts follow, with one cursor', async () => {
    await s.at(`/trials/${s.longTrial.id}`, async (page) => {
        const loss = chart(page, 'loss'), speed = chart(page, 'speed'), plot = loss.locator('.plot');
        const whole = await waitFor(async () => { const n = await numbers(loss); return n.length > 50 && n; }, 'the whole curve');
        await loss.getByRole('button', { name: 'Table' }).click();
        const box = await plot.boundingBox();
        const requests = [];
        page.on('request', (r) => { if (r.url().includes('/series')) requests.push(new URL(r.url()).searchParams); });
        await page.mouse.move(box.x + box.width * 0.5, box.y + 80);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.6, box.y + 80, { steps: 4 });
        await page.mouse.up();
        await page.waitForURL((u) => u.searchParams.has('zoom'));
        const [from, to] = new URL(page.url()).searchParams.get('zoom').split(';').map(Number);
        assert.ok(from > 2000 && to < 3500 && to - from < 800, `${from} to ${to}`);
        await waitFor(() => requests.some((q) => Number(q.get('from')) > 2000), 'a finer request');
        const part = await waitFor(async () => { const n = await numbers(loss); return parseInt(n[0]?.[0].replace(',', ''), 10) >= Math.floor(from) && n; }, 'the finer points');
        const step = (n) => parseInt(n[1][0].replace(',', ''), 10) - parseInt(n[0][0].replace(',', ''), 10);
        assert.ok(step(part) < step(whole), 'it is not finer');
        await speed.getByRole('button', { name: 'Whole range' }).waitFor();
        const inner = await plot.boundingBox();
        for (let y = 10; y < inner.height - 30 && !(await loss.locator('.tip').count()); y += 20) await page.mouse.move(inner.x + inner.width / 2, inner.y + y);
        await loss.locator('.tip').getByText(`trial ${s.longTrial.id}`).waitFor();
        await speed.locator('.cursor:not([hidden])').waitFor();
        await speed.getByRole('button', { name: 'Whole range' }).click();
        await page.waitForURL((u) => !u.searchParams.has('zoom'));
    });
});

test('the picture is moved with Shift, and by keys', async () => {
    await s.at(`/trials/${s.longTrial.id}?zoom=2000;3000`, async (page) => {
        const plot = chart(page, 'loss').locator('.plot');
        await waitFor(async () => /, 1\./.test(await plot.getAttribute('aria-label')), 'the curve');
        const box = await plot.boundingBox();
        await page.keyboard.down('Shift');
        await page.mouse.move(box.x + box.width * 0.7, box.y + 80);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.3, box.y + 80, { steps: 8 });
        await page.mouse.up();
        await page.keyboard.up('Shift');
        const zoom = () => new URL(page.url()).searchParams.get('zoom')?.split(';').map(Number);
        await waitFor(() => zoom()[0] > 2200, 'the picture to move');
        assert.ok(Math.abs(zoom()[1] - zoom()[0] - 1000) < 1, 'the size stays');
        const [before] = zoom();
        await plot.focus();
        await page.keyboard.press('ArrowLeft');
        await waitFor(() => zoom()[0] < before, 'moving left');
        await page.keyboard.press('+');
        await waitFor(() => zoom()[1] - zoom()[0] < 600, 'zooming in');
        await page.keyboard.press('0');
        await waitFor(() => !zoom(), 'everything');
    });
});
