// Unit charttable.tsx: the numbers behind a chart, for those who cannot see it or want to copy them.
import { Said } from '../parts/text.tsx';
import { formatNumber } from '../text/format.ts';
import { formatAxis } from './chart.tsx';
import { valueAt, type Axis, type Line } from './curve.ts';

const MAX_LINES = 12, MAX_ROWS = 200;

// Places where at least one line has a point, not more than can be read.
export function tableRows(lines: readonly Line[], max = MAX_ROWS): number[] {
    const all = [...new Set(lines.flatMap((l) => l.x))].sort((a, b) => a - b);
    const step = Math.ceil(all.length / max) || 1;
    return all.filter((_, i) => i % step === 0 || i === all.length - 1);
}

export function ChartTable({ lines, axis, nameOf }: { lines: readonly Line[]; axis: Axis; nameOf: (id: number) => string }) {
    const shown = lines.slice(0, MAX_LINES);
    return (
        <div class="numbers" tabIndex={0} role="region" aria-label="Numbers of the chart">
            <table>
                <thead>
                    <tr><th>At</th>{shown.map((l) => <th key={l.id} data-right=""><Said text={l.label || nameOf(l.id)} max={40} /></th>)}</tr>
                </thead>
                <tbody>
                    {tableRows(shown).map((x) => (
                        <tr key={x}>
                            <td>{formatAxis(axis, x)}</td>
                            {shown.map((l) => {
                                const y = valueAt(l.x, l.y, x);
                                return <td key={l.id} data-right="">{Number.isNaN(y) ? '' : formatNumber(y)}</td>;
                            })}
                        </tr>
                    ))}
                </tbody>
            </table>
            {lines.length > MAX_LINES && <p class="quiet">The first {MAX_LINES} of {lines.length} curves.</p>}
        </div>
    );
}
