// Unit place.ts: places in a text. Pure.

export function offsetOf(text: string, line: number, column: number): number {
    const lines = text.split('\n').slice(0, Math.max(0, line - 1));
    const start = lines.reduce((sum, l) => sum + l.length + 1, 0);
    const end = text.indexOf('\n', start);
    return Math.min(start + Math.max(0, column - 1), end < 0 ? text.length : end);
}

// What Enter adds: as much space as the line has, and more behind a key.
export function indentAfter(text: string, at: number): string {
    const line = text.slice(text.lastIndexOf('\n', at - 1) + 1, at);
    const space = /^ */.exec(line)![0];
    return space + (/:\s*$/.test(line) ? '  ' : '');
}
