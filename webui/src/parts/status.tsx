// Unit status.tsx: what is shown instead of something: it is being read, it could not be read, there is none of it.
import type { ComponentChildren } from 'preact';
import type { Resource } from '../state/resource.ts';
import { Said } from './text.tsx';

export function Loading({ lines = 3 }: { lines?: number }) {
    return (
        <div class="loading" role="status" aria-label="Loading">
            {Array.from({ length: lines }, (_, i) => <div key={i} />)}
        </div>
    );
}

export function Failed({ words, retry }: { words: string; retry?: () => void }) {
    return (
        <div class="failure" role="alert">
            <p><Said text={words} /></p>
            {retry && <button type="button" onClick={retry}>Try again</button>}
        </div>
    );
}

export function Empty({ children }: { children: ComponentChildren }) {
    return <div class="empty">{children}</div>;
}

// The content once it is there; what stands for it until then.
export function Await<T>({ of, lines, children }: { of: Resource<T>; lines?: number; children: (data: T) => ComponentChildren }) {
    const data = of.data.value, error = of.error.value;
    if (data !== undefined) return <>{children(data)}</>;
    if (error) return <Failed words={error.message} retry={() => of.reload()} />;
    return <Loading lines={lines ?? 3} />;
}
