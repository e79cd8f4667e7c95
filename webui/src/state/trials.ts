// Unit trials.ts: all trials of an experiment as columns: what its table, its parallel coordinates and its curves are made
// of. Read once; after that, events of single trials change their rows.
import { signal } from '@preact/signals';
import type { Trial } from '../api/types.ts';
import { formatNumber, formatValue, parseTime, toNumber } from '../text/format.ts';

// As the master answers: GET /experiments/{id}/trialsTable.
export interface TrialsAnswer {
    total: number;
    columns: { name: string; values: unknown[] }[];
}

export const HPARAM = 'hparams.';

function flatten(value: unknown, name: string, out: Map<string, unknown>): void {
    if (value && typeof value === 'object' && !Array.isArray(value))
        for (const [key, inner] of Object.entries(value)) flatten(inner, name ? `${name}.${key}` : key, out);
    else out.set(name, value);
}

function columnsOf(t: Trial): Map<string, unknown> {
    const out = new Map<string, unknown>([
        ['id', t.id], ['number', t.number], ['state', t.state], ['startTime', parseTime(t.startTime)], ['endTime', parseTime(t.endTime)],
        ['batches', t.totalBatchesProcessed], ['restarts', t.restarts], ['runId', t.runId], ['progress', t.progress],
        ['metric', t.searcherMetricValue], ['checkpoint', t.latestCheckpoint],
    ]);
    const hparams = new Map<string, unknown>();
    flatten(t.hparams ?? {}, '', hparams);
    for (const [name, value] of hparams) out.set(HPARAM + name, value);
    const latest = (t.latestValidation?.metrics as { avgMetrics?: Record<string, unknown> } | undefined)?.avgMetrics ?? {};
    for (const [name, value] of Object.entries(latest)) out.set(`validation.${name}:last`, value);
    return out;
}

export const trialState = (state: string, runId: number): string => (state === 'STATE_ACTIVE' && runId === 0 ? 'STATE_QUEUED' : state);

export class Trials {
    readonly version = signal(0);
    private columns = new Map<string, unknown[]>();
    private rows = new Map<number, number>(); // of the trial's id
    count = 0;

    read(answer: TrialsAnswer): void {
        this.columns = new Map(answer.columns.map((c) => [c.name, c.values]));
        const ids = this.column('id') as number[];
        this.count = ids.length;
        this.rows = new Map(ids.map((id, i) => [id, i]));
        this.version.value++;
    }

    patch(t: Trial): void {
        let row = this.rows.get(t.id);
        if (row === undefined) {
            row = this.count++;
            this.rows.set(t.id, row);
        }
        for (const [name, value] of columnsOf(t)) {
            // A column of the metrics is there only if it was asked for.
            if (!this.columns.has(name) && !name.startsWith(HPARAM)) continue;
            const column = this.columns.get(name) ?? [];
            this.columns.set(name, column);
            column[row] = value;
        }
        this.version.value++;
    }

    column(name: string): readonly unknown[] {
        return this.columns.get(name) ?? [];
    }

    value(name: string, row: number): unknown {
        return this.columns.get(name)?.[row];
    }

    number(name: string, row: number): number {
        return toNumber(this.value(name, row));
    }

    text(name: string, row: number): string {
        return String(this.value(name, row) ?? '');
    }

    // As it is shown: one that has never run waits for its slots.
    stateAt(row: number): string {
        return trialState(this.text('state', row), this.number('runId', row));
    }

    rowOf(id: number): number | undefined {
        return this.rows.get(id);
    }

    idAt(row: number): number {
        return this.value('id', row) as number;
    }

    // Which of the experiment's trials it is, from 1.
    ordinal(id: number): number {
        const row = this.rows.get(id);
        return row === undefined ? id : this.number('number', row) || row + 1;
    }

    get hparams(): string[] {
        return [...this.columns.keys()].filter((name) => name.startsWith(HPARAM)).sort();
    }

    // Those that are not the same in all trials.
    get varied(): string[] {
        return this.hparams.filter((name) => {
            const column = this.column(name);
            for (let i = 1; i < this.count; i++) if (JSON.stringify(column[i]) !== JSON.stringify(column[0])) return true;
            return false;
        });
    }

    // Rows by the searcher's metric, best first; those without one at the end.
    ranked(smallerIsBetter: boolean): number[] {
        const metric = this.column('metric');
        const key = (row: number): number => {
            const v = toNumber(metric[row]);
            return Number.isNaN(v) ? Infinity : smallerIsBetter ? v : -v;
        };
        return Array.from({ length: this.count }, (_, i) => i).sort((a, b) => key(a) - key(b));
    }
}

const GROUPS = 4, FEW = 8;

// The name of the group that each value of a column belongs to: the value itself, or, of many numbers, the quarter.
export function groupNames(column: readonly unknown[]): (value: unknown) => string {
    const numbers = [...new Set(column)].map(toNumber).filter(Number.isFinite).sort((a, b) => a - b);
    if (numbers.length <= FEW) return formatValue;
    const edges = Array.from({ length: GROUPS + 1 }, (_, i) => numbers[Math.min(numbers.length - 1, Math.floor((i * numbers.length) / GROUPS))]!);
    return (value) => {
        const n = toNumber(value);
        if (!Number.isFinite(n)) return formatValue(value);
        const i = Math.max(0, edges.slice(1, -1).filter((e) => n >= e).length);
        return `${formatNumber(edges[i])} to ${formatNumber(edges[i + 1])}`;
    };
}
