// Builds the page: node build.mjs → dist/index.html, dist/assets/NAME-HASH.*, dist/LICENSES.txt.
// Installs the packages of package-lock.json if they are not there, checks types, and fails if a first visit
// would load more than MAX_BYTES, compressed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const MAX_BYTES = 60_000;
const root = dirname(fileURLToPath(import.meta.url));
const at = (...parts) => join(root, ...parts);
const say = (text) => process.stdout.write(`webui: ${text}\n`);

function install() {
    const stamp = at('node_modules/.package-lock.json');
    if (existsSync(stamp) && statSync(stamp).mtimeMs >= statSync(at('package-lock.json')).mtimeMs) return;
    say('npm ci');
    execFileSync('npm', ['ci', '--no-fund', '--no-audit', '--ignore-scripts', '--loglevel=error'],
                 { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] });
}

function checkTypes() {
    execFileSync(process.execPath, [at('node_modules/typescript/bin/tsc'), '-p', at('tsconfig.json')],
                 { cwd: root, stdio: 'inherit' });
}

const common = {
    absWorkingDir: root,
    bundle: true,
    minify: true,
    metafile: true,
    format: 'esm',
    target: ['chrome111', 'firefox113', 'safari16.4'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    outdir: at('dist/assets'),
    entryNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    logLevel: 'warning',
};

// The file that esbuild has made of an entry point.
function outputOf(result, entry, extension) {
    for (const [path, o] of Object.entries(result.metafile.outputs)) {
        const name = o.entryPoint === entry ? path : undefined;
        if (name && extension === '.js') return basename(name);
        if (name && o.cssBundle) return basename(o.cssBundle);
    }
    throw new Error(`no ${extension} came of ${entry}`);
}

function keep(name, extension, text) {
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 8).toUpperCase();
    const file = `${name}-${hash}.${extension}`;
    writeFileSync(at('dist/assets', file), text);
    return file;
}

async function bundle() {
    const { build } = await import('esbuild');
    const worker = await build({ ...common, entryPoints: ['src/api/worker.ts'] });
    const theme = await build({ ...common, entryPoints: ['src/state/theme_first.ts'], format: 'iife' });
    const main = await build({
        ...common,
        entryPoints: ['src/main.tsx'],
        splitting: true,
        define: { WORKER_URL: JSON.stringify(`/assets/${outputOf(worker, 'src/api/worker.ts', '.js')}`) },
    });
    const names = {
        MAIN: outputOf(main, 'src/main.tsx', '.js'),
        STYLE: outputOf(main, 'src/main.tsx', '.css'),
        THEME: outputOf(theme, 'src/state/theme_first.ts', '.js'),
        ICON: keep('icon', 'svg', readFileSync(at('src/icon.svg'), 'utf8')),
    };
    const page = readFileSync(at('src/index.html'), 'utf8').replace(/%(\w+)%/g, (_, key) => names[key]);
    writeFileSync(at('dist/index.html'), page);
    return { page: main.metafile, inputs: [worker, theme, main].flatMap((r) => Object.keys(r.metafile.inputs)) };
}

// Licences of the packages that are in the bundle.
function writeLicences(inputs) {
    const packages = new Set(inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean));
    const texts = [...packages].sort().map((name) => {
        const folder = at('node_modules', name);
        const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
        const file = readdirSync(folder).find((f) => /^licen[cs]e/i.test(f));
        if (!file) throw new Error(`${name} comes without a licence file`);
        return `${name} ${about.version} (${about.license})\n\n${readFileSync(join(folder, file), 'utf8').trim()}\n`;
    });
    writeFileSync(at('dist/LICENSES.txt'), texts.join(`\n${'-'.repeat(72)}\n\n`));
    return [...packages].sort();
}

const gz = (file) => gzipSync(readFileSync(at('dist', file)), { level: 9 }).length;

// Output files that loading one of them loads, too.
function closure(metafile, path, seen = new Set()) {
    if (seen.has(path)) return seen;
    seen.add(path);
    const output = metafile.outputs[path];
    if (output.cssBundle) seen.add(output.cssBundle);
    for (const i of output.imports)
        if (!i.external && i.kind === 'import-statement') closure(metafile, i.path, seen);
    return seen;
}

// All that a browser asks for on its first visit, for the page that needs most: the frame, the page, what it draws with.
// Parts that are behind a click (other tabs, dialogs) come later.
function checkSize(metafile) {
    const main = Object.keys(metafile.outputs).find((p) => metafile.outputs[p].entryPoint === 'src/main.tsx');
    const frame = closure(metafile, main);
    const others = readdirSync(at('dist/assets')).filter((f) => !Object.keys(metafile.outputs).some((p) => basename(p) === f));
    const base = gz('index.html') + others.reduce((sum, f) => sum + gz(`assets/${f}`), 0);
    const size = (paths) => base + [...paths].reduce((sum, p) => sum + gz(`assets/${basename(p)}`), 0);
    let most = 0;
    for (const { path } of metafile.outputs[main].imports) {
        const { entryPoint = '' } = metafile.outputs[path];
        if (!entryPoint.startsWith('src/pages/')) continue;
        const total = size(closure(metafile, path, new Set(frame)));
        most = Math.max(most, total);
        say(`${String(total).padStart(7)} bytes gz  first visit to ${basename(entryPoint, '.tsx')}`);
    }
    say(`${String(size(Object.keys(metafile.outputs))).padStart(7)} bytes gz  all pages together; the frame alone ${size(frame)}`);
    if (most > MAX_BYTES) throw new Error(`a first visit loads ${most} bytes, compressed; at most ${MAX_BYTES} are allowed`);
}

try {
    install();
    checkTypes();
    rmSync(at('dist'), { recursive: true, force: true });
    mkdirSync(at('dist/assets'), { recursive: true });
    const { page, inputs } = await bundle();
    say(`in the bundle: ${writeLicences(inputs).join(', ')}`);
    checkSize(page);
} catch (error) {
    process.stderr.write(`webui: ${error.message}\n`);
    process.exit(1);
}
