// Unit main.tsx: starts the page: who is looking, then the page that the address bar names.
import { Component, render, type ComponentChildren, type ComponentType } from 'preact';
import { useEffect } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import './style.css';
import { known, wordsOf } from './api/client.ts';
import { Shell } from './shell.tsx';
import { navigate, path } from './state/route.ts';
import { loadSession, me } from './state/session.ts';
import { Empty, Failed } from './parts/status.tsx';
import { lazy } from './parts/lazy.tsx';

const RETRY_MS = 2000;

interface PageProps {
    id?: string;
    tab?: string;
}

type Page = ComponentType<PageProps>;

const page = (load: () => Promise<{ default: Page }>): Page => lazy(() => load().then((m) => m.default));

// The first that fits is shown; its code is loaded when it is needed. id is a number, tab a word.
const PAGES: [RegExp, Page][] = [
    [/^\/$/, page(() => import('./pages/home.tsx'))],
    [/^\/experiments\/?$/, page(() => import('./pages/experiments.tsx'))],
    [/^\/experiments\/(?<id>\d+)(?:\/(?<tab>\w+))?\/?$/, page(() => import('./pages/experiment.tsx'))],
    [/^\/trials\/(?<id>\d+)(?:\/(?<tab>\w+))?\/?$/, page(() => import('./pages/trial.tsx'))],
    [/^\/compare\/?$/, page(() => import('./pages/compare.tsx'))],
    [/^\/queue\/?$/, page(() => import('./pages/queue.tsx'))],
    [/^\/checkpoints\/?$/, page(() => import('./pages/checkpoints.tsx'))],
    [/^\/admin(?:\/(?<tab>\w+))?\/?$/, page(() => import('./pages/admin.tsx'))],
    [/^\/new\/?$/, page(() => import('./pages/new.tsx'))],
    [/^\/login\/?$/, page(() => import('./pages/login.tsx'))],
];

function NotFound() {
    return <Empty><h1>There is no such page</h1><p><a href="/experiments">Experiments</a></p></Empty>;
}

function CurrentPage() {
    for (const [pattern, Shown] of PAGES) {
        const found = pattern.exec(path.value);
        if (found) return <Shown key={found.groups?.id ?? pattern.source} {...found.groups} />;
    }
    return <NotFound />;
}

// Who is looking; asked again until the master answers.
function useSession(): void {
    const attempt = useSignal(0);
    useEffect(() => {
        if (path.value === '/login' || me.value) return undefined;
        let timer = 0;
        loadSession().catch(() => {
            if (!known.value) navigate(`/login?next=${encodeURIComponent(location.pathname + location.search)}`, 'replace');
            else timer = window.setTimeout(() => attempt.value++, RETRY_MS);
        });
        return () => clearTimeout(timer);
    }, [path.value === '/login', attempt.value]);
}

// A page that breaks says so, and the way to the others stays.
class Boundary extends Component<{ children: ComponentChildren; at: string }, { failed: string; at: string }> {
    state = { failed: '', at: '' };

    static getDerivedStateFromError(error: unknown) {
        return { failed: wordsOf(error) };
    }

    componentDidCatch(error: unknown) {
        console.error(error);
        this.setState({ at: this.props.at });
    }

    render() {
        const { failed, at } = this.state;
        if (!failed || (at && at !== this.props.at)) return this.props.children;
        return <Failed words={`This page failed: ${failed}`} retry={() => this.setState({ failed: '', at: '' })} />;
    }
}

function App() {
    useSession();
    const page = <Boundary at={path.value}><CurrentPage /></Boundary>;
    if (path.value === '/login') return page;
    return <Shell>{me.value && page}</Shell>;
}

render(<App />, document.getElementById('page')!);
