// Writing a configuration: errors at their place while typing, a preview of the search, files, templates, forks.
import assert from 'node:assert/strict';
import test from 'node:test';
import { waitFor } from './support/master.mjs';
import { asha, files, single } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const s = suite({
    prepare: async (m) => {
        s.parent = await m.create(single('the parent', 10), files({ 'model.py': 'print("layers")\n' }));
        await m.waitExperiment(s.parent, 'STATE_COMPLETED');
        await m.call('PUT', 'templates/careful', { config: 'max_restarts: 7\n' });
    },
});

const field = (page) => page.getByRole('textbox', { name: 'Configuration' });
const status = (page, text) => page.getByRole('status').filter({ hasText: text }).first().waitFor();
const created = (page) => page.waitForURL((u) => /^\/experiments\/\d+$/.test(u.pathname)).then(() => Number(new URL(page.url()).pathname.split('/')[2]));

test('what is wrong is said at its line and column, while somebody types', async () => {
    await s.at('/new', async (page) => {
        await status(page, 'correct');
        await field(page).fill('name: x\nentrypoint: python3 train.py\nsearcher:\n  name: random\n  max_trials: 0\n  max_length: {batches: 10}\n  metric: m\n  tries: 3\n');
        await page.locator('.row[data-wrong] .no').getByText('5', { exact: true }).waitFor();
        await page.getByRole('button', { name: /^line 5, column 15: searcher\.max_trials/ }).waitFor();
        await page.getByRole('button', { name: /^line 8, column 3: searcher\.tries/ }).waitFor();
        await status(page, '2 things are wrong');
        assert.equal(await field(page).getAttribute('aria-invalid'), 'true');
        await page.getByRole('button', { name: /^line 8/ }).click();
        assert.equal(await field(page).evaluate((a) => a.value.slice(0, a.selectionStart).split('\n').length), 8);
        await field(page).fill('name: x\nentrypoint: [\n');
        await page.getByRole('button', { name: /^line \d+, column \d+/ }).first().waitFor();
        await page.getByRole('button', { name: /Create/ }).click(); // the master says no
        await page.locator('.news [data-bad]').first().waitFor();
        assert.equal(new URL(page.url()).pathname, '/new');
    });
});

test('a search is previewed while it is written, and simulated', async () => {
    await s.at('/new', async (page) => {
        await field(page).fill(asha('preview', 16));
        const plan = await s.master.post('search/preview', { config: asha('preview', 16) });
        const part = page.getByRole('region', { name: 'Preview of the search' });
        for (const l of plan.lengths) await part.getByText(`${l.trials} trial${l.trials === 1 ? '' : 's'} of ${l.length} batches`).waitFor();
        await part.getByRole('button', { name: 'Simulate' }).click();
        await part.getByText('Simulated with made-up metrics.').waitFor();
        await part.getByRole('button', { name: 'Table' }).click();
        await waitFor(async () => (await part.locator('.numbers tbody tr').count()) >= 16, 'the simulated rungs');
        await field(page).fill(asha('preview', 8));
        await waitFor(async () => !(await part.getByText('Simulated').count()), 'the simulation of the old text to go');
    });
});

test('an experiment is made from a blank page, with files', async () => {
    await s.at('/new', async (page) => {
        await status(page, 'correct');
        await field(page).fill(single('by hand', 10));
        await page.locator('input[type=file]').setInputFiles([
            { name: 'train.py', mimeType: 'text/x-python', buffer: Buffer.from(files()['train.py'].replace('from task import *', 'from task import *\nimport extra')) },
            { name: 'task.py', mimeType: 'text/x-python', buffer: Buffer.from(await task()) },
            { name: 'extra.py', mimeType: 'text/x-python', buffer: Buffer.from('print("extra was here")\n') },
        ]);
        await page.getByText('extra.py').waitFor();
        await status(page, 'correct');
        await field(page).press('Control+Enter');
        const id = await created(page);
        const e = await s.master.waitExperiment(id, 'STATE_COMPLETED');
        assert.equal(e.name, 'by hand');
        const [trial] = await s.master.trials(id);
        assert.ok((await s.master.get(`trials/${trial.id}/logs`)).logs.some((l) => /extra was here/.test(l.log)));
    });
});

const task = async () => /^TASK = '''\n(.*?)^'''/ms.exec((await import('node:fs')).readFileSync(new URL('../../tests/support/master.py', import.meta.url), 'utf8'))[1];

test('a fork begins with the configuration and the files of its parent', async () => {
    await s.at(`/experiments/${s.parent}`, async (page) => {
        await page.getByRole('button', { name: 'Fork' }).click();
        await page.waitForURL((u) => u.search === `?fork=${s.parent}`);
        await waitFor(async () => /name: the parent/.test(await field(page).inputValue()), 'the text');
        await page.getByText(`Those of experiment ${s.parent}.`).waitFor();
        await field(page).fill((await field(page).inputValue()).replace('the parent', 'the child').replace('learning_rate: 0.01', 'learning_rate: 0.02'));
        await page.getByLabel('start at once').uncheck();
        await status(page, 'correct');
        await page.getByRole('button', { name: /Create/ }).click();
        const id = await created(page);
        await page.getByText(`fork of ${s.parent}`).waitFor();
        const e = await s.master.experiment(id);
        assert.equal(e.forkedFrom, s.parent);
        assert.equal(e.state, 'STATE_PAUSED');
        await page.getByRole('link', { name: 'Configuration' }).click();
        await page.getByRole('button', { name: `Changes from ${s.parent}` }).click();
        await page.getByRole('region', { name: 'Changes of the configuration' }).getByText('+    val: 0.02').waitFor();
        await page.getByText('The files are the same.').waitFor();
        await page.getByRole('link', { name: 'Code', exact: true }).click();
        await page.getByRole('navigation', { name: 'Files' }).getByRole('link', { name: /model\.py/ }).click();
        await page.getByRole('region', { name: 'model.py' }).getByText('print("layers")').waitFor();
        assert.match(page.url(), /file=model\.py/);
    });
});

test('a configuration is laid over a template', async () => {
    await s.at('/admin/templates', async (page) => {
        await page.getByRole('link', { name: 'New experiment' }).click();
        await page.waitForURL((u) => u.searchParams.get('template') === 'careful');
        await page.getByRole('region', { name: 'Template' }).getByText('max_restarts').waitFor();
        await field(page).fill(single('careful one', 10).replace('max_restarts: 0\n', ''));
        await page.getByLabel('start at once').uncheck();
        await status(page, 'correct');
        await page.getByRole('button', { name: /Create/ }).click();
        const id = await created(page);
        assert.equal((await s.master.get(`experiments/${id}`)).config.max_restarts, 7);
    });
});

test('a template is written, checked, changed and deleted', async () => {
    await s.at('/admin/templates', async (page) => {
        await page.getByRole('button', { name: 'New template' }).click();
        await page.getByRole('textbox', { name: 'Name' }).fill('two slots');
        await page.getByRole('button', { name: 'Write it' }).click();
        await field(page).fill('resources:\n  slots_per_trial: many\n');
        await page.getByRole('button', { name: /^line 2, column 20/ }).waitFor();
        await field(page).fill('resources:\n  slots_per_trial: 2\n');
        await status(page, 'correct');
        await page.getByRole('button', { name: /Save/ }).click();
        await page.getByRole('heading', { name: 'two slots' }).waitFor();
        assert.match((await s.master.get('templates/two%20slots')).template.config, /slots_per_trial: 2/);
        await page.locator('section.part').filter({ hasText: 'two slots' }).getByRole('button', { name: 'Delete' }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
        await page.getByText('The template was deleted.').waitFor();
        await waitFor(async () => !(await page.getByRole('heading', { name: 'two slots' }).count()), 'it to go');
    });
});

test('what was written survives a reload', async () => {
    await s.at('/new', async (page) => {
        await status(page, 'correct');
        await field(page).fill(single('half done', 10));
        await status(page, 'correct');
        await page.reload();
        await waitFor(async () => /half done/.test(await field(page).inputValue()), 'the text');
    });
});

test('Tab and Enter indent, Escape leaves', async () => {
    await s.at('/new', async (page) => {
        await status(page, 'correct');
        await field(page).fill('');
        await field(page).press('Tab');
        await field(page).pressSequentially('a:');
        await field(page).press('Enter');
        await field(page).pressSequentially('b');
        assert.equal(await field(page).inputValue(), '  a:\n    b');
        await field(page).press('Escape');
        await field(page).press('Tab');
        assert.notEqual(await page.evaluate(() => document.activeElement?.tagName), 'TEXTAREA');
    });
});
