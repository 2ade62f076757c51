// Polls the server: the current sample, the new points of the history, the alerts.
import {embedded} from '../embedded';
import type {Value} from '../metrics';

export interface Reading {
  name: string;
  value: number;
}

export interface Process {
  pid: number;
  name: string;
  cpu_percent?: number;
  rss_bytes?: number;
  swapped_bytes?: number;
  gpu_bytes?: number;
}

export interface Gpu {
  index?: number;
  name?: string;
  gpu_percent?: number;
  memory_total_bytes?: number;
  memory_used_bytes?: number;
  temperature_celsius?: number;
  power_watts?: number;
}

// The object of docs/watch.md. A figure that the machine does not report is absent.
export interface Sample {
  ram_total_bytes?: number;
  ram_used_bytes?: number;
  ram_available_bytes?: number;
  largest_free_block_bytes?: number;
  swap_total_bytes?: number;
  swap_used_bytes?: number;
  cpu_percent?: number;
  gpu_percent?: number;
  psi_some_percent?: number;
  power_mode?: string;
  temperature_celsius?: Record<string, number>;
  power_watts?: Record<string, number>;
  clock_hz?: Record<string, number>;
  process_table?: Process[];
  gpus?: Gpu[];
}

export interface AlertEvent {
  alert: string;
  state: 'fired' | 'ended';
  severity: 'info' | 'warning' | 'critical';
  text: string;
}

export interface Alerts {
  active: AlertEvent[];
  events: AlertEvent[];
}

export const COLUMNS = ['total_bytes', 'used_bytes', 'free_bytes', 'cache_bytes', 'processes_bytes', 'gpu_bytes', 'system_bytes',
  'swap_bytes', 'gpu_memory_bytes', 'cpu_percent', 'gpu_percent', 'hottest_celsius', 'power_watts'] as const;
export type Column = (typeof COLUMNS)[number];
export type History = {unix_ms: number[]} & Record<Column, Value[]>;

export const MOST_POINTS = 3600;

export function empty_history(): History {
  const history = {unix_ms: []} as unknown as History;
  for (const column of COLUMNS) history[column] = [];
  return history;
}

// The name of the machine that serves the page; without it, the host of the page's address.
export function host_name(page: Document): string {
  return embedded(page, 'host', location.hostname);
}

// Appends the new points and drops the oldest ones beyond MOST_POINTS.
export function joined(history: History, more: History): History {
  if (more.unix_ms.length === 0) return history;
  // The machine's clock was set back: the server has restarted its history, so the page does the same.
  if (more.unix_ms[0]! <= (history.unix_ms.at(-1) ?? -1)) return more;
  const from = Math.max(0, history.unix_ms.length + more.unix_ms.length - MOST_POINTS);
  const all = {unix_ms: history.unix_ms.concat(more.unix_ms).slice(from)} as unknown as History;
  for (const column of COLUMNS) all[column] = history[column].concat(more[column] ?? more.unix_ms.map(() => null)).slice(from);
  return all;
}

export function readings(of: Record<string, number> | undefined): Reading[] {
  if (of === undefined) return [];
  return Object.entries(of).map(([name, value]) => ({name, value}));
}

// Sends the token of the page's address in a header, because addresses end up in logs.
export async function get<Answer>(path: string): Promise<Answer> {
  const token = new URLSearchParams(location.search).get('token');
  const response = await fetch(path, token ? {headers: {Authorization: `Bearer ${token}`}} : {});
  if (!response.ok) throw new Error(`${response.status} ${(await response.text()).trim()}`);
  return (await response.json()) as Answer;
}
