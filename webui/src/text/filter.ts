// Unit filter.ts: what is typed into a filter: words, and bounds such as metric<0.03. Pure.

export interface Bound {
    name: string;
    op: '<' | '>';
    value: number;
}

export interface Filter {
    words: string;
    bounds: Bound[];
}

const BOUND = /(?:^|\s)([\w./-]+)\s*(<=?|>=?)\s*(-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?=\s|$)/gi;

export function parseFilter(text: string): Filter {
    const bounds: Bound[] = [];
    const words = text.replace(BOUND, (_, name: string, op: string, value: string) => {
        bounds.push({ name, op: op[0] as '<' | '>', value: Number(value) });
        return ' ';
    });
    return { words: words.replace(/\s+/g, ' ').trim(), bounds };
}

// A text in small letters is found in capitals, too.
export const isAnyCase = (text: string): boolean => text === text.toLowerCase();
