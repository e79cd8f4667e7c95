// Who is let in: by a code, by a password; and what happens when a session is over.
import assert from 'node:assert/strict';
import test from 'node:test';
import { visit } from './support/browser.mjs';
import { failing } from './support/programs.mjs';
import { suite } from './support/suite.mjs';

const s = suite({
    prepare: async (m) => {
        await m.post('users', { username: 'ada', password: 'correct horse' });
        await m.waitExperiment(await m.create(failing('broken one')), 'STATE_ERROR');
    },
});

async function loginByHand(page, name, password) {
    await page.getByLabel('Name').fill(name);
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Log in' }).click();
}

test('whoever is not logged in is asked for a name, and gets where it wanted to', async () => {
    const visitor = await visit(s.browser, s.master), page = await visitor.page();
    await page.goto(`${s.master.url}/experiments?state=failed`);
    await page.waitForURL((u) => u.pathname === '/login');
    await loginByHand(page, 'ada', 'wrong');
    await page.getByText(/password/i).first().waitFor();
    assert.equal(new URL(page.url()).pathname, '/login');
    await loginByHand(page, 'ada', 'correct horse');
    await page.waitForURL((u) => u.pathname + u.search === '/experiments?state=failed');
    await page.getByRole('link', { name: 'broken one' }).waitFor();
    await page.getByRole('button', { name: /User ada/ }).waitFor();
    await visitor.close();
});

test('the session is a cookie that scripts do not see', async () => {
    await s.at('/', async (page) => {
        assert.equal(await page.evaluate(() => document.cookie), '');
        assert.deepEqual(await page.evaluate(() => Object.keys(localStorage)), []);
    });
});

test('a code is good once', async () => {
    const { code } = await s.master.post('auth/codes');
    const first = await visit(s.browser, s.master), one = await first.page();
    await one.goto(`${s.master.url}/login#code=${code}`);
    await one.waitForURL((u) => u.pathname === '/');
    assert.ok(!one.url().includes(code), 'the code stays in the address bar');
    await one.goBack();
    assert.ok(!one.url().includes(code), 'the code stays in the history');
    const second = await visit(s.browser, s.master), two = await second.page();
    await two.goto(`${s.master.url}/login#code=${code}`);
    await two.getByRole('alert').filter({ hasText: /code/ }).waitFor();
    await first.close();
    await second.close();
});

test('after the login nobody is sent to another site', async () => {
    for (const next of ['//evil.example/x', 'https://evil.example/', '/\\evil.example', 'javascript:alert(1)']) {
        const { code } = await s.master.post('auth/codes');
        const visitor = await visit(s.browser, s.master), page = await visitor.page();
        await page.goto(`${s.master.url}/login?next=${encodeURIComponent(next)}#code=${code}`);
        await page.waitForURL(`${s.master.url}/`);
        await visitor.close();
    }
});

test('a session that has ended is told, and can be taken up again where it was', async () => {
    const visitor = await visit(s.browser, s.master), page = await visitor.page();
    await page.goto(`${s.master.url}/experiments?q=broken`);
    await page.waitForURL((u) => u.pathname === '/login');
    await loginByHand(page, 'ada', 'correct horse');
    await page.getByRole('link', { name: 'broken one' }).waitFor();
    for (const session of (await s.master.get('sessions')).sessions) await s.master.call('DELETE', `sessions/${session.id}`);
    await page.getByLabel('Filter').fill('broken o');
    await page.getByText('Your session has ended').waitFor();
    await page.getByRole('link', { name: 'broken one' }).waitFor(); // what was read stays
    await page.getByRole('link', { name: 'Log in again' }).click();
    await loginByHand(page, 'ada', 'correct horse');
    await page.waitForURL((u) => u.search.includes('broken'));
    await page.getByRole('link', { name: 'broken one' }).waitFor();
    await visitor.close();
});

test('logging out ends the session', async () => {
    await s.at('/', async (page) => {
        await page.getByRole('button', { name: /User admin/ }).click();
        await page.getByRole('menuitem', { name: 'Log out' }).click();
        await page.waitForURL((u) => u.pathname === '/login');
        await page.goto(`${s.master.url}/queue`);
        await page.waitForURL((u) => u.pathname === '/login');
    });
});
