// Unit admin.tsx: users, sessions and templates.
import type { ComponentType } from 'preact';
import { useSignal } from '@preact/signals';
import { call, get, post } from '../api/client.ts';
import type { Template, User } from '../api/types.ts';
import { Code } from '../parts/code.tsx';
import { ask, attempt, askText, Dialog } from '../parts/dialog.tsx';
import { Menu } from '../parts/menu.tsx';
import { Await, Empty } from '../parts/status.tsx';
import { Tabs } from '../parts/tabs.tsx';
import { Ago, Said } from '../parts/text.tsx';
import { useResource, type Resource } from '../state/resource.ts';
import { navigate } from '../state/route.ts';
import { loadUsers, mayChange, me, users } from '../state/session.ts';
import { listSource } from '../table/source.ts';
import { Table, type Column } from '../table/table.tsx';
import { formatTime, parseTime } from '../text/format.ts';

const TABS: Record<string, [string, ComponentType]> = {
    users: ['Users', UsersTab],
    sessions: ['Sessions', SessionsTab],
    templates: ['Templates', TemplatesTab],
};

export default function AdminPage({ tab = 'users' }: { tab?: string }) {
    const [, Tab] = TABS[tab] ?? TABS.users!;
    return (
        <section class="page fills" aria-labelledby="title">
            <h1 id="title">Admin</h1>
            <Tabs base="/admin" first="users" current={tab} tabs={Object.entries(TABS).map(([name, [title]]) => [name, title])} />
            <Tab />
        </section>
    );
}

// --- users

function UsersTab() {
    const list = useResource('users', (abort) => get<{ users: User[] }>('/users', { limit: -1 }, abort));
    const adding = useSignal(false), changing = useSignal<User | null>(null);
    const admin = !!me.value?.admin;
    const change = (u: User, body: Record<string, unknown>, words: string): void =>
        void attempt(() => call('PATCH', `/users/${u.id}`, { body }), words).then(() => { list.reload(); void loadUsers(); });
    const columns: Column<User>[] = [
        { key: 'username', title: 'Name', width: 140, grow: true, cell: (u) => <Said text={u.username} max={60} />, text: (u) => u.username ?? '' },
        { key: 'displayName', title: 'Shown as', width: 160, grow: true, wide: true, cell: (u) => <Said text={u.displayName} max={60} />, text: (u) => u.displayName ?? '' },
        { key: 'role', title: 'Role', width: 110, small: 80, cell: (u) => <span class="quiet">{u.admin ? 'administrator' : 'user'}</span>, text: (u) => (u.admin ? 'administrator' : 'user') },
        { key: 'active', title: 'May log in', width: 92, wide: true, cell: (u) => (u.active ? 'yes' : <span class="reason">no</span>), text: (u) => (u.active ? 'yes' : 'no') },
        { key: 'modifiedAt', title: 'Changed', width: 96, right: true, wide: true, cell: (u) => <span class="quiet"><Ago time={parseTime(u.modifiedAt)} /></span>, text: (u) => formatTime(parseTime(u.modifiedAt)) },
        {
            key: 'do', title: '', width: 48, text: () => '',
            cell: (u) => (mayChange(u.id) ? (
                <Menu label={`Change ${u.username}`} side="right" plain items={[
                    { label: 'Change the password', run: () => (changing.value = u) },
                    ...(admin && u.id !== me.value?.id ? [
                        { label: u.active ? 'Do not let log in' : 'Let log in again', run: () => change(u, { active: !u.active }, `${u.username} was changed.`) },
                        { label: u.admin ? 'Make an ordinary user' : 'Make an administrator', run: () => change(u, { admin: !u.admin }, `${u.username} was changed.`) },
                    ] : []),
                ]}>⋯</Menu>
            ) : null),
        },
    ];
    return (
        <>
            <div class="tools"><span class="end">{admin && <button type="button" onClick={() => (adding.value = true)}>New user</button>}</span></div>
            <Await of={list}>{({ users: rows }) => <Table name="Users" main columns={columns} source={listSource(rows)} keyOf={(u) => u.id} />}</Await>
            {adding.value && <NewUser close={() => (adding.value = false)} done={() => { list.reload(); void loadUsers(); }} />}
            {changing.value && <NewPassword user={changing.value} close={() => (changing.value = null)} />}
        </>
    );
}

function NewUser({ close, done }: { close: () => void; done: () => void }) {
    const save = async (event: SubmitEvent): Promise<void> => {
        event.preventDefault();
        const form = new FormData(event.currentTarget as HTMLFormElement);
        const body = { username: form.get('username'), displayName: form.get('displayName') || undefined, password: form.get('password'), admin: form.get('admin') === 'on' };
        if (await attempt(() => post('/users', body), `${String(body.username)} can log in now.`)) { close(); done(); }
    };
    return (
        <Dialog title="New user" close={close}>
            <form onSubmit={(e) => void save(e)}>
                <label class="field">Name to log in with<input name="username" required autofocus autocomplete="off" /></label>
                <label class="field">Name to show<input name="displayName" autocomplete="off" /></label>
                <label class="field">Password, at least 8 bytes<input name="password" type="password" required minLength={8} autocomplete="new-password" /></label>
                <label class="inline"><input name="admin" type="checkbox" /> administrator</label>
                <div class="buttons"><button type="button" onClick={close}>Cancel</button><button type="submit" class="main">Create</button></div>
            </form>
        </Dialog>
    );
}

function NewPassword({ user, close }: { user: User; close: () => void }) {
    const save = async (event: SubmitEvent): Promise<void> => {
        event.preventDefault();
        const password = new FormData(event.currentTarget as HTMLFormElement).get('password');
        if (await attempt(() => call('PATCH', `/users/${user.id}`, { body: { password } }), 'The password was changed.')) close();
    };
    return (
        <Dialog title={`Password of ${user.username ?? ''}`} close={close}>
            <form onSubmit={(e) => void save(e)}>
                <p class="quiet">All sessions of the user end.</p>
                <label class="field">New password, at least 8 bytes<input name="password" type="password" required minLength={8} autofocus autocomplete="new-password" /></label>
                <div class="buttons"><button type="button" onClick={close}>Cancel</button><button type="submit" class="main">Change</button></div>
            </form>
        </Dialog>
    );
}

// --- sessions

interface Session {
    id: string;
    userId: number;
    expiresAt: string | null;
    current: boolean;
}

function SessionsTab() {
    const list = useResource('sessions', (abort) => get<{ sessions: Session[] }>('/sessions', {}, abort));
    const end = (s: Session): void => void attempt(() => call('DELETE', `/sessions/${s.id}`), 'The session has ended.').then(() => list.reload());
    const columns: Column<Session>[] = [
        { key: 'user', title: 'User', width: 140, grow: true, cell: (s) => <><Said text={users.value.get(s.userId)} max={60} />{s.current && <span class="label">this one</span>}</>, text: (s) => users.value.get(s.userId) ?? '' },
        { key: 'id', title: 'Session', width: 170, small: 90, cell: (s) => <code class="quiet">{s.id}</code>, text: (s) => s.id },
        { key: 'expiresAt', title: 'Until', width: 150, right: true, wide: true, cell: (s) => <span class="quiet num">{formatTime(parseTime(s.expiresAt)).slice(0, 16)}</span>, text: (s) => formatTime(parseTime(s.expiresAt)) },
        { key: 'do', title: '', width: 64, text: () => '', cell: (s) => (s.current ? null : <button type="button" class="small" onClick={() => end(s)}>End</button>) },
    ];
    return <Await of={list}>{({ sessions }) => <Table name="Sessions" main columns={columns} source={listSource(sessions)} keyOf={(s) => s.id}><Empty><p>There are no sessions.</p></Empty></Table>}</Await>;
}

// --- templates

function TemplatesTab() {
    const list = useResource('templates', (abort) => get<{ templates: Template[] }>('/templates', { limit: -1 }, abort));
    const make = async (): Promise<void> => {
        const name = await askText({ title: 'New template', text: 'Anybody can read a template: it is no place for secrets.', action: 'Write it' }, { label: 'Name', value: '' });
        if (name?.trim()) navigate(`/new?edit=${encodeURIComponent(name.trim())}`);
    };
    return (
        <div class="scrolls">
            <div class="tools"><span class="quiet">Configurations that others are laid over: <code>det experiment create --template NAME</code></span><span class="end"><button type="button" onClick={() => void make()}>New template</button></span></div>
            <Await of={list}>
                {({ templates }) => (templates.length ? <>{templates.map((t) => <TemplateRow key={t.name} t={t} list={list} />)}</> : <Empty><p>There are no templates.</p></Empty>)}
            </Await>
        </div>
    );
}

function TemplateRow({ t, list }: { t: Template; list: Resource<{ templates: Template[] }> }) {
    const name = encodeURIComponent(t.name ?? '');
    const remove = async (): Promise<void> => {
        if (!(await ask({ title: `Delete the template ${t.name}?`, text: 'Experiments that were made with it stay as they are.', action: 'Delete', danger: true }))) return;
        await attempt(() => call('DELETE', `/templates/${name}`), 'The template was deleted.');
        list.reload();
    };
    return (
        <section class="part">
            <div class="tools">
                <h2><Said text={t.name} max={80} /></h2>
                <span class="quiet"><Said text={users.value.get(t.userId)} max={40} /></span>
                <span class="end">
                    <a class="button" href={`/new?template=${name}`}>New experiment</a>
                    {mayChange(t.userId) && <a class="button" href={`/new?edit=${name}`}>Edit</a>}
                    {mayChange(t.userId) && <button type="button" data-danger="" onClick={() => void remove()}>Delete</button>}
                </span>
            </div>
            <Code yaml text={t.config ?? ''} label={`Template ${t.name ?? ''}`} />
        </section>
    );
}
