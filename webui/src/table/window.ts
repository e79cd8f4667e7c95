// Unit window.ts: which rows of a long list are in the DOM. Pure.

export interface Range {
    first: number;
    end: number; // the first that is not
}

// Rows that can be seen, and some on either side; never more than max.
export function visibleRange(top: number, height: number, rowHeight: number, total: number, spare = 8, max = 60): Range {
    const seen = Math.max(0, Math.floor(top / rowHeight));
    const count = Math.ceil(height / rowHeight) + 1;
    const margin = Math.max(0, Math.min(spare, Math.floor((max - count) / 2)));
    const first = Math.max(0, Math.min(seen - margin, total - 1));
    const end = Math.min(total, Math.min(seen + count + margin, first + Math.max(max, 1)));
    return { first, end: Math.max(first, end) };
}

// Browsers cannot scroll further than some 16 million pixels. Longer lists are scrolled by proportion.
export const MAX_PIXELS = 8_000_000;

export interface Scale {
    pixels: number; // height of what is scrolled
    ratio: number; // lines' pixels for one pixel of scrolling, beyond the height of the window
}

export function scrollScale(total: number, rowHeight: number, height: number): Scale {
    const wanted = total * rowHeight;
    if (wanted <= MAX_PIXELS) return { pixels: wanted, ratio: 1 };
    return { pixels: MAX_PIXELS, ratio: (wanted - height) / (MAX_PIXELS - height) };
}
