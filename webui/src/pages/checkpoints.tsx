// Unit checkpoints.tsx: all checkpoints: what takes how much room, where it comes from.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { get } from '../api/client.ts';
import { listen } from '../api/stream.ts';
import type { Checkpoint } from '../api/types.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Menu } from '../parts/menu.tsx';
import { Empty, Failed, Loading } from '../parts/status.tsx';
import { Ago, Copy } from '../parts/text.tsx';
import { param, setParams } from '../state/route.ts';
import { usePages } from '../table/source.ts';
import { Table, type Column } from '../table/table.tsx';
import { TableMenu } from '../table/tablemenu.tsx';
import { formatBytes, formatCount, formatNumber, formatTime, parseTime, plural } from '../text/format.ts';
import { deleteCheckpoint, Files } from './checkpoint_parts.tsx';

interface List {
    checkpoints: Checkpoint[];
    pagination: { total: number };
}

const WORDS: Record<string, string> = { STATE_COMPLETED: 'complete', STATE_ACTIVE: 'being written', STATE_ERROR: 'failed', STATE_DELETED: 'deleted', STATE_PARTIALLY_DELETED: 'partly deleted' };

const COLUMNS: Column<Checkpoint>[] = [
    { key: 'uuid', title: 'Checkpoint', width: 96, small: 88, cell: (c) => <code title={c.uuid ?? ''}>{c.uuid?.slice(0, 8)}</code>, text: (c) => c.uuid ?? '' },
    { key: 'experiment', title: 'Experiment', width: 92, right: true, wide: true, cell: (c) => <a href={`/experiments/${c.experimentId}`}>{c.experimentId}</a>, text: (c) => String(c.experimentId) },
    { key: 'trial', title: 'Trial', width: 72, right: true, cell: (c) => <a href={`/trials/${c.trialId}/checkpoints`}>{c.trialId}</a>, text: (c) => String(c.trialId) },
    { key: 'stepsCompleted', title: 'Batches', width: 92, right: true, sorts: true, wide: true, cell: (c) => <span class="num">{formatCount(c.stepsCompleted)}</span>, text: (c) => String(c.stepsCompleted) },
    { key: 'searcherMetric', title: 'Metric', width: 92, right: true, sorts: true, cell: (c) => <span class="num">{formatNumber(c.searcherMetric)}</span>, text: (c) => formatNumber(c.searcherMetric) },
    { key: 'size', title: 'Size', width: 92, right: true, sorts: true, cell: (c) => <span class="num">{formatBytes(c.size)}</span>, text: (c) => String(c.size) },
    { key: 'files', title: 'Files', width: 64, right: true, wide: true, cell: (c) => <span class="num">{Object.keys(c.resources ?? {}).length}</span>, text: (c) => String(Object.keys(c.resources ?? {}).length) },
    { key: 'state', title: 'State', width: 110, grow: true, sorts: true, wide: true, cell: (c) => <span class="quiet">{WORDS[c.state]}</span>, text: (c) => WORDS[c.state] ?? '' },
    { key: 'reportTime', title: 'Saved', width: 96, right: true, sorts: true, wide: true, cell: (c) => <span class="quiet"><Ago time={parseTime(c.reportTime)} /></span>, text: (c) => formatTime(parseTime(c.reportTime)) },
];

export default function CheckpointsPage() {
    const open = useSignal<Checkpoint | null>(null);
    const sort = { by: param('sort', 'reportTime').value, down: param('down', '1').value === '1' };
    const states = param('state').value === 'all' ? '' : 'STATE_COMPLETED,STATE_ACTIVE';
    const experimentId = param('experiment').value;
    const query = { sortBy: sort.by, orderBy: sort.down ? 'ORDER_BY_DESC' : 'ORDER_BY_ASC', states, experimentId };
    const pages = usePages(JSON.stringify(query), async (offset, limit, abort) => {
        const list = await get<List>('/checkpoints', { ...query, offset, limit }, abort);
        return { rows: list.checkpoints, total: list.pagination.total };
    }, (c) => c.uuid);
    useEffect(() => listen(['experiments'], (e) => { if (e.name === 'experiment') pages.reread(); }), []);
    const view = pages.view.value;
    return (
        <section class="page fills" aria-labelledby="title">
            <div class="tools">
                <h1 id="title">Checkpoints</h1>
                <Menu label="State" items={[['', 'kept'], ['all', 'all, deleted ones too']].map(([value, label]) => ({ label: label!, checked: param('state').value === value, run: () => setParams({ state: value }) }))} />
                <input type="search" class="filter" inputMode="numeric" placeholder="Of experiment" aria-label="Of experiment" value={experimentId} onInput={(e) => setParams({ experiment: e.currentTarget.value.replace(/\D/g, '') })} />
                <span class="end num">{plural(view.total, 'checkpoint')}</span>
                <TableMenu name="checkpoints" columns={COLUMNS} rows={() => get<List>('/checkpoints', { ...query, limit: -1 }).then((l) => l.checkpoints)} />
            </div>
            {pages.error.value && !view.total && <Failed words={pages.error.value.message} retry={() => pages.restart()} />}
            {view.isLoading ? <Loading lines={12} /> : (
                <Table name="Checkpoints" main columns={COLUMNS} source={view} keyOf={(c) => c.uuid ?? ''} sort={sort} onSort={(s) => setParams({ sort: s.by, down: s.down ? 1 : 0 })}
                       onOpen={(c) => (open.value = c)}>
                    <Empty><p>There are no checkpoints.</p><p class="quiet">Trials save one when they end, and when <code>min_checkpoint_period</code> says so.</p></Empty>
                </Table>
            )}
            {open.value && <About c={open.value} close={() => (open.value = null)} deleted={() => { open.value = null; pages.restart(); }} />}
        </section>
    );
}

function About({ c, close, deleted }: { c: Checkpoint; close: () => void; deleted: () => void }) {
    const command = `det checkpoint download ${c.uuid} folder`;
    return (
        <Dialog title="Checkpoint" close={close}>
            <p><code>{c.uuid}</code></p>
            <p>Trial <a href={`/trials/${c.trialId}`}>{c.trialId}</a> of experiment <a href={`/experiments/${c.experimentId}`}>{c.experimentId}</a>, after {formatCount(c.stepsCompleted)} batches, {formatBytes(c.size)}</p>
            <Files of={c} open />
            <p><code>{command}</code> <Copy text={command} /></p>
            <div class="buttons">
                {c.state === 'STATE_COMPLETED' && <button type="button" data-danger="" onClick={() => { close(); void deleteCheckpoint(c, deleted); }}>Delete</button>}
                <button type="button" autofocus onClick={close}>Close</button>
            </div>
        </Dialog>
    );
}
