// A search: parallel coordinates that filter the table, scatter plots, importance, rungs; the first page of an experiment.
import assert from 'node:assert/strict';
import test from 'node:test';
import { waitFor } from './support/master.mjs';
import { chart, column, curveCount } from './support/pages.mjs';
import { asha, files, random } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const s = suite({
    prepare: async (m) => {
        s.random = await m.create(random('wide', 12, 10), files());
        s.asha = await m.create(asha('tall', 8), files());
        for (const id of [s.random, s.asha]) await m.waitExperiment(id, 'STATE_COMPLETED');
        s.trials = await m.trials(s.random);
    },
});

const shownTrials = async (page) => (await column(page, 'Trial')).map(Number).sort((a, b) => a - b);
const ids = (trials) => trials.map((t) => t.id).sort((a, b) => a - b);

test('dragging along an axis of the parallel coordinates filters the table', async () => {
    await s.at(`/experiments/${s.random}/search`, async (page) => {
        const canvas = page.getByRole('img', { name: /^Parallel coordinates of 12 trials: dropout, learning_rate, optimizer, error/ });
        const box = await canvas.boundingBox();
        await page.mouse.move(box.x + 56, box.y + 30); // the first axis: dropout, from its top
        await page.mouse.down();
        await page.mouse.move(box.x + 56, box.y + 130, { steps: 5 });
        await page.mouse.up();
        await page.waitForURL((u) => u.searchParams.has('brush'));
        const [, low, high] = /hparams.dropout:([\d.]*);([\d.]*)/.exec(decodeURIComponent(new URL(page.url()).searchParams.get('brush')));
        const wanted = s.trials.filter((t) => t.hparams.dropout >= Number(low) && t.hparams.dropout <= Number(high || Infinity));
        assert.ok(wanted.length > 0 && wanted.length < 12, 'the range says nothing');
        await waitFor(async () => (await shownTrials(page)).join() === ids(wanted).join(), 'the rows in the range');
        await page.getByText(`${wanted.length} of 12 trials`).waitFor();
        const address = page.url();
        await page.goto('about:blank');
        await page.goto(address);
        await waitFor(async () => (await shownTrials(page)).join() === ids(wanted).join(), 'the same from the address');
        await page.getByRole('button', { name: 'Clear 1 range' }).click();
        await page.getByText('12 trials', { exact: true }).first().waitFor();
    });
});

test('ranges can be typed, and values chosen', async () => {
    await s.at(`/experiments/${s.random}/search`, async (page) => {
        await page.getByText('Ranges', { exact: true }).click();
        await page.getByLabel('learning_rate to').fill('0.01');
        await page.keyboard.press('Enter');
        const low = s.trials.filter((t) => t.hparams.learning_rate <= 0.01);
        await waitFor(async () => (await shownTrials(page)).join() === ids(low).join(), 'small rates');
        await page.getByLabel('sgd').uncheck();
        await waitFor(async () => (await shownTrials(page)).join() === ids(low.filter((t) => t.hparams.optimizer === 'adam')).join(), 'and adam');
    });
});

test('a dot of a scatter plot and a dot of the ladder lead to their trials', async () => {
    await s.at(`/experiments/${s.random}/search`, async (page) => {
        const plot = page.getByRole('img', { name: /^dropout against error, 12 trials/ });
        await plot.scrollIntoViewIfNeeded();
        const box = await plot.boundingBox();
        const all = s.trials.map((t) => t.hparams.dropout), low = Math.min(...all), high = Math.max(...all);
        const best = s.trials.reduce((a, b) => (a.searcherMetricValue <= b.searcherMetricValue ? a : b)); // the lowest dot
        await page.mouse.click(box.x + 44 + ((best.hparams.dropout - low) / (high - low)) * (box.width - 52), box.y + 130);
        await page.waitForURL((u) => u.pathname === `/trials/${best.id}`);
    });
    await s.at(`/experiments/${s.asha}/search`, async (page) => {
        const ladder = page.getByRole('img', { name: /^Rungs of the search/ });
        const box = await ladder.boundingBox();
        await page.mouse.move(box.x + 70, box.y + 10); // the first dot of the longest rung: the best trial
        const best = (await s.master.experiment(s.asha)).bestTrialId;
        await page.locator('.ladder .tip').getByText(`trial ${best}`).waitFor();
        await page.mouse.down();
        await page.mouse.up();
        await page.waitForURL((u) => u.pathname === `/trials/${best}`);
    });
});

test('importance is said for every hyperparameter, most important first', async () => {
    await s.at(`/experiments/${s.random}/search`, async (page) => {
        const found = (await s.master.get(`experiments/${s.random}/importance?metric=error`)).importance.sort((a, b) => b.value - a.value);
        const part = page.locator('section.part').filter({ has: page.getByRole('heading', { name: 'Importance' }) });
        await waitFor(async () => (await part.locator('li > span:first-child').allTextContents()).join() === found.map((f) => f.name).join(), 'the names');
        assert.equal(await part.locator('li .num').first().textContent(), `${Math.floor(found[0].value * 100 + 1e-9)} %`);
    });
});

test('the first page of a search shows what matters', async () => {
    await s.at(`/experiments/${s.asha}`, async (page) => {
        const e = await s.master.experiment(s.asha), best = (await s.master.get(`trials/${e.bestTrialId}`)).trial;
        const part = page.locator('section.best');
        await part.getByText(`trial ${best.id}`).waitFor();
        assert.match(await part.textContent(), /Best trial0\.\d+ error/);
        assert.match(await part.textContent(), /learning_rate0\.\d+/);
        for (const name of ['Rungs', 'Importance', 'Parallel coordinates']) await page.getByRole('heading', { name }).first().waitFor();
        await waitFor(async () => (await curveCount(chart(page, 'error'))) === 8, 'curves of all trials');
        await waitFor(async () => (await page.locator('tbody tr[id]').count()) === 8, 'the table');
        assert.equal(await page.locator('tbody tr[data-emphasis=best] a').first().textContent(), String(best.id));
    });
});

test('searches without rungs show scatter plots at once', async () => {
    await s.at(`/experiments/${s.random}`, async (page) => {
        await page.getByRole('img', { name: /^optimizer against error/ }).waitFor();
        assert.equal(await page.getByRole('heading', { name: 'Rungs' }).count(), 0);
    });
});

test('pointing at a trial marks it everywhere', async () => {
    await s.at(`/experiments/${s.random}/curves?show=all`, async (page) => {
        const key = page.locator('.key-list li').first();
        await key.hover();
        await page.locator('.key-list li[data-hot]').waitFor();
        assert.equal(await page.locator('.key-list li').count(), 12);
    });
});
