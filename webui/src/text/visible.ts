// Unit visible.ts: what people wrote, made fit to be shown: nothing in it acts on what stands around it. Pure.

// Controls, and marks that turn the direction of text around until further notice.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ufeff]/g;

export const MAX_SHOWN = 500; // characters of a text in a line or a cell

function nameHidden(c: string): string {
    const code = c.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code); // ␛ and its like
    return `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`;
}

export function showHidden(text: string): string {
    return text.replace(HIDDEN, nameHidden);
}

// One line of at most so many characters.
export function clip(text: string, max = MAX_SHOWN): string {
    const part = text.length > max ? `${text.slice(0, max)}…` : text;
    return showHidden(part.replace(/\s*\n\s*/g, ' ⏎ '));
}
