// The master dies and comes back, the network is cut, a computer sleeps: pages say so, go on by themselves and lose nothing.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { visit } from './support/browser.mjs';
import { waitFor } from './support/master.mjs';
import { chart, numbers } from './support/pages.mjs';
import { files, single } from './support/programs.mjs';
import { suite } from './support/suite.mjs';
import { Wire } from './support/wire.mjs';

const s = suite();
const allow = (batches) => writeFileSync(join(s.master.data, 'checkpoints', 'go'), String(batches));
const LOST = /The master has not answered since/;

async function growing(name, batches) {
    allow(10);
    const id = await s.master.create(single(name, batches, ', stepwise: true'), files());
    const trial = await waitFor(async () => (await s.master.trials(id))[0], 'a trial');
    return { id, trial: trial.id };
}

// The chart has every point that was reported, as it was reported.
async function hasAllPoints(page, trial, count) {
    const loss = chart(page, 'loss');
    await waitFor(async () => (await numbers(loss)).length === count, `${count} points`);
    const reported = (await s.master.get(`trials/${trial}/metrics?group=training&limit=-1`)).metrics, shown = await numbers(loss);
    assert.equal(reported.length, count);
    reported.forEach((r, i) => {
        assert.equal(shown[i][0], `${r.stepsCompleted} batches`);
        assert.ok(Math.abs(shown[i][1] - r.metrics.loss) <= Math.abs(r.metrics.loss) * 6e-4, `batch ${r.stepsCompleted}`);
    });
}

test('the master is killed and started again under an open page: nothing of a curve is lost', async () => {
    const { id, trial } = await growing('through a kill', 40);
    await s.at(`/trials/${trial}`, async (page, visitor) => {
        const list = await visitor.open('/experiments');
        await list.getByText('through a kill').waitFor();
        await hasAllPoints(page, trial, 10);
        await s.master.kill();
        await page.getByText(LOST).waitFor();
        await list.getByText(LOST).waitFor();
        assert.equal((await numbers(chart(page, 'loss'))).length, 10); // what was read stays
        allow(40); // the task goes on without a master
        await s.master.start();
        await waitFor(async () => !(await page.getByText(LOST).count()), 'the page to see that the master is back');
        await hasAllPoints(page, trial, 40);
        await s.master.waitExperiment(id, 'STATE_COMPLETED');
        await page.locator('.head').getByText('completed').waitFor();
        await list.locator('tbody tr').filter({ hasText: 'through a kill' }).getByText('completed').waitFor();
        assert.equal(await list.getByText(LOST).count(), 0);
    });
});

test('somebody who acts while the master is away is told that it was not done', async () => {
    const { id } = await growing('not paused', 20);
    await s.at(`/experiments/${id}`, async (page) => {
        await page.getByRole('button', { name: 'Pause' }).waitFor();
        await s.master.kill();
        await page.getByRole('button', { name: 'Pause' }).click();
        await page.locator('.news [data-bad]').getByText('the master does not answer').waitFor();
        await s.master.start();
        await waitFor(async () => !(await page.getByText(LOST).count()), 'the master');
        assert.equal((await s.master.experiment(id)).state, 'STATE_ACTIVE');
        allow(20);
        await s.master.waitExperiment(id, 'STATE_COMPLETED');
    });
});

test('a page that is opened while the master is away loads when it is back', async () => {
    await s.at('/experiments', async (page) => {
        await page.getByText('through a kill').waitFor();
        await s.master.kill();
        await page.getByRole('link', { name: 'Queue' }).click();
        await page.getByText(LOST).waitFor();
        await s.master.start();
        await page.getByRole('heading', { name: 'Queue and slots' }).waitFor();
        await waitFor(async () => !(await page.getByText(LOST).count()), 'the banner to go');
        await page.getByText('Nothing runs, nothing waits.').waitFor();
    });
});

// A page at the end of a wire, and the wire.
async function wired(path, use, { clock = false } = {}) {
    const wire = await new Wire(s.master).open();
    const visitor = await visit(s.browser, s.master);
    if (clock) { // that of a worker cannot be turned
        await visitor.context.clock.install();
        await visitor.context.addInitScript(() => { delete globalThis.SharedWorker; });
    }
    try {
        await use(await visitor.open(path, wire.url), wire, visitor);
        await visitor.close();
    } finally {
        wire.close();
    }
}

test('a page that slept for an hour catches up', async () => {
    const { id, trial } = await growing('slept through', 50);
    await wired(`/trials/${trial}`, async (page, wire, visitor) => {
        await hasAllPoints(page, trial, 10);
        wire.deaden(); // asleep: connections look open, and nothing comes
        allow(50);
        await s.master.waitExperiment(id, 'STATE_COMPLETED');
        await visitor.context.clock.fastForward('01:00:00');
        await hasAllPoints(page, trial, 50);
        await page.locator('.head').getByText('completed').waitFor();
    }, { clock: true });
});

test('who was away for more than the master remembers reads everything again', async () => {
    const id = await s.master.create(single('many names', 10), files(), { activate: false });
    await wired('/experiments', async (page, wire) => {
        await page.getByText('many names').waitFor();
        wire.cut();
        await page.getByText(LOST).waitFor();
        await s.master.call('PATCH', `experiments/${id}`, { name: 'another name' });
        await s.master.kill(); // a new one remembers nothing
        await s.master.start();
        wire.mend();
        await page.getByText('another name').waitFor();
        await waitFor(async () => !(await page.getByText(LOST).count()), 'the banner to go');
        await s.master.call('PATCH', `experiments/${id}`, { name: 'a third name' });
        await page.getByText('a third name').waitFor();
    });
});

test('a short cut of the wire is made good by what the master remembers', async () => {
    const id = await s.master.create(single('cut', 10), files(), { activate: false });
    await wired('/experiments', async (page, wire) => {
        await page.getByText('cut', { exact: true }).waitFor();
        for (let i = 0; i < 3; i++) {
            wire.cut();
            await s.master.call('PATCH', `experiments/${id}`, { name: `renamed ${i}` });
            wire.mend();
            await page.getByText(`renamed ${i}`).waitFor();
        }
    });
});

test('several tabs share one stream', async () => {
    const id = await s.master.create(single('shared', 10), files(), { activate: false });
    await s.at('/experiments', async (page, visitor) => {
        const tabs = [page];
        for (let i = 0; i < 8; i++) tabs.push(await visitor.open('/experiments')); // a browser has six connections to a host
        for (const tab of tabs) await tab.getByText('shared').waitFor();
        await s.master.call('PATCH', `experiments/${id}`, { name: 'seen by all' });
        for (const tab of tabs) await tab.getByText('seen by all').waitFor();
    });
});
