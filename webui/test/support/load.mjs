// Modules of the page, for tests that need no browser: compiled by esbuild, imported from memory.
import { build } from 'esbuild';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');

export async function load(path) {
    const result = await build({
        absWorkingDir: root, entryPoints: [`src/${path}`], bundle: true, format: 'esm', platform: 'node', write: false,
        jsx: 'automatic', jsxImportSource: 'preact', logLevel: 'error', define: { WORKER_URL: '""' },
    });
    return import(`data:text/javascript;base64,${Buffer.from(result.outputFiles[0].text).toString('base64')}`);
}
