// Unit tar.ts: files as a tar file, for the master: what "det experiment create" sends of a folder. Pure.

export interface TarFile {
    path: string;
    bytes: Uint8Array;
}

const BLOCK = 512;

function header(path: string, size: number): Uint8Array {
    const out = new Uint8Array(BLOCK), text = new TextEncoder();
    const put = (at: number, value: string): void => out.set(text.encode(value), at);
    const [prefix, name] = splitPath(path);
    put(0, name);
    put(100, '0000644\0');
    put(108, '0000000\0');
    put(116, '0000000\0');
    put(124, `${size.toString(8).padStart(11, '0')}\0`);
    put(136, '00000000000\0');
    put(148, '        ');
    put(156, '0');
    put(257, 'ustar\u000000');
    put(345, prefix);
    const sum = out.reduce((a, b) => a + b, 0);
    put(148, `${sum.toString(8).padStart(6, '0')}\0 `);
    return out;
}

// A name has at most 100 bytes; a longer path is cut at a slash.
function splitPath(path: string): [string, string] {
    const bytes = (s: string): number => new TextEncoder().encode(s).length;
    if (bytes(path) <= 100) return ['', path];
    for (let i = path.indexOf('/'); i >= 0; i = path.indexOf('/', i + 1))
        if (bytes(path.slice(i + 1)) <= 100 && bytes(path.slice(0, i)) <= 155) return [path.slice(0, i), path.slice(i + 1)];
    throw new Error(`the name of a file is too long: ${path.slice(0, 60)}…`);
}

export function makeTar(files: readonly TarFile[]): Uint8Array {
    const padded = (n: number): number => Math.ceil(n / BLOCK) * BLOCK;
    const out = new Uint8Array(files.reduce((sum, f) => sum + BLOCK + padded(f.bytes.length), 2 * BLOCK));
    let at = 0;
    for (const f of files) {
        out.set(header(f.path, f.bytes.length), at);
        out.set(f.bytes, at + BLOCK);
        at += BLOCK + padded(f.bytes.length);
    }
    return out;
}
