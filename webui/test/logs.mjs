// Logs: any length, follow, search, filters by level, rank and stream, colours, links to lines.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import test from 'node:test';
import { waitFor } from './support/master.mjs';
import { suite } from './support/suite.mjs';

// Some thousand lines of two ranks, with levels as programs print them; then it waits to be told to go on.
const CHATTY = `
import os, sys, time
rank = int(os.environ.get('RANK', '0'))
gate = os.path.join(os.environ['DET_CHECKPOINT_STORAGE'], 'go')
if rank == 0:
    for i in range(3000):
        print('line %d of many%s' % (i, ' NEEDLE' if i % 500 == 7 else ''))
    print('\\x1b[31mred\\x1b[0m and \\x1b[1;44mbold on blue\\x1b[0m')
    print('x' * 5000)
    print('WARNING: this is odd', file=sys.stderr)
    print('ERROR: this is wrong', file=sys.stderr)
else:
    print('the other rank')
sys.stdout.flush()
while not os.path.exists(gate): time.sleep(0.05)
if rank == 0: print('the end')
`;

const s = suite({
    prepare: async (m) => {
        const launch = join(dirname(resolve(s.det)), 'det-launch'); // a process for each slot
        const config = `name: chatty\nentrypoint: python3 chatty.py\nlaunch_layer: ${launch}\nsearcher: {name: single}\nmax_restarts: 0\nresources: {slots_per_trial: 2}\n`;
        s.id = await m.create(config, { 'chatty.py': CHATTY });
        s.trial = await waitFor(async () => (await m.trials(s.id))[0], 'the trial');
        await waitFor(async () => (await m.get(`trials/${s.trial.id}/logs?searchText=${encodeURIComponent('this is wrong')}`)).logs.length, 'its output', 120);
        s.lines = (await m.get(`trials/${s.trial.id}/logs?limit=-1`)).logs;
    },
});

const at = (use, query = '') => s.at(`/trials/${s.trial.id}/logs${query}`, use);
const line = (page, text) => page.locator('.log-line').filter({ hasText: text }).first();

test('a long log is scrolled to any place, with few lines in the DOM', async () => {
    await at(async (page) => {
        await page.getByText(/3,\d\d\d lines/).waitFor();
        assert.ok((await page.locator('.log-line').count()) <= 80);
        await page.locator('.log .lines').evaluate((e) => e.scrollTo(0, e.scrollHeight / 2));
        await waitFor(async () => (await page.locator('.log-line').allTextContents()).some((t) => /line 1[45]\d\d of many/.test(t)), 'the middle');
        await page.keyboard.press('g');
        await page.keyboard.press('g');
        await line(page, 'line 0 of many').waitFor();
        await page.keyboard.press('G');
        await line(page, 'this is wrong').waitFor();
        assert.ok((await page.locator('.log-line').count()) <= 80);
    });
});

test('text is found in all of it, and matches are walked through', async () => {
    await at(async (page) => {
        await page.keyboard.press('s');
        await page.getByLabel('Search in the log').fill('needle');
        await page.getByText('1 of 6').waitFor();
        await page.locator('.log-line[data-found]').filter({ hasText: 'line 7 of many NEEDLE' }).waitFor();
        await page.keyboard.press('Enter');
        await page.locator('.log-line[data-found]').filter({ hasText: 'line 507 of many' }).waitFor();
        await page.keyboard.press('Shift+Enter');
        await page.getByText('1 of 6').waitFor();
        assert.match(page.url(), /find=needle/);
        await page.getByLabel('Search in the log').fill('Needle'); // a capital letter is meant
        await page.getByText('not found').waitFor();
        await page.keyboard.press('Escape');
        assert.equal(await page.locator('mark').count(), 0);
    });
});

test('lines are filtered by level, rank and stream', async () => {
    await at(async (page) => {
        const pick = async (menu, item) => {
            await page.getByRole('button', { name: menu }).click();
            await page.getByRole('menuitemcheckbox', { name: item, exact: true }).click();
            await page.keyboard.press('Escape');
        };
        await pick('Level', 'error');
        await line(page, 'this is wrong').waitFor();
        const errors = s.lines.filter((l) => l.level === 'LOG_LEVEL_ERROR').length;
        await waitFor(async () => (await page.locator('.log-line').count()) === errors, 'the errors alone');
        assert.match(page.url(), /level=LOG_LEVEL_ERROR/);
        await pick('Level', 'error');
        await pick('Rank', 'rank 1');
        await line(page, 'the other rank').waitFor();
        await waitFor(async () => !(await page.locator('.log-line').allTextContents()).some((t) => /of many/.test(t)), 'rank 1 alone');
        await pick('Rank', 'rank 1');
        await pick('Stream', 'stderr');
        await waitFor(async () => { const all = await page.locator('.log-line').allTextContents(); return all.length === 2 && /odd/.test(all[0]) && /wrong/.test(all[1]); }, 'stderr alone');
    });
});

test('colours of terminals are shown, long lines are cut and opened', async () => {
    await at(async (page) => {
        await page.keyboard.press('G');
        assert.equal(await line(page, 'red and').locator('[data-fg="1"]').textContent(), 'red');
        assert.equal(await line(page, 'red and').locator('[data-bold]').textContent(), 'bold on blue');
        const long = page.locator('.log-line').filter({ hasText: 'xxxxx' });
        await long.getByText(/5,\d\d\d characters/).waitFor();
        await long.getByRole('button', { name: 'show all' }).click();
        assert.ok((await page.getByRole('dialog').locator('pre').textContent()).length >= 5000);
        await page.keyboard.press('Escape');
        assert.equal(await page.getByRole('dialog').count(), 0);
    });
});

test('an address leads to a line', async () => {
    await at(async (page) => {
        await waitFor(async () => (await page.locator('.log-line').allTextContents()).some((t) => /^1,?500/.test(t)), 'line 1500');
        assert.equal(await page.getByLabel('follow').isChecked(), false);
    }, '?line=1500');
});

test('all of it is downloaded', async () => {
    await at(async (page) => {
        const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'Download' }).click()]);
        const text = readFileSync(await file.path(), 'utf8');
        assert.match(text, /line 2999 of many/);
        assert.match(file.suggestedFilename(), /trial-\d+-log/);
    });
});

test('following goes on with new lines, and stops when somebody scrolls up', async () => {
    await at(async (page) => {
        await line(page, 'this is wrong').waitFor();
        await page.locator('.log .lines').hover();
        await page.mouse.wheel(0, -400);
        await waitFor(async () => !(await page.getByLabel('follow').isChecked()), 'it to stop following');
        const top = await page.locator('.log .lines').evaluate((e) => e.scrollTop);
        writeFileSync(`${s.master.data}/checkpoints/go`, '');
        await s.master.waitExperiment(s.id, 'STATE_COMPLETED');
        await page.getByText(/3,\d\d\d lines/).waitFor();
        assert.equal(await page.locator('.log .lines').evaluate((e) => e.scrollTop), top);
        await page.keyboard.press('f');
        await line(page, 'the end').waitFor();
    });
});
