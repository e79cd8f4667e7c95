// Unit tablemenu.tsx: what can be done with a whole table: as CSV, as LaTeX, its address.
import { copyText } from '../parts/clipboard.ts';
import { attempt } from '../parts/dialog.tsx';
import { Menu } from '../parts/menu.tsx';
import { download, toCsv, toLatex, type TextColumn } from './export.ts';

export function TableMenu<R>({ name, columns, rows }: { name: string; columns: TextColumn<R>[]; rows: () => Promise<readonly R[]> }) {
    const save = (make: typeof toCsv, ending: string, type: string) => () =>
        void attempt(async () => download(`${name}.${ending}`, type, make(columns, await rows())));
    return (
        <Menu label="Export" side="right" items={[
            { label: 'CSV', run: save(toCsv, 'csv', 'text/csv') },
            { label: 'LaTeX', run: save(toLatex, 'tex', 'application/x-tex') },
            { label: 'Copy the address of this view', run: () => void attempt(() => copyText(location.href), 'The address was copied.') },
        ]} />
    );
}
