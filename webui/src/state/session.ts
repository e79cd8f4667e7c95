// Unit session.ts: who is looking, and the names of all users.
import { signal } from '@preact/signals';
import { call, get, known } from '../api/client.ts';
import { startStream } from '../api/stream.ts';
import type { User } from '../api/types.ts';
import { loadTheRest } from '../parts/lazy.tsx';

export const me = signal<User | undefined>(undefined);
export const users = signal<ReadonlyMap<number, string>>(new Map());

export async function loadSession(): Promise<void> {
    const [answer] = await Promise.all([get<{ user: User }>('/me'), startStream()]);
    known.value = true;
    me.value = answer.user;
    void loadUsers();
    addEventListener('load', loadTheRest, { once: true });
    if (document.readyState === 'complete') loadTheRest();
}

export async function loadUsers(): Promise<void> {
    const { users: list } = await get<{ users: User[] }>('/users', { limit: -1 });
    users.value = new Map(list.map((u) => [u.id, u.displayName || u.username || '']));
}

export async function login(username: string, password: string): Promise<void> {
    await call('POST', '/auth/login', { body: { username, password, cookie: true } });
    await loadSession();
}

export async function redeem(code: string): Promise<void> {
    await call('POST', '/auth/redeem', { body: { code } });
    await loadSession();
}

export async function logout(): Promise<void> {
    await call('POST', '/auth/logout');
    me.value = undefined;
    known.value = false;
}

// What somebody may do about what belongs to a user.
export function mayChange(userId: number): boolean {
    const who = me.value;
    return !!who && (who.admin || who.id === userId);
}
