// Users, sessions, checkpoints, the queue and its slots.
import assert from 'node:assert/strict';
import test from 'node:test';
import { visit } from './support/browser.mjs';
import { waitFor } from './support/master.mjs';
import { files, single } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const s = suite({
    prepare: async (m) => {
        s.id = await m.create(single('with checkpoints', 10), files());
        await m.waitExperiment(s.id, 'STATE_COMPLETED');
        [s.checkpoint] = (await m.get(`experiments/${s.id}/checkpoints`)).checkpoints;
    },
});

test('an administrator adds a user, who logs in; what a user may not do is not offered', async () => {
    await s.at('/admin', async (page) => {
        await page.getByRole('button', { name: 'New user' }).click();
        await page.getByLabel('Name to log in with').fill('grace');
        await page.getByLabel('Name to show').fill('Grace Hopper');
        await page.getByLabel(/^Password/).fill('nanosecond');
        await page.getByRole('button', { name: 'Create' }).click();
        await page.getByText('grace can log in now.').waitFor();
        await page.getByText('Grace Hopper').waitFor();
        const visitor = await visit(s.browser, s.master), other = await visitor.page();
        await other.goto(`${s.master.url}/login?next=/experiments/${s.id}`);
        await other.getByLabel('Name').fill('grace');
        await other.getByLabel('Password').fill('nanosecond');
        await other.getByRole('button', { name: 'Log in' }).click();
        await other.getByRole('heading', { name: /with checkpoints/ }).waitFor();
        assert.equal(await other.getByRole('button', { name: 'rename' }).count(), 0);
        await other.goto(`${s.master.url}/admin`);
        await other.getByText('Grace Hopper').waitFor();
        assert.equal(await other.getByRole('button', { name: 'New user' }).count(), 0);
        await page.goto(`${s.master.url}/admin/sessions`);
        const row = page.locator('tbody tr').filter({ hasText: 'Grace Hopper' });
        await row.getByRole('button', { name: 'End' }).click();
        await page.getByText('The session has ended.').waitFor();
        await other.goto(`${s.master.url}/admin`);
        await other.waitForURL((u) => u.pathname === '/login');
        await visitor.close();
    });
});

test('a user who may not log in any more is told', async () => {
    await s.master.post('users', { username: 'hal', password: 'correct horse' });
    await s.at('/admin', async (page) => {
        await page.getByRole('button', { name: 'Change hal' }).click();
        await page.getByRole('menuitem', { name: 'Do not let log in' }).click();
        await page.getByText('hal was changed.').waitFor();
        await waitFor(async () => /no/.test(await page.locator('tbody tr').filter({ hasText: 'hal' }).textContent()), 'the list to say so');
        const visitor = await visit(s.browser, s.master), other = await visitor.page();
        await other.goto(`${s.master.url}/login`);
        await other.getByLabel('Name').fill('hal');
        await other.getByLabel('Password').fill('correct horse');
        await other.getByRole('button', { name: 'Log in' }).click();
        await other.getByRole('alert').filter({ hasText: /\w/ }).waitFor();
        await visitor.close();
    });
});

test('checkpoints are listed, looked into, downloaded and deleted', async () => {
    await s.at('/checkpoints', async (page) => {
        await page.getByText('1 checkpoint', { exact: true }).waitFor();
        await page.locator('tbody tr').first().click({ position: { x: 30, y: 10 } });
        const dialog = page.getByRole('dialog');
        await dialog.getByText(s.checkpoint.uuid, { exact: true }).waitFor();
        const [file] = await Promise.all([page.waitForEvent('download'), dialog.getByRole('link', { name: 'state' }).click()]);
        assert.equal(file.suggestedFilename(), 'state');
        await dialog.getByRole('button', { name: 'Delete' }).click();
        await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
        await page.getByText('The checkpoint was deleted.').waitFor();
        await page.getByText('There are no checkpoints.').waitFor();
    });
});

test('the queue is ordered by priority, and slots are taken away', async () => {
    const ids = [];
    for (const name of ['first', 'second']) ids.push(await s.master.create(single(name, 10), files(), { activate: false }));
    await s.at('/queue', async (page) => {
        const places = async () => (await page.locator('tbody tr[id] a').allTextContents()).map((t) => t.split(' ')[1]);
        await waitFor(async () => (await places()).join() === 'first,second', 'both');
        await page.getByRole('button', { name: `Move ${ids[1]} up` }).click();
        await waitFor(async () => (await places()).join() === 'second,first', 'the second one first');
        await page.getByLabel(`Priority of ${ids[0]}`).fill('1');
        await page.keyboard.press('Enter');
        await waitFor(async () => (await places()).join() === 'first,second', 'the important one first');
        await page.getByText('Slots', { exact: true }).first().click();
        await page.getByRole('button', { name: 'Disable' }).first().click();
        await page.getByText('0 of 4 slots in use, 1 disabled').waitFor();
        await page.getByRole('button', { name: 'Enable' }).click();
        await page.getByText('0 of 4 slots in use', { exact: true }).waitFor();
    });
});
