// Unit new.tsx: writes a configuration and hands it over: a fork (?fork=41), on a template (?template=name), or from a blank
// page; and templates themselves (?edit=name). The checker of the master reads along.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { batch, useSignal, type Signal } from '@preact/signals';
import { ApiError, call, get, isAbort, wordsOf } from '../api/client.ts';
import type { Experiment, Template } from '../api/types.ts';
import { describe, Editor, type Problem } from '../editor/editor.tsx';
import { Preview, type PreviewAnswer } from '../editor/preview.tsx';
import { makeTar } from '../editor/tar.ts';
import { Code } from '../parts/code.tsx';
import { attempt, notify } from '../parts/dialog.tsx';
import { Await, Loading } from '../parts/status.tsx';
import { Said } from '../parts/text.tsx';
import { navigate, param, setParams, url } from '../state/route.ts';
import { useResource } from '../state/resource.ts';
import { formatBytes } from '../text/format.ts';

const BLANK = `name: my experiment
entrypoint: python3 train.py
hyperparameters:
  learning_rate: {type: log, base: 10, minval: -4, maxval: -1}
searcher:
  name: random
  metric: validation_loss
  max_trials: 4
  max_length: {batches: 100}
`;
const WAIT_MS = 250;
const SEARCH = 'TYPE_EXPERIMENT';

interface CheckAnswer {
    errors: Problem[];
    warnings: Problem[];
    config: string | null;
}

interface Checked {
    text: string; // what was checked
    problems: Problem[];
    warnings: Problem[];
    preview: PreviewAnswer | null;
    failed: string;
}

// partly: a template, which need not be complete.
async function check(text: string, template: string, type: string, partly: boolean, abort: AbortSignal): Promise<Checked> {
    const body = { config: text, ...(template ? { template } : {}) };
    const answer = await call<CheckAnswer>('POST', '/configs/check', { body: { ...body, type }, signal: abort });
    const errors = answer.errors.filter((p) => !partly || !p.missing);
    let preview: PreviewAnswer | null = null;
    if (!errors.length && !partly && type === SEARCH)
        try {
            preview = await call<PreviewAnswer>('POST', '/search/preview', { body, signal: abort });
        } catch (error) {
            if (!(error instanceof ApiError)) throw error; // what cannot be previewed can be trained
        }
    return { text, problems: errors, warnings: answer.warnings ?? [], preview, failed: '' };
}

function useCheck(text: Signal<string | null>, template: string, type: string, partly: boolean): Signal<Checked | null> {
    const checked = useSignal<Checked | null>(null);
    useEffect(() => {
        const now = text.value;
        if (now === null) return undefined;
        const abort = new AbortController();
        const timer = setTimeout(() => {
            check(now, template, type, partly, abort.signal).then((c) => (checked.value = c)).catch((error) => {
                if (!isAbort(error)) checked.value = { text: now, problems: [], warnings: [], preview: null, failed: wordsOf(error) };
            });
        }, WAIT_MS);
        return () => { clearTimeout(timer); abort.abort(); };
    }, [text.value, template, type]);
    return checked;
}

// A text that survives a reload, until it was handed over.
function useDraft(): { text: Signal<string | null>; forget: () => void } {
    const key = `det.draft${url.value.search}`;
    const text = useSignal<string | null>(sessionStorage.getItem(key));
    useEffect(() => { if (text.value !== null) sessionStorage.setItem(key, text.value); }, [text.value]);
    return { text, forget: () => sessionStorage.removeItem(key) };
}

export default function NewPage() {
    return <NewForm key={`${param('fork').value}/${param('edit').value}`} />;
}

interface Attached {
    name: string;
    bytes: Uint8Array;
}

function NewForm() {
    const fork = param('fork').value, template = param('template').value, edit = param('edit').value;
    const { text, forget } = useDraft();
    const activate = useSignal(true), busy = useSignal(false), files = useSignal<Attached[]>([]);
    const once = useMemo(() => crypto.randomUUID?.() ?? String(Math.random()), [text.value]);
    const parent = useResource(fork ? `p${fork}` : '', (abort) => get<{ experiment: Experiment }>(`/experiments/${fork}`, {}, abort));
    const type = parent.data.value?.experiment.type ?? SEARCH;
    const checked = useCheck(text, template, type, !!edit);
    const source = useResource(`${fork}/${edit}`, (abort) => firstText(fork, edit, abort));
    useEffect(() => { if (text.value === null && source.data.value !== undefined) text.value = source.data.value; }, [source.data.value]);
    const submit = async (): Promise<void> => {
        if (busy.value || text.value === null) return;
        busy.value = true;
        const done = await attempt(() => (edit ? saveTemplate(edit, text.value!) : create()));
        busy.value = false;
        if (!done) return;
        forget();
        navigate(done);
    };
    const create = async (): Promise<string> => {
        const code = files.value.length ? await upload(files.value) : parent.data.value?.experiment.modelDefinition ?? undefined;
        const body = {
            config: text.value, activate: activate.value, ...(template ? { template } : {}), ...(code ? { code } : {}),
            ...(fork ? { parentId: Number(fork), type } : {}),
        };
        const answer = await call<{ experiment: Experiment }>('POST', '/experiments', { body, once });
        notify(`Experiment ${answer.experiment.id} was created.`);
        return `/experiments/${answer.experiment.id}`;
    };
    const c = checked.value, problems = c?.problems ?? [];
    return (
        <section class="page fills" aria-labelledby="title">
            <div class="tools">
                <h1 id="title">{edit ? <>Template <Said text={edit} max={60} /></> : fork ? `Fork of ${fork}` : 'New experiment'}</h1>
                {parent.data.value && <span class="quiet"><Said text={parent.data.value.experiment.name} max={80} /></span>}
                {!edit && <TemplateChoice chosen={template} />}
                <span class="end" role="status">{c && c.text === text.value ? (c.failed ? '' : problems.length ? `${problems.length} ${problems.length === 1 ? 'thing is' : 'things are'} wrong` : 'correct') : 'checking…'}</span>
                {!edit && <label class="inline"><input type="checkbox" checked={activate.value} onChange={() => (activate.value = !activate.value)} /> start at once</label>}
                <button type="button" class="main" disabled={busy.value} onClick={() => void submit()}>{edit ? 'Save' : 'Create'} <kbd>Ctrl-Enter</kbd></button>
            </div>
            <div class="new">
                {text.value === null ? <Await of={source} lines={10}>{() => <Loading />}</Await>
                    : <Editor text={text.value} problems={problems} label="Configuration" onInput={(t) => (text.value = t)} onSubmit={() => void submit()} />}
                <aside class="scrolls">
                    {c?.failed && <p class="reason"><Said text={c.failed} /></p>}
                    {c?.preview && <Preview plan={c.preview} config={c.text} template={template} />}
                    {c && c.warnings.length > 0 && <ul class="warnings">{c.warnings.map((w, i) => <li key={i}><Said text={describe(w)} max={300} /></li>)}</ul>}
                    {!edit && <FileChoice files={files} parent={parent.data.value?.experiment} />}
                    {template && <TemplateText name={template} />}
                    <p class="quiet"><kbd>Escape</kbd> then <kbd>Tab</kbd> leaves the editor.</p>
                </aside>
            </div>
        </section>
    );
}

async function firstText(fork: string, edit: string, abort: AbortSignal): Promise<string> {
    if (fork) return (await get<{ original: string }>(`/experiments/${fork}/config`, {}, abort)).original;
    if (!edit) return BLANK;
    try {
        return (await get<{ template: Template }>(`/templates/${encodeURIComponent(edit)}`, {}, abort)).template.config ?? '';
    } catch (error) {
        if (error instanceof ApiError && error.status === 404) return 'resources:\n  slots_per_trial: 1\n'; // a new one
        throw error;
    }
}

async function saveTemplate(name: string, config: string): Promise<string> {
    await call('PUT', `/templates/${encodeURIComponent(name)}`, { body: { config } });
    notify(`The template ${name} was saved.`);
    return '/admin/templates';
}

async function upload(files: Attached[]): Promise<string> {
    const tar = makeTar(files.map((f) => ({ path: f.name, bytes: f.bytes })));
    return (await call<{ code: string }>('POST', '/code', { raw: tar })).code;
}

function TemplateChoice({ chosen }: { chosen: string }) {
    const list = useResource('templates', (abort) => get<{ templates: Template[] }>('/templates', { limit: -1 }, abort));
    const names = (list.data.value?.templates ?? []).map((t) => t.name ?? '');
    if (!names.length) return null;
    return (
        <label class="inline">template
            <select value={chosen} onChange={(e) => setParams({ template: e.currentTarget.value })}>
                <option value="">none</option>
                {names.map((n) => <option key={n} value={n}>{n.slice(0, 60)}</option>)}
            </select>
        </label>
    );
}

function TemplateText({ name }: { name: string }) {
    const found = useResource(`t${name}`, (abort) => get<{ template: Template }>(`/templates/${encodeURIComponent(name)}`, {}, abort));
    return <section class="part"><h2>Template</h2><Await of={found}>{({ template }) => <Code yaml text={template.config ?? ''} label="Template" />}</Await></section>;
}

function FileChoice({ files, parent }: { files: Signal<Attached[]>; parent: Experiment | undefined }) {
    const input = useRef<HTMLInputElement>(null);
    const take = async (list: FileList | null): Promise<void> => {
        const read = await Promise.all([...(list ?? [])].map(async (f) => ({
            name: f.webkitRelativePath.split('/').slice(1).join('/') || f.name, bytes: new Uint8Array(await f.arrayBuffer()),
        })));
        batch(() => (files.value = [...files.value.filter((old) => !read.some((n) => n.name === old.name)), ...read]));
    };
    return (
        <section class="part">
            <h2>Files</h2>
            {files.value.length ? (
                <ul class="plain-list">
                    {files.value.map((f) => <li key={f.name}><Said text={f.name} max={60} /> <span class="quiet num">{formatBytes(f.bytes.length)}</span></li>)}
                </ul>
            ) : <p class="quiet">{parent?.modelDefinition ? `Those of experiment ${parent.id}.` : 'None: the program must be on the machine already.'}</p>}
            <p>
                <input ref={input} type="file" multiple class="unseen" tabIndex={-1} aria-label="Files of the experiment" onChange={(e) => void take(e.currentTarget.files)} />
                <button type="button" onClick={() => input.current!.click()}>Choose files</button>
                {files.value.length > 0 && <button type="button" class="plain" onClick={() => (files.value = [])}>Take away</button>}
            </p>
        </section>
    );
}
