// Unit experiments.tsx: the list of experiments: filter, sort, select, act.
import { useEffect, useMemo } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { get } from '../api/client.ts';
import { listen } from '../api/stream.ts';
import type { Experiment, GetExperimentsQuery } from '../api/types.ts';
import { experimentItems } from '../parts/actions.tsx';
import { ActionDialog } from '../parts/actiondialog.tsx';
import { Menu, type Item } from '../parts/menu.tsx';
import { Failed, Loading } from '../parts/status.tsx';
import { useKeys } from '../state/keys.ts';
import { listParam, navigate, param, setParams, url } from '../state/route.ts';
import { useResource } from '../state/resource.ts';
import { users } from '../state/session.ts';
import { TableMenu } from '../table/tablemenu.tsx';
import { usePages } from '../table/source.ts';
import { Table, type RowKey } from '../table/table.tsx';
import { parseFilter } from '../text/filter.ts';
import { formatCount } from '../text/format.ts';
import { joinList, splitList, toggleItem } from '../text/list.ts';
import { STATE_FILTERS } from '../text/state.ts';
import { experimentColumns } from './experiment_columns.tsx';
import { useQueue } from './queue_parts.tsx';
import { Welcome } from './welcome.tsx';

interface List {
    experiments: Experiment[];
    pagination: { total: number };
}

const SORT_NAMES: Record<string, string> = { best: 'bestTrialSearcherMetric', started: 'startTime', trials: 'numTrials', owner: 'userId' };

const stateNames = (groups: string[]): string =>
    STATE_FILTERS.filter(([word]) => groups.includes(word)).flatMap(([, states]) => states).join(',');

// The question to the master that the address bar asks.
export function experimentsQuery(at: URL): GetExperimentsQuery & Record<string, string | number | boolean | undefined> {
    const p = at.searchParams;
    const filter = parseFilter(p.get('q') ?? '');
    const bound = (op: '<' | '>') => filter.bounds.find((b) => b.op === op)?.value;
    const sort = p.get('sort') ?? 'id', down = p.has('sort') ? p.get('down') === '1' : true;
    return {
        states: stateNames(splitList(p.get('state') ?? '')),
        labels: p.get('label') ?? '',
        userIds: p.get('owner') ?? '',
        ...(p.get('archived') === 'all' ? {} : { archived: p.get('archived') === 'only' }),
        search: filter.words,
        metricBelow: bound('<'),
        metricAbove: bound('>'),
        sortBy: SORT_NAMES[sort] ?? sort,
        orderBy: down ? 'ORDER_BY_DESC' : 'ORDER_BY_ASC',
    };
}

export default function ExperimentsPage() {
    const query = experimentsQuery(url.value);
    const pages = usePages(JSON.stringify(query), (offset, limit, abort) =>
        get<List>('/experiments', { ...query, offset, limit }, abort).then((l) => ({ rows: l.experiments, total: l.pagination.total })),
        (e) => e.id);
    useEffect(() => listen(['experiments', 'queue'], ({ name, data }) => {
        if (name === 'experiment') pages.patch(data as unknown as Experiment);
        if (name === 'deleted') pages.reread();
    }), []);
    const { jobs } = useQueue();
    const jobList = jobs.data.value?.jobs;
    const selected: ReadonlySet<RowKey> = new Set(listParam('sel').map(Number));
    const chosen = pages.loadedRows().filter((e) => selected.has(e.id));
    const acting = useSignal<Experiment[]>([]);
    const view = pages.view.value;
    const columns = experimentColumns(useMemo(() => new Map(jobList?.map((j) => [j.experimentId, j])), [jobList]));
    const compare = (): void => { if (selected.size) navigate(`/compare?experiments=${[...selected].join()}`); };
    useKeys([{ key: 'c', does: 'Compare the selected ones', run: compare }]);
    const sort = { by: param('sort', 'id').value, down: param('sort').value ? param('down').value === '1' : true };
    return (
        <section class="page fills" aria-labelledby="title">
            <div class="tools">
                <h1 id="title">Experiments</h1>
                <Filters />
                <span class="end"><Counts /></span>
                <TableMenu name="experiments" columns={columns} rows={() =>
                    get<List>('/experiments', { ...query, limit: -1 }).then((l) => l.experiments)} />
            </div>
            {pages.error.value && !view.total && <Failed words={pages.error.value.message} retry={() => pages.restart()} />}
            {view.isLoading ? <Loading lines={12} /> : (
                <Table name="Experiments" main columns={columns} source={view} keyOf={(e) => e.id} hrefOf={(e) => `/experiments/${e.id}`}
                       sort={sort} onSort={(s) => setParams({ sort: s.by, down: s.down ? 1 : 0 })}
                       selected={selected} onSelect={(keys) => setParams({ sel: [...keys].join() })}
                       onActions={(e) => (acting.value = [e])}>
                    <Welcome filtered={isFiltered()} />
                </Table>
            )}
            <SelectionBar count={selected.size} chosen={chosen} compare={compare} />
            {acting.value.length > 0 && (
                <ActionDialog title={`Experiment ${acting.value[0]!.id}`} items={experimentItems(acting.value)} close={() => (acting.value = [])} />
            )}
        </section>
    );
}

const isFiltered = (): boolean => ['state', 'label', 'owner', 'q', 'archived'].some((name) => url.value.searchParams.has(name));

function toggleIn(name: string, value: string): void {
    setParams({ [name]: joinList(toggleItem(splitList(param(name).peek()), value)), sel: null });
}

function choices(name: string, values: [string, string][]): Item[] {
    const now = listParam(name);
    return values.map(([value, label]) => ({ label, checked: now.includes(value), run: () => toggleIn(name, value) }));
}

function Filters() {
    const labels = useResource('labels', (abort) => get<{ labels: string[] }>('/experiment/labels', {}, abort),
                               { topics: ['experiments'], on: (e, r) => e.name === 'experiment' && r.reload() });
    const title = (word: string, name: string): string => {
        const n = listParam(name).length;
        return n ? `${word} (${n})` : word;
    };
    const archived = param('archived').value;
    return (
        <>
            <Menu label={title('State', 'state')} items={choices('state', STATE_FILTERS.map(([word]) => [word, word]))} />
            <Menu label={title('Label', 'label')} items={choices('label', (labels.data.value?.labels ?? []).map((l) => [l, l]))} />
            <Menu label={title('Owner', 'owner')} items={choices('owner', [...users.value].map(([id, name]) => [String(id), name]))} />
            <Menu label="Archived" items={[['', 'hidden'], ['only', 'only these'], ['all', 'shown too']].map(([value, label]) => ({
                label: label!, checked: archived === value, run: () => setParams({ archived: value }),
            }))} />
            <input type="search" class="filter" placeholder="Filter: words, metric<0.03" aria-label="Filter" value={param('q').value}
                   onInput={(e) => setParams({ q: e.currentTarget.value })} />
        </>
    );
}

function Counts() {
    const count = (group: string): Promise<number> =>
        get<List>('/experiments', { limit: 1, archived: false, states: stateNames([group]) }).then((l) => l.pagination.total);
    const counts = useResource('counts', async () => [await count('running'), await count('failed')] as const,
                               { topics: ['experiments'], on: (e, r) => e.name === 'experiment' && r.reload() });
    const [running = 0, failed = 0] = counts.data.value ?? [];
    return (
        <>
            <a class="quiet" href="/experiments?state=running">{formatCount(running)} running</a>
            {failed > 0 && <> · <a class="quiet" data-look="failed" href="/experiments?state=failed">{formatCount(failed)} failed</a></>}
        </>
    );
}

function SelectionBar({ count, chosen, compare }: { count: number; chosen: Experiment[]; compare: () => void }) {
    if (!count) return null;
    return (
        <div class="selection" role="toolbar" aria-label="Selected experiments">
            <span>{count} selected</span>
            <button type="button" class="main" onClick={compare}>Compare <kbd>c</kbd></button>
            {experimentItems(chosen).map((item) => (
                <button type="button" key={item.label} data-danger={item.danger ? '' : undefined} onClick={item.run}>{item.label}</button>
            ))}
            <button type="button" class="plain" onClick={() => setParams({ sel: null })}>Clear</button>
        </div>
    );
}
