// Unit palette.ts: a trial has one colour and one dash everywhere: in curves, tables and ladders.
import { colour } from '../state/theme.ts';

const COLOURS = 8;
const DASHES: number[][] = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

export interface Ink {
    colour: string;
    dash: number[];
}

// number: the trial's within its experiment, from 1.
export const inkIndex = (number: number): number => ((number - 1) % COLOURS + COLOURS) % COLOURS;

export function dashIndex(number: number): number {
    const turn = Math.floor((number - 1) / COLOURS);
    return ((turn % DASHES.length) + DASHES.length) % DASHES.length;
}

export function ink(number: number): Ink {
    return { colour: colour(`--c${inkIndex(number)}`), dash: DASHES[dashIndex(number)]! };
}
