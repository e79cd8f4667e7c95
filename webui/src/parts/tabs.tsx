// Unit tabs.tsx: the parts of a page, as links: each has an address.
import { useEffect, useRef } from 'preact/hooks';
import { useKeys } from '../state/keys.ts';
import { navigate } from '../state/route.ts';

interface TabsProps {
    base: string; // the address of the first one
    first: string;
    current: string;
    tabs: [string, string][];
}

export function Tabs({ base, first, current, tabs }: TabsProps) {
    const to = (name: string): string => (name === first ? base : `${base}/${name}`);
    const move = (step: number) => () => {
        const at = Math.max(0, tabs.findIndex(([name]) => name === current));
        navigate(to(tabs[(at + step + tabs.length) % tabs.length]![0]));
    };
    const bar = useRef<HTMLElement>(null);
    useEffect(() => bar.current!.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' }), [current]);
    useKeys([
        { key: ']', does: 'Next tab', run: move(1) },
        { key: '[', does: 'Previous tab', run: move(-1) },
    ]);
    return (
        <nav class="tabs" aria-label="Parts of the page" ref={bar}>
            {tabs.map(([name, title]) => <a key={name} href={to(name)} aria-current={name === current ? 'page' : undefined}>{title}</a>)}
        </nav>
    );
}
