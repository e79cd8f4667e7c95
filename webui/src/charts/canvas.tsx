// Unit canvas.tsx: a canvas that fits its place and the screen's pixels, and is drawn again when something changes.
import { useEffect, useRef } from 'preact/hooks';
import { useSignal } from '@preact/signals';
import { isDark } from '../state/theme.ts';

export interface CanvasProps {
    label: string; // what can be seen in it
    height: number;
    draw: (ctx: CanvasRenderingContext2D, width: number, height: number) => void;
    deps: readonly unknown[]; // what the picture depends on
    onMove?: (x: number, y: number, width: number) => void;
    onLeave?: () => void;
    onDown?: (x: number, y: number, width: number, event: PointerEvent) => void;
    onUp?: () => void;
}

export function Canvas({ label, height, draw, deps, onMove, onLeave, onDown, onUp }: CanvasProps) {
    const canvas = useRef<HTMLCanvasElement>(null);
    const width = useSignal(0);
    useEffect(() => {
        const watch = new ResizeObserver(([entry]) => (width.value = Math.floor(entry!.contentRect.width)));
        watch.observe(canvas.current!.parentElement!);
        return () => watch.disconnect();
    }, []);
    useEffect(() => {
        const c = canvas.current!, w = width.value, ratio = devicePixelRatio;
        if (!w) return;
        c.width = w * ratio;
        c.height = height * ratio;
        const ctx = c.getContext('2d')!;
        ctx.scale(ratio, ratio);
        ctx.font = '11px system-ui, sans-serif';
        draw(ctx, w, height);
    }, [width.value, height, isDark.value, ...deps]);
    const at = (event: PointerEvent): [number, number, number] => {
        const box = canvas.current!.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top, box.width];
    };
    return (
        <canvas ref={canvas} role="img" aria-label={label} style={{ width: '100%', height: `${height}px` }}
                onPointerMove={(e) => onMove?.(...at(e))} onPointerLeave={onLeave} onPointerUp={onUp}
                onPointerDown={(e) => {
                    if (!onDown) return;
                    canvas.current!.setPointerCapture(e.pointerId);
                    onDown(...at(e), e);
                }} />
    );
}
