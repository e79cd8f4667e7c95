// Unit swatch.tsx: the colour and the dash of a trial, beside its name.
import { dashIndex, inkIndex } from './palette.ts';

export function Swatch({ number }: { number: number }) {
    return <span class="swatch" data-ink={inkIndex(number)} data-dash={dashIndex(number) || undefined} aria-hidden="true" />;
}
