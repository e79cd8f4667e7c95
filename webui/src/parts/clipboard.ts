// Unit clipboard.ts: copies text, also where browsers keep the clipboard from pages without TLS.

export async function copyText(text: string): Promise<void> {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (!done) throw new Error('the browser does not let this page copy');
}
