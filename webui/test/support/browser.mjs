// Debian's Chromium for tests, logged in as the user of the master. What a page complains about is a failure.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

const PATHS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'];

export async function launch() {
    const executablePath = PATHS.find((p) => p && existsSync(p));
    assert.ok(executablePath, 'Chromium is missing: apt-get install chromium, or set CHROMIUM to its path');
    return chromium.launch({
        executablePath,
        args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    });
}

// What is said when a test cuts the master off, which browsers write to the console themselves.
const OUTAGE = /Failed to load resource|net::ERR_/;

export class Visitor {
    constructor(context, master) {
        this.context = context;
        this.master = master;
        this.complaints = [];
    }

    // A page of this visitor, watched.
    async page() {
        const page = await this.context.newPage();
        page.setDefaultTimeout(20_000);
        page.on('pageerror', (e) => this.complaints.push(e.stack ?? e.message));
        page.on('console', (m) => {
            if (m.type() === 'error' && !OUTAGE.test(m.text())) this.complaints.push(m.text());
        });
        return page;
    }

    // A page at this path, logged in with a one-time code as "det open" does it.
    async open(path, url = this.master.url) {
        const page = await this.page();
        const { code } = await this.master.post('auth/codes');
        await page.goto(`${url}/login#code=${code}&next=${encodeURIComponent(path)}`);
        await page.waitForURL((u) => u.pathname + u.search === path);
        return page;
    }

    async close() {
        await this.context.close();
        assert.deepEqual(this.complaints, [], 'the page complained');
    }
}

export async function visit(browser, master, options = {}) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    return new Visitor(context, master);
}
