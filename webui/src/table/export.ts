// Unit export.ts: a table as CSV and as LaTeX. Pure, but for download().

export interface TextColumn<R> {
    title: string;
    right?: boolean;
    text: (row: R) => string;
}

// A text that a spreadsheet would take for a formula begins with an apostrophe.
function csvCell(text: string): string {
    const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text.replace('−', '-'))) ? `'${text}` : text.replace(/^−/, '-');
    return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function toCsv<R>(columns: TextColumn<R>[], rows: readonly R[]): string {
    const lines = [columns.map((c) => csvCell(c.title)), ...rows.map((row) => columns.map((c) => csvCell(c.text(row))))];
    return lines.map((cells) => `${cells.join(',')}\r\n`).join('');
}

const LATEX: Record<string, string> = {
    '\\': '\\textbackslash{}', '~': '\\textasciitilde{}', '^': '\\textasciicircum{}', '−': '$-$', '…': '\\dots{}', '–': '--',
};

function latexCell(text: string): string {
    return text.replace(/[\\~^−…–]|[&%$#_{}]/g, (c) => LATEX[c] ?? `\\${c}`).replace(/\s+/g, ' ');
}

export function toLatex<R>(columns: TextColumn<R>[], rows: readonly R[]): string {
    const line = (cells: string[]): string => `  ${cells.join(' & ')} \\\\\n`;
    return `\\begin{tabular}{${columns.map((c) => (c.right ? 'r' : 'l')).join('')}}\n  \\toprule\n` +
        line(columns.map((c) => latexCell(c.title))) + '  \\midrule\n' +
        rows.map((row) => line(columns.map((c) => latexCell(c.text(row))))).join('') +
        '  \\bottomrule\n\\end{tabular}\n';
}

export function download(name: string, type: string, text: string): void {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
