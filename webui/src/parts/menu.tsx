// Unit menu.tsx: a button that opens a list of things to do or to choose. Arrows move, Escape closes.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { Said } from './text.tsx';

export interface Item {
    label: string;
    run: () => void;
    hint?: string; // a key, or a count
    checked?: boolean; // of items that are chosen rather than done; they leave the menu open
    danger?: boolean;
    why?: string; // why it cannot be done now
}

interface MenuProps {
    label: string;
    children?: ComponentChildren; // instead of the label, on the button
    items: Item[];
    side?: 'left' | 'right';
    plain?: boolean; // looks like text
    id?: string;
}

function focusItem(list: HTMLElement | null, step: number, from?: Element | null): void {
    const all = [...(list?.querySelectorAll<HTMLElement>('[role^=menuitem]') ?? [])];
    const at = from ? all.indexOf(from as HTMLElement) : step > 0 ? -1 : 0;
    all[(at + step + all.length) % all.length]?.focus();
}

// Above everything, so that no box that scrolls cuts it off; below its button, or over it if there is more room.
function showAbove(list: HTMLElement, button: HTMLElement, side: 'left' | 'right'): void {
    list.showPopover?.();
    const at = button.getBoundingClientRect(), { offsetWidth: width, offsetHeight: height } = list;
    const below = innerHeight - at.bottom, left = side === 'right' ? at.right - width : at.left;
    list.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
    list.style.top = `${height + 6 <= below || below >= at.top ? at.bottom + 2 : Math.max(4, at.top - height - 2)}px`;
    list.style.maxHeight = `${Math.max(80, Math.max(below, at.top) - 12)}px`;
}

export function Menu({ label, children, items, side = 'left', plain, id }: MenuProps) {
    const open = useSignal(false);
    const root = useRef<HTMLSpanElement>(null), list = useRef<HTMLDivElement>(null), button = useRef<HTMLButtonElement>(null);
    useLayoutEffect(() => {
        if (!open.value) return undefined;
        const shut = (): void => { open.value = false; };
        showAbove(list.current!, button.current!, side);
        focusItem(list.current, 1);
        addEventListener('resize', shut);
        return () => removeEventListener('resize', shut);
    }, [open.value]);
    const close = (): void => {
        open.value = false;
        button.current?.focus();
    };
    const onKey = (event: KeyboardEvent): void => {
        if (event.key === 'Escape') close();
        else if (event.key === 'ArrowDown') focusItem(list.current, 1, document.activeElement);
        else if (event.key === 'ArrowUp') focusItem(list.current, -1, document.activeElement);
        else return;
        event.preventDefault();
        event.stopPropagation();
    };
    const choose = (item: Item): void => {
        if (item.why) return;
        if (item.checked === undefined) close();
        item.run();
    };
    return (
        <span class="menu" ref={root} onFocusOut={(e) => {
            if (open.value && !root.current?.contains(e.relatedTarget as Node | null)) open.value = false;
        }}>
            <button type="button" ref={button} id={id} class={plain ? 'plain' : ''} aria-haspopup="menu" aria-expanded={open.value}
                    aria-label={children ? label : undefined} onClick={() => (open.value = !open.value)}>
                {children ?? <>{label} <span aria-hidden="true" class="caret">▾</span></>}
            </button>
            {open.value && (
                <div class="items" popover="manual" role="menu" aria-label={label} ref={list} onKeyDown={onKey}>
                    {items.map((item) => <MenuItem key={item.label} item={item} choose={choose} />)}
                    {!items.length && <div class="quiet">nothing to choose</div>}
                </div>
            )}
        </span>
    );
}

function MenuItem({ item, choose }: { item: Item; choose: (item: Item) => void }) {
    const checks = item.checked !== undefined;
    return (
        <button type="button" tabIndex={-1} role={checks ? 'menuitemcheckbox' : 'menuitem'} aria-checked={checks ? item.checked : undefined}
                aria-disabled={!!item.why} title={item.why} data-danger={item.danger ? '' : undefined} onClick={() => choose(item)}>
            {checks && <span class="check" aria-hidden="true">{item.checked ? '✓' : ''}</span>}
            <Said text={item.label} max={60} />
            {item.hint && <kbd>{item.hint}</kbd>}
        </button>
    );
}
