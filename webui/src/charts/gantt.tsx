// Unit gantt.tsx: the runs of a trial over time: when each ran, from which batch to which, what was rolled back.
import { Ago, Said, State } from '../parts/text.tsx';
import { now } from '../state/clock.ts';
import { formatClock, formatCount, formatDuration, formatTime, parseTime } from '../text/format.ts';
import { endWords, lostPart, type Run } from './runs.ts';
import { timeTicks } from './ticks.ts';

const DAY_MS = 86_400_000;

export function Gantt({ runs }: { runs: Run[] }) {
    const starts = runs.map((r) => parseTime(r.startTime) || parseTime(r.askedTime)), ends = runs.map((r) => parseTime(r.endTime) || now.value);
    const from = Math.min(...starts), to = Math.max(...ends, from + 1000), size = to - from;
    const marks = timeTicks(from / 1000, to / 1000, 4, -new Date(from).getTimezoneOffset() * 60, 1).map((s) => s * 1000);
    return (
        <div class="gantt">
            <div class="gantt-scale quiet num" aria-hidden="true">
                {marks.map((t) => <span key={t} style={{ left: `${((t - from) / size) * 100}%` }}>{size < DAY_MS ? formatClock(t) : formatTime(t).slice(5, 16)}</span>)}
            </div>
            <table>
                <colgroup><col style={{ width: '72px' }} /><col /><col style={{ width: '46%' }} /></colgroup>
                <thead class="unseen"><tr><th>Run</th><th>When</th><th>How it ended</th></tr></thead>
                <tbody>
                    {runs.map((r, i) => {
                        const left = ((starts[i]! - from) / size) * 100, width = Math.max(0.3, ((ends[i]! - starts[i]!) / size) * 100), lost = lostPart(r);
                        return (
                            <tr key={r.run}>
                                <th scope="row">run {r.run}</th>
                                <td class="track">
                                    <span class="run" data-look={r.endTime ? (lost ? 'cut' : 'done') : 'running'} style={{ left: `${left}%`, width: `${width}%` }}
                                          title={`${formatTime(starts[i]!)}, ${formatDuration(ends[i]! - starts[i]!)}`}>
                                        {lost > 0 && <span class="lost" style={{ width: `${lost * 100}%` }} />}
                                    </span>
                                    <span class="unseen">from <Ago time={starts[i]!} />, {formatDuration(ends[i]! - starts[i]!)}</span>
                                </td>
                                <td class="how">
                                    {r.endTime ? '' : <State state={r.state} />}
                                    {r.toBatch !== null && ` batches ${formatCount(r.fromBatch ?? 0)} to ${formatCount(r.toBatch)}`}
                                    {lost > 0 && <span class="reason">, rolled back to {formatCount(r.rolledBackTo!)}</span>}
                                    {endWords(r) && <span class="quiet"> · <Said text={endWords(r)} max={160} /></span>}
                                </td>
                            </tr>
                        );
                    })}
                </tbody>
            </table>
        </div>
    );
}
