// Unit client.ts: requests to the master. A failure is an ApiError with the words of the master.
import { masterAnswered, masterLost } from '../state/connection.ts';
import { signal } from '@preact/signals';

export class ApiError extends Error {
    readonly status: number; // 0: no answer

    constructor(status: number, message: string) {
        super(message);
        this.status = status;
    }
}

// False once the master has said that it does not know us: the session is over, or there never was one.
export const known = signal(true);

export type Query = Record<string, string | number | boolean | null | undefined>;

export interface CallOptions {
    query?: Query;
    body?: unknown;
    raw?: Uint8Array; // a body that is no JSON
    signal?: AbortSignal;
    once?: string; // Idempotency-Key: sent again, it is not done again
}

export function apiPath(path: string, query: Query = {}): string {
    const parts = Object.entries(query)
        .filter(([, v]) => v !== undefined && v !== null && v !== '')
        .map(([k, v]) => `${k}=${encodeURIComponent(String(v))}`);
    return `/api/v1${path}${parts.length ? `?${parts.join('&')}` : ''}`;
}

async function refusal(response: Response): Promise<ApiError> {
    const text = await response.text();
    let words = text.slice(0, 500);
    try {
        const problem = JSON.parse(text) as { detail?: string; title?: string };
        words = problem.detail ?? problem.title ?? words;
    } catch {
        words ||= response.statusText;
    }
    return new ApiError(response.status, words);
}

async function send(method: string, path: string, o: CallOptions): Promise<Response> {
    const headers: Record<string, string> = {};
    if (method !== 'GET') headers['X-Det-Request'] = '1'; // a form of another site cannot send it
    if (o.body !== undefined) headers['Content-Type'] = 'application/json';
    if (o.once) headers['Idempotency-Key'] = o.once;
    const init: RequestInit = { method, headers, credentials: 'same-origin' };
    if (o.body !== undefined) init.body = JSON.stringify(o.body);
    if (o.raw) init.body = o.raw as Uint8Array<ArrayBuffer>;
    if (o.signal) init.signal = o.signal;
    try {
        return await fetch(apiPath(path, o.query), init);
    } catch (error) {
        if (o.signal?.aborted) throw error;
        masterLost();
        throw new ApiError(0, 'the master does not answer');
    }
}

async function checked(method: string, path: string, o: CallOptions): Promise<Response> {
    const response = await send(method, path, o);
    masterAnswered();
    if (response.ok) return response;
    const error = await refusal(response);
    if (error.status === 401 && !path.startsWith('/auth/')) known.value = false;
    throw error;
}

export async function call<T = unknown>(method: string, path: string, o: CallOptions = {}): Promise<T> {
    return (await (await checked(method, path, o)).json()) as T;
}

export const get = <T>(path: string, query?: Query, abort?: AbortSignal): Promise<T> =>
    call<T>('GET', path, { ...(query && { query }), ...(abort && { signal: abort }) });

export async function getText(path: string, abort?: AbortSignal): Promise<string> {
    return (await checked('GET', path, abort ? { signal: abort } : {})).text();
}

export const post = <T = unknown>(path: string, body?: unknown): Promise<T> => call<T>('POST', path, { body });

export const isAbort = (error: unknown): boolean => error instanceof DOMException && error.name === 'AbortError';

export function wordsOf(error: unknown): string {
    return error instanceof Error ? error.message : String(error);
}
