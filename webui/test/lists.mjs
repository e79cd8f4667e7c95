// Lists: sort and filter, a column that shows last, min or max; select and compare; search; addresses that restore a view;
// CSV and LaTeX; tables of any length with few rows in the DOM.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { waitFor } from './support/master.mjs';
import { failing, files, random, single } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const s = suite({
    prepare: async (m) => {
        s.search = await m.create(random('wide search'), files());
        s.alone = await m.create(single('lonely one'), files());
        s.broken = await m.create(failing('broken gan'));
        await m.waitExperiment(s.search, 'STATE_COMPLETED');
        await m.waitExperiment(s.alone, 'STATE_COMPLETED');
        await m.waitExperiment(s.broken, 'STATE_ERROR');
        for (let i = 0; i < 150; i++) await m.create(`name: quick ${i}\nentrypoint: "true"\nsearcher: {name: single}\nlabels: [quick]`, undefined, { activate: false });
    },
});

const rowNames = (page) => page.locator('tbody tr[id] a[href^="/experiments/"]').allTextContents();
const shown = (page, name) => page.getByRole('grid').getByRole('link', { name, exact: true }).waitFor();

// The text of the column with this title, from top to bottom.
async function column(page, title) {
    const titles = await page.locator('thead th').allTextContents();
    const at = titles.findIndex((t) => t.replace(/[▾▴]/, '').trim() === title);
    if (at < 0) return [];
    return page.locator(`tbody tr[id] td:nth-child(${at + 1})`).allTextContents();
}

test('experiments are sorted by the columns, either way', async () => {
    await s.at('/experiments', async (page) => {
        await shown(page, 'quick 149'); // the newest first
        await page.getByRole('button', { name: 'Name' }).click();
        await shown(page, 'broken gan');
        assert.equal((await rowNames(page))[0], 'broken gan');
        await page.getByRole('button', { name: 'Name' }).click();
        await shown(page, 'wide search');
        assert.equal((await rowNames(page))[0], 'wide search');
        assert.match(page.url(), /sort=name&down=1/);
        assert.equal(await page.locator('th[aria-sort=descending]').count(), 1);
    });
});

test('experiments are filtered by state, label, owner, words and the best metric', async () => {
    await s.at('/experiments', async (page) => {
        await page.locator('.tools').getByRole('button', { name: 'State' }).click();
        await page.getByRole('menuitemcheckbox', { name: 'failed' }).click();
        await waitFor(async () => (await rowNames(page)).join() === 'broken gan', 'only what failed');
        await page.keyboard.press('Escape');
        await page.goto(`${s.master.url}/experiments?label=random`);
        await waitFor(async () => (await rowNames(page)).join() === 'wide search', 'only what has the label');
        await page.goto(`${s.master.url}/experiments`);
        const filter = page.getByLabel('Filter', { exact: true });
        for (const [text, name] of [['LONELY', 'lonely one'], ['search of the', 'wide search']]) {
            await filter.fill(text);
            await waitFor(async () => (await rowNames(page)).includes(name) && (await rowNames(page)).length <= 12, `${text} to find ${name}`);
        }
        const best = Number((await s.master.experiment(s.alone)).bestTrialSearcherMetric);
        await filter.fill(`alone metric<${best + 1e-6}`);
        await waitFor(async () => (await rowNames(page)).join() === 'lonely one', 'those below the bound');
        await filter.fill('alone metric<0.0001');
        await page.getByText('No experiment is like that').waitFor();
        await page.getByRole('link', { name: 'Show all' }).click();
        await shown(page, 'quick 149');
    });
});

test('a failed experiment says why in the list', async () => {
    await s.at('/experiments?state=failed', async (page) => {
        await page.getByText('failed', { exact: false }).first().waitFor();
        assert.match((await page.locator('tbody tr[id]').first().textContent()), /fail/);
    });
});

test('a long table has few rows in the DOM, and all of them when it is scrolled', async () => {
    await s.at('/experiments', async (page) => {
        await shown(page, 'quick 149');
        assert.equal(await page.getByRole('grid').getAttribute('aria-rowcount'), '154');
        assert.ok((await page.locator('tbody tr[id]').count()) <= 60);
        await page.locator('.scroll').evaluate((e) => e.scrollTo(0, e.scrollHeight));
        await shown(page, 'wide search');
        assert.ok((await page.locator('tbody tr[id]').count()) <= 60);
        await page.locator('.scroll').evaluate((e) => e.scrollTo(0, 0));
        await shown(page, 'quick 149');
    });
});

test('selected experiments are compared', async () => {
    await s.at('/experiments?label=alone', async (page) => {
        await page.goto(`${s.master.url}/experiments?q=one`);
        await page.getByLabel(`Select ${s.alone}`, { exact: true }).check();
        await page.goto(`${page.url().replace('q=one', 'q=wide')}`);
        await page.getByLabel(`Select ${s.search}`, { exact: true }).check();
        await page.getByText('2 selected').waitFor();
        await page.getByRole('button', { name: /Compare/ }).click();
        await page.getByRole('heading', { name: 'Compare 2 trials' }).waitFor();
        const facts = page.getByRole('region', { name: 'What differs' });
        await facts.getByText('lonely one').waitFor();
        await facts.getByText('wide search').waitFor();
        assert.ok((await facts.getByRole('row').count()) > 8);
        await page.getByText('Configuration', { exact: true }).waitFor();
        await page.getByRole('region', { name: 'Changes of the configuration' }).getByText(/^[+-]name: /).first().waitFor();
    });
});

test('trials have their hyperparameters and metrics as columns: last, min or max as chosen', async () => {
    await s.at(`/experiments/${s.search}/trials`, async (page) => {
        const trials = await s.master.trials(s.search, 'sortBy=searcherMetricValue');
        await page.getByRole('link', { name: String(trials[0].id), exact: true }).waitFor();
        assert.deepEqual(await column(page, 'Trial'), trials.map((t) => String(t.id)));
        assert.deepEqual(await column(page, 'optimizer'), trials.map((t) => t.hparams.optimizer));
        await page.getByRole('button', { name: 'Columns' }).click();
        for (const kind of ['last', 'min', 'max']) await page.getByRole('menuitemcheckbox', { name: `training.loss:${kind}` }).click();
        await page.keyboard.press('Escape');
        await waitFor(async () => (await page.locator('thead').textContent()).includes('training.loss:max'), 'the columns');
        const numbers = async (title) => (await column(page, title)).map(Number);
        await waitFor(async () => (await numbers('training.loss:min')).every((v) => v > 0), 'their values');
        const [last, min, max] = [await numbers('training.loss:last'), await numbers('training.loss:min'), await numbers('training.loss:max')];
        const wanted = await Promise.all(trials.map(async (t) => (await s.master.get(`trials/${t.id}`)).summaryMetrics.training.loss));
        wanted.forEach((w, i) => {
            for (const [got, exact] of [[last[i], w.last], [min[i], w.min], [max[i], w.max]]) assert.ok(Math.abs(got - exact) <= Math.abs(exact) * 5e-4, `${got} is not ${exact}`);
        });
        await page.getByRole('button', { name: 'training.loss:max' }).click();
        await waitFor(async () => { const v = await numbers('training.loss:max'); return v.every((x, i) => !i || v[i - 1] <= x); }, 'the order');
    });
});

test('trials are filtered by words and bounds', async () => {
    await s.at(`/experiments/${s.search}/trials`, async (page) => {
        const trials = await s.master.trials(s.search);
        const fit = trials.filter((t) => t.hparams.dropout < 0.5 && t.hparams.optimizer === 'sgd');
        await page.getByLabel('Filter trials').fill('dropout<0.5 sgd');
        await waitFor(async () => (await column(page, 'Trial')).length === fit.length, 'the filtered rows');
        assert.deepEqual((await column(page, 'Trial')).map(Number).sort(), fit.map((t) => t.id).sort());
    });
});

test('search finds experiments by number, name, description and label, and goes there', async () => {
    await s.at('/queue', async (page) => {
        for (const text of ['lonely', String(s.alone), 'one trial of the tests', 'alone']) {
            await page.getByRole('heading', { name: 'Queue and slots' }).waitFor();
            await page.keyboard.press('/');
            await page.getByRole('combobox', { name: 'Search' }).fill(text);
            await page.getByRole('option', { name: /lonely one/ }).click();
            await page.waitForURL((u) => u.pathname === `/experiments/${s.alone}`);
            await page.goBack();
            await page.waitForURL((u) => u.pathname === '/queue');
        }
    });
});

test('an address restores the view', async () => {
    await s.at(`/experiments/${s.search}/trials`, async (page) => {
        await page.getByLabel('Filter trials').fill('sgd');
        await page.getByRole('button', { name: 'dropout' }).click();
        const ids = await waitFor(async () => { const c = await column(page, 'Trial'); return c.length < 8 && c; }, 'the filtered rows');
        await page.getByLabel(`Select ${ids[0]}`, { exact: true }).check();
        const address = page.url();
        await page.goto('about:blank');
        await page.goto(address);
        await waitFor(async () => (await column(page, 'Trial')).join() === ids.join(), 'the same rows');
        assert.equal(await page.getByLabel(`Select ${ids[0]}`, { exact: true }).isChecked(), true);
        assert.equal(await page.getByLabel('Filter trials').inputValue(), 'sgd');
    });
});

async function download(page, what) {
    await page.getByRole('button', { name: 'Export' }).click();
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: what }).click()]);
    return readFileSync(await file.path(), 'utf8');
}

test('a table is downloaded as CSV and as LaTeX', async () => {
    await s.at(`/experiments/${s.search}/trials`, async (page) => {
        await page.getByText('8 trials').first().waitFor();
        const csv = (await download(page, 'CSV')).trim().split('\r\n');
        assert.match(csv[0], /^Trial,State,error,/);
        assert.equal(csv.length, 9);
        const trial = (await s.master.trials(s.search, 'sortBy=searcherMetricValue'))[0];
        assert.ok(csv[1].startsWith(`${trial.id},completed,`), csv[1]);
        assert.ok(csv[1].includes(String(trial.hparams.dropout)), 'numbers are exact');
        const latex = await download(page, 'LaTeX');
        assert.match(latex, /\\begin\{tabular\}/);
        assert.match(latex, /learning\\_rate/);
    });
});
