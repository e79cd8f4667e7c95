// What happens while somebody looks: experiments come and change, curves grow, logs follow, ladders fill; and steering.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { waitFor } from './support/master.mjs';
import { chart, numbers } from './support/pages.mjs';
import { asha, files, single } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const s = suite();

// Lets trials of "stepwise" programs train up to that batch.
const allow = (batches) => writeFileSync(join(s.master.data, 'checkpoints', 'go'), String(batches));
const stepwise = (name, batches = 60) => s.master.create(single(name, batches, ', stepwise: true'), files());
const state = (page, word) => page.locator('.head .state').getByText(word, { exact: true }).waitFor();
const firstTrial = (id) => waitFor(async () => (await s.master.trials(id))[0], 'a trial');

test('an experiment that somebody creates appears in the list, runs and ends there', async () => {
    await s.at('/experiments', async (page) => {
        await page.getByText('Nothing has run here yet').waitFor();
        const id = await stepwise('seen from the start', 20);
        const row = page.locator('tbody tr').filter({ hasText: 'seen from the start' });
        await row.getByText('running').waitFor();
        allow(10);
        await row.getByText('50 %').waitFor();
        allow(20);
        await row.getByText('completed').waitFor();
        assert.match(await row.textContent(), /0\.\d+ error/);
        assert.equal((await s.master.experiment(id)).state, 'STATE_COMPLETED');
    });
});

test('a curve grows while the page is open, and a log follows', async () => {
    allow(10);
    const id = await stepwise('growing', 60), trial = await firstTrial(id);
    await s.at(`/trials/${trial.id}`, async (page, visitor) => {
        const log = await visitor.open(`/trials/${trial.id}/logs`);
        const loss = chart(page, 'loss');
        await waitFor(async () => (await numbers(loss)).length === 10, 'ten points');
        await log.getByText('batch 10: loss').waitFor();
        assert.equal(await log.getByLabel('follow').isChecked(), true);
        allow(60);
        await waitFor(async () => (await numbers(loss)).length === 60, 'sixty points');
        await log.getByText('batch 60: loss').waitFor();
        const reported = (await s.master.get(`trials/${trial.id}/metrics?group=training&limit=-1`)).metrics;
        const shown = await numbers(loss);
        reported.forEach((r, i) => assert.ok(Math.abs(shown[i][1] - r.metrics.loss) <= Math.abs(r.metrics.loss) * 6e-4, `batch ${r.stepsCompleted}`));
        await page.locator('.head').getByText('completed').waitFor();
    });
});

test('the ladder of a search fills', async () => {
    allow(0);
    const id = await s.master.create(asha('ladder', 8).replace('pace: 0', 'stepwise: true'), files());
    await s.at(`/experiments/${id}/search`, async (page) => {
        const part = page.locator('section.part').filter({ hasText: 'Rungs' });
        await part.getByRole('button', { name: 'Table' }).click();
        const decisions = () => part.locator('.numbers tbody td:nth-child(5)').allTextContents();
        await waitFor(async () => (await decisions()).filter((d) => d === 'runs').length === 4, 'four trials that run');
        allow(16);
        await waitFor(async () => (await decisions()).includes('goes on'), 'one that goes on');
        allow(64);
        await page.locator('.head .state').getByText('completed').waitFor();
        const { brackets } = await s.master.get(`experiments/${id}/search`);
        const wanted = brackets.flatMap((b) => b.rungs.flatMap((r) => r.trials)).length;
        await waitFor(async () => (await decisions()).length === wanted, 'all decisions');
        const last = await decisions();
        assert.ok(last.includes('finished') && last.includes('goes on') && last.includes('was stopped'), last.join());
    });
});

test('what runs is paused, goes on from where it was, and is killed', async () => {
    allow(5);
    const id = await stepwise('to be paused', 40), trial = await firstTrial(id);
    await s.at(`/experiments/${id}`, async (page) => {
        await waitFor(async () => (await s.master.get(`trials/${trial.id}`)).trial.totalBatchesProcessed === 5, 'five batches');
        await page.getByRole('button', { name: 'Pause' }).click();
        await state(page, 'paused');
        await page.getByText(`Experiment ${id} was paused.`).waitFor();
        await waitFor(async () => (await s.master.get(`trials/${trial.id}/checkpoints`)).checkpoints.length === 1, 'the checkpoint');
        await page.getByRole('button', { name: 'Activate' }).click();
        await state(page, 'running');
        allow(12);
        await waitFor(async () => (await s.master.get(`trials/${trial.id}`)).trial.totalBatchesProcessed === 12, 'it to go on');
        await page.goto(`${s.master.url}/trials/${trial.id}/timeline`);
        await page.getByText('run 2').first().waitFor();
        await page.locator('.gantt').getByText('gave its slots back').waitFor();
        await page.locator('.head').getByText(/run 1 gave its slots back at batch 5; resumed from 5/).waitFor();
        await page.goto(`${s.master.url}/experiments/${id}`);
        await page.getByRole('button', { name: 'Kill' }).click();
        await page.getByRole('dialog').getByText(`Kill experiment ${id}?`).waitFor();
        await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
        await state(page, 'running');
        await page.getByRole('button', { name: 'Kill' }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Kill' }).click();
        await state(page, 'canceled');
    });
});

test('what waits for slots says so, in the words of "det why"', async () => {
    allow(0);
    const first = await s.master.create(`${single('takes all', 10, ', stepwise: true')}resources: {slots_per_trial: 4}\n`, files());
    await waitFor(async () => (await s.master.get('slots')).slots.every((x) => x.trialId), 'the slots to be taken');
    const id = await s.master.create(`${single('waits', 10)}resources: {slots_per_trial: 2}\n`, files());
    await s.at('/queue', async (page) => {
        const row = page.locator('tbody tr').filter({ hasText: 'waits' });
        await row.getByText('needs 2 slots, 0 are free').waitFor();
        await page.getByText('4 of 4 slots in use').waitFor();
        await page.goto(`${s.master.url}/experiments/${id}`);
        await state(page, 'waiting');
        await page.getByText('needs 2 slots, 0 are free').waitFor();
        await page.goto(`${s.master.url}/experiments`);
        await page.locator('tbody tr').filter({ hasText: 'waits' }).getByText('waiting').waitFor();
        allow(10);
        await page.locator('tbody tr').filter({ hasText: 'waits' }).getByText('completed').waitFor();
        await s.master.waitExperiment(first, 'STATE_COMPLETED');
    });
});

test('an experiment is renamed and labelled, and gets notes', async () => {
    const id = await s.master.create(single('badly named', 10), files());
    await s.at(`/experiments/${id}`, async (page) => {
        await page.getByRole('button', { name: 'rename' }).click();
        await page.getByRole('textbox', { name: 'Name' }).fill('well named');
        await page.getByRole('dialog').getByRole('button', { name: 'Rename' }).click();
        await page.getByRole('heading', { name: /well named/ }).waitFor();
        await page.getByRole('button', { name: '+ label' }).click();
        await page.getByRole('textbox', { name: 'Label' }).fill('thesis, chapter 3');
        await page.getByRole('dialog').getByRole('button', { name: 'Add' }).click();
        await page.locator('.facts .label').filter({ hasText: 'thesis, chapter 3' }).waitFor();
        await page.getByRole('button', { name: 'Remove the label alone' }).click();
        await waitFor(async () => (await s.master.experiment(id)).labels.join() === 'thesis, chapter 3', 'the labels');
        await page.getByRole('link', { name: 'Notes' }).click();
        await page.getByRole('button', { name: 'Write' }).click();
        await page.getByRole('textbox', { name: 'Notes' }).fill('# Why\n\nThe **loader** was new.\n- see https://example.org/x\n');
        await page.getByRole('button', { name: /Save/ }).click();
        await page.locator('.prose h2').getByText('Why').waitFor();
        assert.equal(await page.locator('.prose strong').textContent(), 'loader');
        assert.equal(await page.locator('.prose a').getAttribute('href'), 'https://example.org/x');
        assert.match((await s.master.experiment(id)).notes, /\*\*loader\*\*/);
        await page.goto(`${s.master.url}/experiments`);
        await page.locator('.tools').getByRole('button', { name: 'Label' }).click();
        await page.getByRole('menuitemcheckbox', { name: 'thesis, chapter 3' }).click();
        await page.getByRole('link', { name: 'well named' }).waitFor();
        await waitFor(async () => (await page.locator('tbody tr[id]').count()) === 1, 'one row');
        const address = page.url();
        await page.goto('about:blank');
        await page.goto(address);
        await waitFor(async () => (await page.locator('tbody tr[id]').count()) === 1, 'one row again');
    });
});
