// What every suite begins with: the program det (the first argument), a browser, a master; all ended when the tests are done.
import { after, before } from 'node:test';
import { launch, visit } from './browser.mjs';
import { Master } from './master.mjs';

const det = process.argv[2] ?? process.env.DET;
if (!det) throw new Error('usage: node SUITE.mjs PATH-OF-DET');

export { det };

// prepare(master): makes the experiments that all tests of the suite look at.
export function suite({ args = ['--slots', '4'], prepare } = {}) {
    const s = { det, browser: null, master: null };
    before(async () => {
        s.master = await new Master(det, ...args).start();
        s.browser = await launch();
        if (prepare) await prepare(s.master, s);
    });
    after(async () => {
        await s.browser?.close();
        await s.master?.stop();
    });
    // Runs use() with a page at this path, and fails if the page complained.
    s.at = async (path, use, options) => {
        const visitor = await visit(s.browser, s.master, options);
        const page = await visitor.open(path);
        await use(page, visitor);
        await visitor.close();
    };
    return s;
}
