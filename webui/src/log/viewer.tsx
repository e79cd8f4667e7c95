// Unit viewer.tsx: a log of any length: scroll anywhere, follow its end, search, filter by level, rank and stream.
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { useSignal, type Signal } from '@preact/signals';
import { isAbort, wordsOf } from '../api/client.ts';
import { listen } from '../api/stream.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Menu } from '../parts/menu.tsx';
import { Failed, Loading } from '../parts/status.tsx';
import { epoch } from '../state/connection.ts';
import { useKeys } from '../state/keys.ts';
import { listParam, param, setParams } from '../state/route.ts';
import { scrollScale, visibleRange } from '../table/window.ts';
import { formatClock, formatCount, formatTime, parseTime } from '../text/format.ts';
import { stripAnsi } from '../text/ansi.ts';
import { joinList, splitList, toggleItem } from '../text/list.ts';
import { showHidden } from '../text/visible.ts';
import { Coloured } from './ansi.tsx';
import { LogStore, isFiltered, type LogFilter, type Mark } from './store.ts';

const LINE = 18; // pixels
const LEVELS = ['TRACE', 'DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'];
const LONG = 2000;

interface Position {
    top: number; // of the scrolled box
    height: number;
}

export function LogViewer({ trial, ranks, ended }: { trial: number; ranks: number; ended: boolean }) {
    const store = useMemo(() => new LogStore(trial), [trial]);
    const follow = useSignal(!ended && !param('line').value), position = useSignal<Position>({ top: 0, height: 600 });
    const matches = useSignal<Mark[]>([]), at = useSignal(-1), searching = useSignal<'' | 'yes' | string>('');
    const box = useRef<HTMLDivElement>(null), find = useRef<HTMLInputElement>(null);
    const filter: LogFilter = { level: param('level').value, rankId: param('rank').value, stdtype: param('stream').value };
    useStore(store, trial, filter);
    useFollow(box, store, follow);
    const word = param('find').value;
    const scrollTo = (line: number): void => goToLine(box.current!, store.total.peek(), line);
    useSearch(store, word, filter, matches, at, searching, (m) => { follow.value = false; scrollTo(m[0]); });
    useEffect(() => {
        if (store.loaded.value && param('line').peek()) scrollTo(Number(param('line').peek()) - 1);
    }, [store.loaded.value]);
    const jump = (step: number): void => {
        if (!matches.value.length) return;
        at.value = (at.value + step + matches.value.length) % matches.value.length;
        follow.value = false;
        scrollTo(matches.value[at.value]![0]);
    };
    useKeys([
        { key: 's', does: 'Search in the log', run: () => find.current?.focus() },
        { key: 'N', does: 'Previous match', run: () => jump(-1) },
        { key: 'n', does: 'Next match', run: () => jump(1) },
        { key: 'f', does: 'Follow the end', run: () => (follow.value = !follow.value) },
        { key: 'g g', does: 'Beginning of the log', run: () => { follow.value = false; scrollTo(0); } },
        { key: 'G', does: 'End of the log', run: () => scrollTo(store.total.peek()) },
    ]);
    return (
        <div class="log">
            <div class="tools" role="toolbar" aria-label="Log">
                <input type="search" ref={find} placeholder="Search" aria-label="Search in the log" value={word}
                       onInput={(e) => setParams({ find: e.currentTarget.value })}
                       onKeyDown={(e) => { if (e.key === 'Enter') jump(e.shiftKey ? -1 : 1); if (e.key === 'Escape') find.current?.blur(); }} />
                <span class="quiet num found-count" role="status">{searchWords(word, matches.value.length, at.value, searching.value)}</span>
                <button type="button" aria-label="Previous match" onClick={() => jump(-1)} disabled={!matches.value.length}>↑</button>
                <button type="button" aria-label="Next match" onClick={() => jump(1)} disabled={!matches.value.length}>↓</button>
                <LogFilters ranks={ranks} />
                <span class="end quiet num">{formatCount(store.total.value)}{store.counting.value ? '+' : ''} lines</span>
                <label class="inline"><input type="checkbox" checked={follow.value} onChange={() => (follow.value = !follow.value)} /> follow</label>
                <a class="button" href={`/api/v1/trials/${trial}/logs?limit=-1`} download={`trial-${trial}-log.json`}>Download</a>
            </div>
            {store.error.value && <Failed words={store.error.value} retry={() => void store.refresh()} />}
            <div class="lines" ref={box} tabIndex={0} role="region" aria-label="Lines of the log"
                 onScroll={(e) => onScroll(e.currentTarget, position, follow)}>
                {!store.loaded.value && !store.error.value && <Loading lines={12} />}
                {store.loaded.value && !store.total.value && <p class="nothing quiet">{isFiltered(filter) ? 'No line is like that.' : 'Nothing was printed yet.'}</p>}
                <Lines store={store} box={box} position={position} word={word} numbered={!isFiltered(filter)} found={matches.value[at.value]?.[0] ?? -1} />
            </div>
        </div>
    );
}

function searchWords(word: string, count: number, at: number, searching: string): string {
    if (!word) return '';
    if (searching && searching !== 'yes') return searching;
    const more = searching === 'yes' ? '…' : '';
    return count ? `${formatCount(at + 1)} of ${formatCount(count)}${more}` : searching === 'yes' ? 'searching…' : 'not found';
}

function LogFilters({ ranks }: { ranks: number }) {
    const toggle = (name: string, value: string): void => {
        setParams({ [name]: joinList(toggleItem(splitList(param(name).peek()), value)) });
    };
    const menu = (title: string, name: string, values: [string, string][]) => {
        const now = listParam(name);
        return <Menu label={now.length ? `${title} (${now.length})` : title} items={values.map(([value, label]) => ({ label, checked: now.includes(value), run: () => toggle(name, value) }))} />;
    };
    return (
        <>
            {menu('Rank', 'rank', Array.from({ length: Math.max(1, ranks) }, (_, i) => [String(i), `rank ${i}`]))}
            {menu('Level', 'level', LEVELS.map((l) => [`LOG_LEVEL_${l}`, l.toLowerCase()]))}
            {menu('Stream', 'stream', [['stdout', 'stdout'], ['stderr', 'stderr']])}
        </>
    );
}

function useStore(store: LogStore, trial: number, filter: LogFilter): void {
    useEffect(() => void store.setFilter(filter), [store, filter.level, filter.rankId, filter.stdtype]);
    useEffect(() => { if (store.loaded.peek()) void store.refresh(); }, [epoch.value]);
    useEffect(() => {
        let timer = 0;
        const stop = listen([`logs:${trial}`], ({ name, data }) => {
            if (name !== 'logs' || data.trialId !== trial) return;
            timer ||= window.setTimeout(() => { timer = 0; void store.refresh(); }, 150);
        });
        return () => { stop(); clearTimeout(timer); store.stop(); };
    }, [store]);
}

function useFollow(box: { current: HTMLDivElement | null }, store: LogStore, follow: Signal<boolean>): void {
    useLayoutEffect(() => {
        if (follow.value && box.current) box.current.scrollTop = box.current.scrollHeight;
    }, [store.total.value, store.version.value, follow.value]);
}

// Scrolling up ends following, reaching the end begins it again.
function onScroll(box: HTMLElement, position: Signal<Position>, follow: Signal<boolean>): void {
    const up = box.scrollTop < position.peek().top;
    position.value = { top: box.scrollTop, height: box.clientHeight };
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 2;
    if (up && !atEnd) follow.value = false;
}

function goToLine(box: HTMLElement, total: number, line: number): void {
    const scale = scrollScale(total, LINE, box.clientHeight);
    box.scrollTop = Math.max(0, (line * LINE) / scale.ratio - box.clientHeight / 2 / scale.ratio);
}

function useSearch(store: LogStore, word: string, filter: LogFilter, matches: Signal<Mark[]>, at: Signal<number>, searching: Signal<string>, first: (m: Mark) => void): void {
    useEffect(() => {
        matches.value = [];
        at.value = -1;
        searching.value = '';
        if (!word) return undefined;
        const abort = new AbortController();
        const timer = setTimeout(() => {
            searching.value = 'yes';
            store.search(word, abort.signal, (some, done) => {
                const opens = !matches.peek().length && some.length;
                matches.value = [...matches.peek(), ...some];
                if (done) searching.value = '';
                if (!opens) return;
                at.value = 0;
                first(some[0]!);
            }).catch((error) => { if (!isAbort(error)) searching.value = wordsOf(error); });
        }, 150);
        return () => { clearTimeout(timer); abort.abort(); };
    }, [store, word, filter.level, filter.rankId, filter.stdtype]);
}

interface LinesProps {
    store: LogStore;
    box: { current: HTMLDivElement | null };
    position: Signal<Position>;
    word: string;
    numbered: boolean;
    found: number;
}

function Lines({ store, box, position, word, numbered, found }: LinesProps) {
    const opened = useSignal<string | null>(null);
    void store.version.value;
    const total = store.total.value;
    const height = box.current?.clientHeight || position.value.height;
    const scale = scrollScale(total, LINE, height), top = position.value.top;
    const range = visibleRange(top * scale.ratio, height, LINE, total, 10, 80);
    useEffect(() => store.need(range.first, range.end), [range.first, range.end, store.version.value]);
    useEffect(() => {
        const watch = new ResizeObserver(() => (position.value = { top: box.current!.scrollTop, height: box.current!.clientHeight }));
        watch.observe(box.current!);
        return () => watch.disconnect();
    }, []);
    // In a scaled log the lines that are seen stay where the scrollbar is.
    const offset = scale.ratio === 1 ? range.first * LINE : top - (top * scale.ratio - range.first * LINE);
    const rows = [];
    for (let n = range.first; n < range.end; n++) {
        const line = store.at(n), text = line?.log ?? '';
        rows.push(
            <div key={n} class="log-line" data-level={line?.level} data-found={n === found ? '' : undefined}>
                {numbered && <a class="no" href={`?line=${n + 1}`} aria-hidden="true" tabIndex={-1}>{n + 1}</a>}
                <time title={line ? formatTime(parseTime(line.timestamp)) : ''}>{line ? formatClock(parseTime(line.timestamp)) : ''}</time>
                {line ? <Coloured text={text} mark={word} /> : <span class="blank" />}
                {text.length > LONG && <button type="button" class="small" onClick={() => (opened.value = text)}>show all</button>}
            </div>,
        );
    }
    return (
        <div class="log-space" style={{ height: `${scale.pixels}px` }}>
            <div class="log-window" style={{ transform: `translateY(${offset}px)` }}>{rows}</div>
            {opened.value !== null && (
                <Dialog title="A long line" wide close={() => (opened.value = null)}>
                    <pre class="whole" tabIndex={0}><bdi>{showHidden(stripAnsi(opened.value))}</bdi></pre>
                    <div class="buttons"><button type="button" autofocus onClick={() => (opened.value = null)}>Close</button></div>
                </Dialog>
            )}
        </div>
    );
}
