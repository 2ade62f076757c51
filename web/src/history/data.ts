// The data of `headroom history show METRIC --json`, and `help`, which explains the metric.
import {bytes, duration} from '../format';

export interface Point {
  commit?: string;
  label?: string;
  started_at: string;  // of the first run
  median: number;
  values: number[];  // ascending, one per run
}

export interface Model {
  name: string;
  points: Point[];
}

export interface History {
  metric: string;
  help: string;
  unit: 'bytes' | 'ns' | 'per_second' | 'count';
  models: Model[];
}

// As the terminal prints it (words_for in src/comparison/gate.cpp).
export function value_words(unit: History['unit'], value: number): string {
  if (unit === 'bytes') return bytes(Math.round(value));
  if (unit === 'ns') return duration(value);
  return unit === 'per_second' ? value.toFixed(1) : String(Number(value.toPrecision(4)));
}

export function short_commit(commit: string | undefined): string {
  return commit === undefined ? '–' : [...commit].slice(0, 10).join('');
}

// "2026-11-21T10:30:00.123+01:00" → "2026-11-21 10:30"
export function start_words(started_at: string): string {
  return started_at.slice(0, 16).replace('T', ' ');
}

// "+2.3 %", compared with the point before; empty if there is none.
export function change_words(before: Point | undefined, after: Point): string {
  if (before === undefined || before.median === 0) return '';
  const percent = 100 * (after.median / before.median - 1);
  return `${percent < 0 ? '-' : '+'}${Math.abs(percent).toFixed(1)} %`;
}

export const lowest = (point: Point): number => point.values[0]!;
export const highest = (point: Point): number => point.values[point.values.length - 1]!;
