// Unit shell.tsx: what surrounds every page: navigation, search, the news that the master is away, who is looking.
import type { ComponentChildren } from 'preact';
import { useSignal } from '@preact/signals';
import { known } from './api/client.ts';
import { NewsList, Questions, attempt } from './parts/dialog.tsx';
import { Menu } from './parts/menu.tsx';
import { lazy } from './parts/lazy.tsx';
import { Said } from './parts/text.tsx';
import { connection } from './state/connection.ts';
import { useKeys } from './state/keys.ts';
import { navigate, path } from './state/route.ts';
import { logout, me } from './state/session.ts';
import { isDark, setTheme, theme, toggleTheme, type Theme } from './state/theme.ts';
import { formatClock } from './text/format.ts';

const PAGES = [
    ['/', 'Home', 'h'], ['/experiments', 'Experiments', 'e'], ['/queue', 'Queue', 'q'],
    ['/checkpoints', 'Checkpoints', 'c'], ['/admin', 'Admin', 'a'],
] as const;

const Palette = lazy(() => import('./parts/palette.tsx').then((m) => m.Palette));
const Help = lazy(() => import('./parts/help.tsx').then((m) => m.Help));

function Banner() {
    const c = connection.value;
    return (
        <div role="alert" class="banners">
            {c.state === 'lost' && (
                <div class="banner">
                    The master has not answered since {formatClock(c.since)}. What you see is from before; this page goes on by itself.
                </div>
            )}
            {!known.value && me.value && (
                <div class="banner">
                    Your session has ended. <a href={`/login?next=${encodeURIComponent(location.pathname + location.search)}`}>Log in again</a>
                </div>
            )}
        </div>
    );
}

function UserMenu() {
    const who = me.value;
    if (!who) return null;
    const choice = (t: Theme, label: string) => ({ label, checked: theme.value === t, run: () => setTheme(t) });
    return (
        <Menu label={`User ${who.username ?? ''}`} side="right" plain items={[
            choice('system', 'Light or dark as the system'), choice('light', 'Light'), choice('dark', 'Dark'),
            { label: 'Log out', run: () => void attempt(() => logout().then(() => navigate('/login'))) },
        ]}>
            <Said text={who.username} max={20} />
        </Menu>
    );
}

export function Shell({ children }: { children: ComponentChildren }) {
    const finding = useSignal(false), helping = useSignal(false);
    useKeys([
        { key: '/', does: 'Search', run: () => (finding.value = true) },
        { key: 'Ctrl-K', does: 'Search, or do something', run: () => (finding.value = !finding.value) },
        { key: '?', does: 'This list', run: () => (helping.value = true) },
        ...PAGES.map(([to, word, key]) => ({ key: `g ${key}`, does: `Go to ${word}`, run: () => navigate(to) })),
        { key: 'n', does: 'New experiment', run: () => navigate('/new') },
    ]);
    const here = path.value;
    const isHere = (to: string): boolean => (to === '/' ? here === '/' : here.startsWith(to) || (to === '/experiments' && here.startsWith('/trials')));
    return (
        <>
            <a class="skip" href="#main">Skip to the content</a>
            <header class="top">
                <a class="brand" href="/" aria-label="det, home">det</a>
                <nav aria-label="Pages">
                    {PAGES.slice(1).map(([to, word]) => (
                        <a key={to} href={to} aria-current={isHere(to) ? 'page' : undefined}>{word}</a>
                    ))}
                </nav>
                <button type="button" class="find" onClick={() => (finding.value = true)}>Search <kbd>/</kbd></button>
                <a class="button" href="/new" title="New experiment">New</a>
                <button type="button" class="plain" aria-label="Keys" title="Keys (?)" onClick={() => (helping.value = true)}>?</button>
                <button type="button" class="plain" aria-label={isDark.value ? 'Light theme' : 'Dark theme'} onClick={toggleTheme}>◐</button>
                <UserMenu />
            </header>
            <Banner />
            <main id="main" tabIndex={-1}>{children}</main>
            <NewsList />
            <Questions />
            {finding.value && <Palette close={() => (finding.value = false)} pages={PAGES} />}
            {helping.value && <Help close={() => (helping.value = false)} />}
        </>
    );
}
