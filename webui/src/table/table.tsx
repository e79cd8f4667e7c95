// Unit table.tsx: tables of any length: only the rows that can be seen are in the DOM. Sorting, selecting and what rows
// show belong to the page.
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { useKeys, type Key } from '../state/keys.ts';
import { navigate } from '../state/route.ts';
import type { Source } from './source.ts';
import { visibleRange, type Range } from './window.ts';

export const ROW_HEIGHT = 28;

export interface Column<R> {
    key: string;
    title: string;
    hint?: string;
    width: number; // pixels; the columns with grow share what is left
    grow?: boolean;
    small?: number; // the width on small screens
    right?: boolean; // numbers
    sorts?: boolean;
    wide?: boolean; // left out on small screens
    cell: (row: R) => ComponentChildren;
    text: (row: R) => string; // for CSV and LaTeX
}

export interface Sort {
    by: string;
    down: boolean;
}

export type RowKey = string | number;

export interface TableProps<R> {
    name: string;
    columns: Column<R>[];
    source: Source<R>;
    keyOf: (row: R) => RowKey;
    hrefOf?: (row: R) => string;
    onOpen?: (row: R) => void; // of rows without a page
    sort?: Sort;
    onSort?: (sort: Sort) => void;
    selected?: ReadonlySet<RowKey>;
    onSelect?: (keys: ReadonlySet<RowKey>) => void;
    onActions?: (row: R) => void; // "."
    onHover?: (row: R | undefined) => void;
    emphasis?: (row: R) => string | undefined;
    rows?: number; // height in rows; without it the table fills its parent
    main?: boolean; // takes the keys of the page
    children?: ComponentChildren; // instead of rows, when there are none
}

const widthOf = <R,>(c: Column<R>, narrow: boolean): number => (narrow && c.small) || c.width;

function toggled(set: ReadonlySet<RowKey> | undefined, key: RowKey): ReadonlySet<RowKey> {
    const next = new Set(set);
    if (!next.delete(key)) next.add(key);
    return next;
}

export function Table<R>(props: TableProps<R>) {
    const { source, columns } = props;
    const scroller = useRef<HTMLDivElement>(null);
    const range = useSignal<Range>({ first: 0, end: 40 }), active = useSignal(-1), narrow = useSignal(false);
    const measure = (): void => {
        const box = scroller.current;
        if (!box) return;
        const next = visibleRange(box.scrollTop, box.clientHeight, ROW_HEIGHT, source.total);
        const old = range.peek();
        if (next.first !== old.first || next.end !== old.end) range.value = next;
        narrow.value = box.clientWidth < 640;
    };
    useLayoutEffect(measure);
    useEffect(() => {
        const watch = new ResizeObserver(measure);
        watch.observe(scroller.current!);
        return () => watch.disconnect();
    }, []);
    useEffect(() => source.need?.(range.value.first, range.value.end), [source, range.value]);
    const shown = narrow.value ? columns.filter((c) => !c.wide) : columns;
    useKeys(props.main ? tableKeys(props, active, scroller) : []);
    return (
        <div class="scroll" ref={scroller} onScroll={measure} data-fills={props.rows ? undefined : ''}
             style={props.rows ? { height: `${(props.rows + 1) * ROW_HEIGHT + 2}px` } : undefined}>
            <table role="grid" aria-label={props.name} aria-rowcount={source.total + 1} tabIndex={0} data-main={props.main ? '' : undefined}
                   aria-activedescendant={active.value >= 0 ? `row-${active.value}` : undefined}
                   style={{ minWidth: `${shown.reduce((sum, c) => sum + widthOf(c, narrow.value), props.onSelect ? 32 : 0)}px` }}>
                <colgroup>
                    {props.onSelect && <col style={{ width: '32px' }} />}
                    {shown.map((c) => <col key={c.key} style={c.grow ? undefined : { width: `${widthOf(c, narrow.value)}px` }} />)}
                </colgroup>
                <Head {...props} columns={shown} narrow={narrow.value} />
                <Body {...props} columns={shown} range={range.value} active={active} />
            </table>
            {source.total === 0 && props.children}
        </div>
    );
}

// On small screens some columns have only room for a sign.
const isSign = <R,>(c: Column<R>): boolean => !!c.small && c.small < 40;

function Head<R>({ columns, sort, onSort, onSelect, selected, source, keyOf, narrow }: TableProps<R> & { narrow: boolean }) {
    const all = (): void => {
        const keys = new Set<RowKey>();
        if (!selected?.size)
            for (let i = 0; i < Math.min(source.total, 100); i++) {
                const row = source.at(i);
                if (row !== undefined) keys.add(keyOf(row));
            }
        onSelect?.(keys);
    };
    return (
        <thead>
            <tr aria-rowindex={1}>
                {onSelect && (
                    <th class="pick">
                        <input type="checkbox" aria-label={selected?.size ? 'Select none' : 'Select all'} checked={!!selected?.size && selected.size >= source.total}
                               indeterminate={!!selected?.size && selected.size < source.total} onChange={all} />
                    </th>
                )}
                {columns.map((c) => {
                    const by = sort?.by === c.key ? sort : undefined;
                    return (
                        <th key={c.key} data-right={c.right ? '' : undefined} title={c.hint}
                            aria-sort={by ? (by.down ? 'descending' : 'ascending') : undefined}>
                            {c.sorts && onSort ? (
                                <button type="button" class="plain" onClick={() => onSort({ by: c.key, down: by ? !by.down : false })}>
                                    <bdi class={narrow && isSign(c) ? 'unseen' : undefined}>{c.title}</bdi><span aria-hidden="true" class="caret">{by ? (by.down ? '▾' : '▴') : ''}</span>
                                </button>
                            ) : <bdi class={narrow && isSign(c) ? 'unseen' : undefined}>{c.title}</bdi>}
                        </th>
                    );
                })}
            </tr>
        </thead>
    );
}

function Body<R>(props: TableProps<R> & { range: Range; active: Signal<number> }) {
    const { source, range, columns } = props;
    const end = Math.min(range.end, source.total), first = Math.min(range.first, end);
    const width = columns.length + (props.onSelect ? 1 : 0);
    const rows = [];
    for (let i = first; i < end; i++) rows.push(<Row key={i} {...props} index={i} row={source.at(i)} />);
    return (
        <tbody>
            {first > 0 && <tr aria-hidden="true" class="gap" style={{ height: `${first * ROW_HEIGHT}px` }}><td colSpan={width} /></tr>}
            {rows}
            {end < source.total && (
                <tr aria-hidden="true" class="gap" style={{ height: `${(source.total - end) * ROW_HEIGHT}px` }}><td colSpan={width} /></tr>
            )}
        </tbody>
    );
}

function Row<R>(props: TableProps<R> & { index: number; row: R | undefined; active: Signal<number> }) {
    const { index, row, columns, keyOf, selected, onSelect, active } = props;
    const key = row === undefined ? undefined : keyOf(row);
    const isSelected = key !== undefined && !!selected?.has(key);
    const open = (event: MouseEvent): void => {
        active.value = index;
        const target = event.target as Element;
        if (row === undefined || target.closest('a,button,input,label') || getSelection()?.toString()) return;
        if (props.hrefOf && (event.ctrlKey || event.metaKey)) window.open(props.hrefOf(row));
        else openRow(props, row);
    };
    return (
        <tr id={`row-${index}`} aria-rowindex={index + 2} aria-selected={onSelect ? isSelected : undefined} onClick={open}
            data-active={active.value === index ? '' : undefined} data-opens={props.hrefOf || props.onOpen ? '' : undefined}
            data-emphasis={row !== undefined ? props.emphasis?.(row) : undefined}
            onMouseEnter={props.onHover && (() => props.onHover!(row))} onMouseLeave={props.onHover && (() => props.onHover!(undefined))}>
            {onSelect && (
                <td class="pick">
                    {key !== undefined && (
                        <input type="checkbox" aria-label={`Select ${key}`} checked={isSelected}
                               onChange={() => onSelect(toggled(selected, key))} />
                    )}
                </td>
            )}
            {columns.map((c) => (
                <td key={c.key} data-right={c.right ? '' : undefined}>{row === undefined ? <span class="blank" /> : c.cell(row)}</td>
            ))}
        </tr>
    );
}

function tableKeys<R>(props: TableProps<R>, active: Signal<number>, scroller: { current: HTMLDivElement | null }): Key[] {
    const { source } = props;
    const move = (step: number): void => {
        const to = Math.max(0, Math.min(source.total - 1, active.value + step));
        active.value = to;
        const box = scroller.current!;
        const top = to * ROW_HEIGHT, bottom = top + 2 * ROW_HEIGHT;
        if (top < box.scrollTop) box.scrollTop = top;
        else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
    };
    const withRow = (run: (row: R) => void) => () => {
        const row = source.at(active.value);
        if (row !== undefined) run(row);
    };
    return [
        { key: 'j', does: 'Next row', run: () => move(1) },
        { key: 'k', does: 'Previous row', run: () => move(-1) },
        ...(props.hrefOf || props.onOpen ? [{ key: 'Enter', does: 'Open the row', run: (e: KeyboardEvent) => enter(e, withRow((r) => openRow(props, r))) }] : []),
        ...(props.onSelect ? [{ key: 'x', does: 'Select the row', run: withRow((r) => props.onSelect!(toggled(props.selected, props.keyOf(r)))) }] : []),
        ...(props.onActions ? [{ key: '.', does: 'What can be done with the row', run: withRow(props.onActions) }] : []),
    ];
}

function openRow<R>(props: TableProps<R>, row: R): void {
    if (props.hrefOf) navigate(props.hrefOf(row));
    else props.onOpen?.(row);
}

// Enter on a button or a link is theirs.
function enter(event: KeyboardEvent, run: () => void): void {
    const target = event.target as HTMLElement;
    if (target.closest('a,button,summary,input')) target.click();
    else run();
}
