// Unit experiment_code.tsx: the configuration of an experiment and the files it was made from.
import { get, getText } from '../api/client.ts';
import { Code, Diff } from '../parts/code.tsx';
import { Await, Empty } from '../parts/status.tsx';
import { Copy, Said } from '../parts/text.tsx';
import { param, setParams } from '../state/route.ts';
import { useResource } from '../state/resource.ts';
import { formatBytes } from '../text/format.ts';
import type { TabProps } from './experiment.tsx';

interface ConfigTexts {
    original: string;
    complete: string;
}

export interface DiffAnswer {
    config: string;
    files: { path: string; status: 'added' | 'removed' | 'changed'; diff: string | null }[];
    denied?: string;
}

export function ConfigurationTab({ about }: TabProps) {
    const e = about.experiment;
    const texts = useResource(`c${e.id}`, (abort) => get<ConfigTexts>(`/experiments/${e.id}/config`, {}, abort));
    const which = param('text', 'original').value;
    const seeds = about.config.reproducibility as { experiment_seed?: number } | undefined;
    const choose = (name: string, title: string) => (
        <button type="button" aria-pressed={which === name} onClick={() => setParams({ text: name === 'original' ? null : name })}>{title}</button>
    );
    return (
        <div class="scrolls">
            <Warnings list={about.warnings} />
            <div class="tools">
                {choose('original', 'As written')}
                {choose('complete', 'Complete')}
                {e.forkedFrom !== null && choose('diff', `Changes from ${e.forkedFrom}`)}
                {seeds?.experiment_seed !== undefined && <span class="quiet">seed <span class="num">{seeds.experiment_seed}</span></span>}
                <span class="end">
                    {texts.data.value && <Copy text={which === 'complete' ? texts.data.value.complete : texts.data.value.original} />}
                    <a class="button" href={`/new?fork=${e.id}`}>Fork</a>
                </span>
            </div>
            {which === 'diff' && e.forkedFrom !== null ? <div class="changes"><Changes from={e.forkedFrom} to={e.id} /></div> : (
                <Await of={texts} lines={10}>
                    {(t) => <Code yaml label="Configuration" text={which === 'complete' ? t.complete : t.original} />}
                </Await>
            )}
        </div>
    );
}

function Warnings({ list }: { list: TabProps['about']['warnings'] }) {
    if (!list?.length) return null;
    return <ul class="warnings">{list.map((w, i) => <li key={i}><Said text={typeof w === 'string' ? w : w.message ?? ''} /></li>)}</ul>;
}

export function Changes({ from, to }: { from: number; to: number }) {
    const diff = useResource(`d${from}-${to}`, (abort) => get<DiffAnswer>(`/experiments/${from}/diff/${to}`, {}, abort));
    return (
        <Await of={diff}>
            {(d) => (
                <>
                    <h2>Configuration</h2>
                    {d.config ? <Diff text={d.config} label="Changes of the configuration" /> : <p class="quiet">The configurations are the same.</p>}
                    <h2>Files</h2>
                    {d.denied ? <p class="quiet"><Said text={d.denied} /></p> : !d.files.length && <p class="quiet">The files are the same.</p>}
                    {d.files.map((f) => (
                        <section key={f.path}>
                            <h3><Said text={f.path} /> <span class="quiet">{f.status}</span></h3>
                            {f.diff === null ? <p class="quiet">It is not text, or hardly a line is the same.</p> : <Diff text={f.diff} label={`Changes of ${f.path}`} />}
                        </section>
                    ))}
                </>
            )}
        </Await>
    );
}

interface Files {
    files: { path: string; bytes: number; type: string }[];
}

const encodePath = (path: string): string => path.split('/').map(encodeURIComponent).join('/');

export function CodeTab({ about }: TabProps) {
    const e = about.experiment;
    const files = useResource(e.modelDefinition ? `f${e.id}` : '', (abort) => get<Files>(`/experiments/${e.id}/files`, {}, abort));
    if (!e.modelDefinition) return <Empty><p>{e.private ? 'The files of this experiment are private.' : 'This experiment was made without files.'}</p></Empty>;
    return (
        <Await of={files}>
            {(list) => {
                const shown = list.files;
                const path = param('file', (shown.find((f) => f.type === 'text' && /model|train/.test(f.path)) ?? shown.find((f) => f.type === 'text'))?.path ?? '').value;
                return (
                    <div class="files">
                        <nav aria-label="Files">
                            {shown.map((f) => (
                                <a key={f.path} href={f.type === 'text' ? `?file=${encodeURIComponent(f.path)}` : `/api/v1/experiments/${e.id}/files/${encodePath(f.path)}`} aria-current={f.path === path ? 'true' : undefined}>
                                    <Said text={f.path} max={80} /> <span class="quiet num">{formatBytes(f.bytes)}</span>
                                </a>
                            ))}
                            <a class="quiet" href={`/api/v1/experiments/${e.id}/model_def`} download>all as a tar file</a>
                        </nav>
                        {path && shown.find((f) => f.path === path)?.type !== 'binary' && <File key={path} id={e.id} path={path} />}
                    </div>
                );
            }}
        </Await>
    );
}

function File({ id, path }: { id: number; path: string }) {
    const text = useResource(`${id}/${path}`, (abort) => getText(`/experiments/${id}/files/${encodePath(path)}`, abort));
    return <Await of={text} lines={10}>{(t) => <Code text={t} yaml={/\.ya?ml$/.test(path)} label={path} />}</Await>;
}
