// Unit actiondialog.tsx: what can be done with something, opened by ".": a list to choose from with arrows and Enter.
import { useRef } from 'preact/hooks';
import { Dialog } from './dialog.tsx';
import type { Item } from './menu.tsx';

export function ActionDialog({ title, items, close }: { title: string; items: Item[]; close: () => void }) {
    const list = useRef<HTMLDivElement>(null);
    const onKey = (event: KeyboardEvent): void => {
        const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }[event.key];
        if (!step) return;
        const all = [...list.current!.querySelectorAll('button')];
        all[(all.indexOf(document.activeElement as HTMLButtonElement) + step + all.length) % all.length]?.focus();
        event.preventDefault();
    };
    return (
        <Dialog title={title} close={close}>
            <div class="choices" ref={list} onKeyDown={onKey}>
                {items.map((item, i) => (
                    <button type="button" key={item.label} autofocus={i === 0} data-danger={item.danger ? '' : undefined}
                            onClick={() => { close(); item.run(); }}>{item.label}</button>
                ))}
            </div>
        </Dialog>
    );
}
