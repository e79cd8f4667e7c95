// Unit list.ts: lists as one text, in the address bar and in questions to the master: a,b. A comma within an item is
// written \, and a backslash \\. Pure.

export function splitList(text: string): string[] {
    const items = [''];
    for (let i = 0; i < text.length; i++) {
        const c = text[i]!, next = text[i + 1];
        if (c === ',') items.push('');
        else if (c === '\\' && (next === ',' || next === '\\')) items[items.length - 1] += text[++i]!;
        else items[items.length - 1] += c;
    }
    return items.filter(Boolean);
}

export function joinList(items: Iterable<string | number>): string {
    return [...items].map((item) => String(item).replace(/[\\,]/g, '\\$&')).join();
}

// With the item, if it was not there, or without.
export function toggleItem(items: readonly string[], item: string): string[] {
    return items.includes(item) ? items.filter((i) => i !== item) : [...items, item];
}
