// A master of its own for a test, with real experiments: what tests/support/master.py is for Python.
import { spawn } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, readdirSync, rmSync, closeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const sources = join(dirname(fileURLToPath(import.meta.url)), '../../..');

// The module that tasks of tests import; there is one text of it.
const TASK = /^TASK = '''\n(.*?)^'''/ms.exec(readFileSync(join(sources, 'tests/support/master.py'), 'utf8'))[1];

// What look() returns, once that is true. A test that waits in vain has failed.
export async function waitFor(look, what, seconds = 60) {
    for (const end = Date.now() + seconds * 1000; ;) {
        const found = await look();
        if (found) return found;
        if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 25));
    }
}

function tarOf(files) {
    const blocks = [];
    for (const [name, text] of Object.entries(files)) {
        const body = Buffer.from(text), head = Buffer.alloc(512);
        const put = (at, value) => head.write(value, at);
        put(0, name);
        put(100, '0000644\0');
        put(108, '0000000\0');
        put(116, '0000000\0');
        put(124, `${body.length.toString(8).padStart(11, '0')}\0`);
        put(136, '00000000000\0');
        put(148, '        ');
        put(156, '0');
        put(257, 'ustar\0');
        put(263, '00');
        put(148, `${head.reduce((a, b) => a + b, 0).toString(8).padStart(6, '0')}\0 `);
        blocks.push(head, body, Buffer.alloc((512 - (body.length % 512)) % 512));
    }
    return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}

export class Master {
    constructor(det, ...args) {
        this.det = det;
        // While working on the page: what was built last, instead of what is in the program.
        this.args = process.env.DET_UI_DIR ? [...args, '--ui-dir', process.env.DET_UI_DIR] : args;
        this.data = mkdtempSync(join(tmpdir(), 'det-web-'));
        this.port = 0;
    }

    async start() {
        const log = openSync(join(this.data, 'stderr.txt'), 'a');
        this.process = spawn(this.det, ['master', '--data', this.data, '--port', String(this.port), ...this.args],
                             { stdio: ['ignore', 'ignore', log] });
        closeSync(log);
        const found = await waitFor(() => {
            if (this.process.exitCode !== null) throw new Error(`the master ended with ${this.process.exitCode}: ${this.said()}`);
            const now = this.announced();
            return now?.pid === this.process.pid && now;
        }, 'the master to start');
        this.url = found.url;
        this.token = found.token;
        this.port = Number(new URL(found.url).port); // the same one after a restart: pages know it
        return this;
    }

    announced() {
        try {
            return JSON.parse(readFileSync(join(this.data, 'master.json'), 'utf8'));
        } catch {
            return undefined;
        }
    }

    said() {
        return readFileSync(join(this.data, 'stderr.txt'), 'utf8').slice(-4000);
    }

    async end(signal) {
        const { process } = this;
        if (!process || process.exitCode !== null || process.signalCode) return;
        const gone = new Promise((resolve) => process.once('exit', resolve));
        process.kill(signal);
        await gone;
    }

    kill() {
        return this.end('SIGKILL');
    }

    async stop() {
        await this.end('SIGTERM');
        let left = [];
        try {
            left = readdirSync(join(this.data, 'run'));
        } catch { /* nothing ran */ }
        for (const name of left)
            try {
                process.kill(JSON.parse(readFileSync(join(this.data, 'run', name, 'shim.json'), 'utf8')).pid, 'SIGINT');
            } catch { /* it has ended */ }
        rmSync(this.data, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    }

    async call(method, path, body, headers = {}) {
        const raw = Buffer.isBuffer(body);
        const response = await fetch(`${this.url}/api/v1/${path}`, {
            method,
            headers: { Authorization: `Bearer ${this.token}`, ...(body && !raw ? { 'Content-Type': 'application/json' } : {}), ...headers },
            ...(body === undefined ? {} : { body: raw ? body : JSON.stringify(body) }),
        });
        const text = await response.text();
        if (!response.ok) throw Object.assign(new Error(`${method} ${path}: ${response.status} ${text}`), { status: response.status });
        return text ? JSON.parse(text) : {};
    }

    get(path) {
        return this.call('GET', path);
    }

    post(path, body) {
        return this.call('POST', path, body);
    }

    async create(config, files, more = {}) {
        const body = { config, ...more };
        if (files) body.code = (await this.call('POST', 'code', tarOf({ ...files, 'task.py': TASK }))).code;
        return (await this.post('experiments', body)).experiment.id;
    }

    async experiment(id) {
        return (await this.get(`experiments/${id}`)).experiment;
    }

    async trials(id, query = '') {
        return (await this.get(`experiments/${id}/trials?${query}`)).trials;
    }

    waitExperiment(id, ...states) {
        return waitFor(async () => {
            const row = await this.experiment(id);
            if (/^STATE_(ERROR|COMPLETED|CANCELED)$/.test(row.state) && !states.includes(row.state))
                throw new Error(`experiment ${id} is ${row.state}: ${row.reason}`);
            return states.includes(row.state) && row;
        }, `experiment ${id} to be ${states}`);
    }
}
