// Unit login.tsx: a name and a password; or a code that was made by "det open", which needs neither.
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { wordsOf } from '../api/client.ts';
import { navigate, url } from '../state/route.ts';
import { login, redeem } from '../state/session.ts';
import { Said } from '../parts/text.tsx';

// Only pages of ours: an address such as //elsewhere is not one.
export function nextPage(at: URL): string {
    const wanted = new URLSearchParams(at.hash.slice(1)).get('next') ?? at.searchParams.get('next') ?? '/';
    return /^\/(?![/\\])/.test(wanted) ? wanted : '/';
}

export default function LoginPage() {
    const failed = useSignal(''), busy = useSignal(false);
    const enter = async (how: Promise<void>): Promise<void> => {
        busy.value = true;
        try {
            await how;
            navigate(nextPage(url.value), 'replace');
        } catch (error) {
            failed.value = wordsOf(error);
        }
        busy.value = false;
    };
    useEffect(() => {
        const code = new URLSearchParams(url.value.hash.slice(1)).get('code');
        if (code) void enter(redeem(code));
    }, []);
    const onSubmit = (event: SubmitEvent): void => {
        event.preventDefault();
        const form = new FormData(event.currentTarget as HTMLFormElement);
        void enter(login(String(form.get('username')), String(form.get('password'))));
    };
    return (
        <main class="login">
            <h1>det</h1>
            <form onSubmit={onSubmit} aria-label="Log in">
                <label class="field">Name<input name="username" autocomplete="username" required autofocus /></label>
                <label class="field">Password<input name="password" type="password" autocomplete="current-password" /></label>
                <p class="reason" role="alert"><Said text={failed.value} /></p>
                <button type="submit" class="main" disabled={busy.value}>Log in</button>
            </form>
            <p class="quiet">On the machine of the master, <code>det open</code> opens this page without a password.</p>
        </main>
    );
}
