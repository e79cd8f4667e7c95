// Unit experiment_trials.tsx: the table of trials: varied hyperparameters and metrics as columns, sorted, filtered by words
// and by brushes.
import { useMemo } from 'preact/hooks';
import { Swatch } from '../charts/swatch.tsx';
import { Menu, type Item } from '../parts/menu.tsx';
import { Await, Empty } from '../parts/status.tsx';
import { Ago, Said, State } from '../parts/text.tsx';
import type { ExperimentView } from '../state/experiment.ts';
import { useKeys } from '../state/keys.ts';
import { listParam, navigate, param, setParams } from '../state/route.ts';
import { HPARAM, type Trials } from '../state/trials.ts';
import { formatBrushes, parseBrushes, passes, sortRows, type Brush } from '../table/order.ts';
import { Table, type Column, type RowKey } from '../table/table.tsx';
import { TableMenu } from '../table/tablemenu.tsx';
import { parseFilter } from '../text/filter.ts';
import { formatCount, formatDuration, formatNumber, formatTime, formatValue, plural } from '../text/format.ts';
import { joinList, toggleItem } from '../text/list.ts';
import { stateOf } from '../text/state.ts';
import type { TabProps } from './experiment.tsx';

const took = (trials: Trials, row: number): number => (trials.number('endTime', row) || Date.now()) - trials.number('startTime', row);

function trialColumns(trials: Trials, metricTitle: string, chosen: string[]): Column<number>[] {
    const number = (key: string, title: string, format: (v: unknown) => string, width = 92, wide = false): Column<number> => ({
        key, title, width, right: true, sorts: true, wide, cell: (row) => <span class="num">{format(trials.value(key, row))}</span>,
        text: (row) => String(trials.value(key, row) ?? ''),
    });
    const count = (v: unknown): string => formatCount(Number(v));
    return [
        {
            key: 'id', title: 'Trial', width: 84, small: 72, sorts: true, text: (row) => String(trials.idAt(row)),
            cell: (row) => <><Swatch number={trials.ordinal(trials.idAt(row))} /><a href={`/trials/${trials.idAt(row)}`}>{trials.idAt(row)}</a></>,
        },
        { key: 'state', title: 'State', width: 104, small: 32, sorts: true, cell: (row) => <State state={trials.stateAt(row)} />, text: (row) => stateOf(trials.stateAt(row)).word },
        number('metric', metricTitle, formatNumber, Math.max(92, Math.min(200, metricTitle.length * 7 + 24))),
        ...chosen.map((name) => number(name, name, formatNumber, Math.min(240, name.length * 7 + 24))),
        ...trials.varied.map((name): Column<number> => ({
            key: name, title: name.slice(HPARAM.length), width: Math.max(92, Math.min(180, (name.length - HPARAM.length) * 7 + 24)), right: typeof trials.value(name, 0) === 'number', sorts: true,
            cell: (row) => <Said text={formatValue(trials.value(name, row))} max={40} />, text: (row) => String(trials.value(name, row) ?? ''),
        })),
        number('batches', 'Batches', count),
        number('restarts', 'Restarts', count, 76, true),
        { key: 'took', title: 'Took', width: 92, right: true, wide: true, cell: (row) => <span class="num quiet">{formatDuration(took(trials, row))}</span>, text: (row) => String(took(trials, row) / 1000) },
        {
            key: 'startTime', title: 'Started', width: 92, right: true, sorts: true, wide: true,
            cell: (row) => <span class="quiet"><Ago time={trials.number('startTime', row)} /></span>, text: (row) => formatTime(trials.number('startTime', row)),
        },
    ];
}

// The brushes in the address, and how to change one.
export function useBrushes(): { brushes: Brush[]; setBrush: (column: string, brush: Brush | null) => void } {
    const text = param('brush').value;
    const brushes = useMemo(() => parseBrushes(text), [text]);
    return {
        brushes,
        setBrush: (column, brush) => setParams({ brush: formatBrushes([...brushes.filter((b) => b.column !== column), ...(brush ? [brush] : [])]) }),
    };
}

// Rows that the filter and the brushes let through.
export function passingRows(trials: Trials, brushes: readonly Brush[], filter: string): number[] {
    const { words, bounds } = parseFilter(filter);
    const names = ['metric', ...trials.hparams];
    const all = [...brushes, ...bounds.map((b): Brush => ({
        column: names.find((n) => n === b.name || n === HPARAM + b.name) ?? b.name, values: null,
        low: b.op === '>' ? b.value : -Infinity, high: b.op === '<' ? b.value : Infinity,
    }))];
    const rows: number[] = [];
    for (let row = 0; row < trials.count; row++) {
        const fits = !words || [trials.idAt(row), stateOf(trials.stateAt(row)).word, ...trials.hparams.map((n) => formatValue(trials.value(n, row)))]
            .some((v) => String(v).toLowerCase().includes(words.toLowerCase()));
        if (fits && all.every((b) => passes(b, trials.value(b.column, row)))) rows.push(row);
    }
    return rows;
}

export const selectedTrials = (): number[] => listParam('sel').map(Number);

interface TrialTableProps {
    view: ExperimentView;
    metric: string;
    smallerIsBetter: boolean;
    rows?: number;
}

export function TrialTable({ view, metric, smallerIsBetter, rows: height }: TrialTableProps) {
    const { trials, hot } = view;
    const version = trials.version.value;
    const { brushes } = useBrushes();
    const filter = param('q').value, chosen = listParam('cols').filter((c) => c.includes(':'));
    const sort = { by: param('sort', 'metric').value, down: param('sort').value ? param('down').value === '1' : !smallerIsBetter };
    const rows = useMemo(() => sortRows(passingRows(trials, brushes, filter), (row) => trials.value(sort.by, row), sort.down),
                         [version, brushes, filter, sort.by, sort.down]);
    const best = useMemo(() => trials.ranked(smallerIsBetter)[0], [version, smallerIsBetter]);
    const columns = trialColumns(trials, metric || 'metric', chosen);
    const selected: ReadonlySet<RowKey> = new Set(selectedTrials());
    const compare = (): void => { if (selected.size) navigate(`/compare?trials=${[...selected].join()}`); };
    useKeys([{ key: 'c', does: 'Compare the selected ones', run: compare }]);
    return (
        <>
            <div class="tools">
                <input type="search" class="filter" placeholder="Filter: learning_rate<0.01, failed" aria-label="Filter trials" value={filter}
                       onInput={(e) => setParams({ q: e.currentTarget.value })} />
                <span class="quiet num">{rows.length === trials.count ? '' : `${formatCount(rows.length)} of `}{plural(trials.count, 'trial')}</span>
                {brushes.length > 0 && <button type="button" onClick={() => setParams({ brush: null })}>Clear {plural(brushes.length, 'range')}</button>}
                <span class="end">
                    {selected.size > 0 && <button type="button" class="main" onClick={compare}>Compare {selected.size} <kbd>c</kbd></button>}
                    {selected.size > 0 && <button type="button" class="plain" onClick={() => setParams({ sel: null })}>Clear</button>}
                    <ColumnMenu view={view} chosen={chosen} />
                    <TableMenu name={`experiment-${view.id}-trials`} columns={columns} rows={() => Promise.resolve(rows)} />
                </span>
            </div>
            <Await of={view.table} lines={8}>
                {() => (
                    <Table name="Trials" main columns={columns} source={{ total: rows.length, at: (i) => rows[i] }} keyOf={(row) => trials.idAt(row)}
                           hrefOf={(row) => `/trials/${trials.idAt(row)}`} sort={sort} onSort={(s) => setParams({ sort: s.by, down: s.down ? 1 : 0 })}
                           selected={selected} onSelect={(keys) => setParams({ sel: [...keys].join() })} {...(height ? { rows: height } : {})}
                           onHover={(row) => (hot.value = row === undefined ? null : trials.idAt(row))}
                           emphasis={(row) => (row === best && trials.count > 1 && !Number.isNaN(trials.number('metric', row)) ? 'best' : undefined)}>
                        <Empty><p>{trials.count ? 'No trial is like that.' : 'There are no trials yet.'}</p></Empty>
                    </Table>
                )}
            </Await>
        </>
    );
}

const KINDS = ['last', 'min', 'max'];

function ColumnMenu({ view, chosen }: { view: ExperimentView; chosen: string[] }) {
    const toggle = (name: string): void => setParams({ cols: joinList(toggleItem(chosen, name)) });
    const items: Item[] = (view.names.data.value?.names ?? []).flatMap((m) => KINDS.map((kind) => {
        const name = `${m.group}.${m.name}:${kind}`;
        return { label: name, checked: chosen.includes(name), run: () => toggle(name) };
    }));
    return <Menu label="Columns" side="right" items={items} />;
}

export function TrialsTab({ view, about }: TabProps) {
    const e = about.experiment;
    return <TrialTable view={view} metric={e.searcherMetric ?? ''} smallerIsBetter={e.smallerIsBetter} />;
}
