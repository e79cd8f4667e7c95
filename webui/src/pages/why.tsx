// Unit why.tsx: why an experiment has failed, in the words of "det why": its reason, those of its trials, and the last that
// they printed.
import { get } from '../api/client.ts';
import type { LogLine, Trial } from '../api/types.ts';
import { Coloured } from '../log/ansi.tsx';
import { Await } from '../parts/status.tsx';
import { Said } from '../parts/text.tsx';
import { plural } from '../text/format.ts';
import { useResource } from '../state/resource.ts';
import type { ExperimentView } from '../state/experiment.ts';

const TRIALS = 3, LINES = 10;

interface Ended {
    trial: Trial;
    lines: LogLine[];
}

async function lastWords(id: number, abort: AbortSignal): Promise<Ended> {
    const [{ trial }, { logs }] = await Promise.all([
        get<{ trial: Trial }>(`/trials/${id}`, {}, abort),
        get<{ logs: LogLine[] }>(`/trials/${id}/logs`, { limit: 2 * LINES, orderBy: 'ORDER_BY_DESC' }, abort),
    ]);
    return { trial, lines: logs.filter((l) => l.rankId !== null).slice(0, LINES).reverse() }; // others are the master's
}

export function Why({ view, reason }: { view: ExperimentView; reason: string | null }) {
    const { trials } = view;
    void trials.version.value;
    const failed = Array.from({ length: trials.count }, (_, row) => row).filter((row) => trials.text('state', row) === 'STATE_ERROR').map((row) => trials.idAt(row));
    const shown = failed.slice(0, TRIALS);
    const ended = useResource(shown.length ? `w${shown.join()}` : '', (abort) => Promise.all(shown.map((id) => lastWords(id, abort))));
    return (
        <section class="why" aria-label="Why it failed">
            {reason && <p class="reason"><b><Said text={reason} max={1000} /></b></p>}
            {shown.length > 0 && (
                <Await of={ended} lines={4}>
                    {(list) => list.map(({ trial, lines }) => (
                        <div key={trial.id}>
                            <p><a href={`/trials/${trial.id}/logs`}>Trial {trial.id}</a>{trial.restarts > 0 && `, restarted ${plural(trial.restarts, 'time')}`}{trial.reason && trial.reason !== reason ? <>: <Said text={trial.reason} max={1000} /></> : ' printed last:'}</p>
                            <pre class="lines">{lines.length ? lines.map((l) => <div key={l.id}><Coloured text={l.log ?? ''} /></div>) : <span class="quiet">nothing</span>}</pre>
                        </div>
                    ))}
                </Await>
            )}
            {failed.length > TRIALS && <p class="quiet">and {failed.length - TRIALS} more trials failed: <a href={`/experiments/${view.id}/trials?q=failed`}>see all</a></p>}
            <p><a class="button main" href={`/new?fork=${view.id}`}>Change the configuration and try again</a></p>
        </section>
    );
}
