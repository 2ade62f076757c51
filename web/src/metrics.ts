// Turns metrics.jsonl into time series. The page does not know the keys in advance. It flattens each line and treats
// every number as a series. The unit at the end of the key decides to which chart the series belongs.

export interface Series {
  key: string;    // "temperature_celsius.cpu-thermal"
  label: string;  // "cpu-thermal"
  values: Value[];
}

// The value of a series at one time. uPlot interrupts a line at null, and continues it across undefined.
//   null       nothing to measure: the worker's process did not exist
//   undefined  not measured
export type Value = number | null | undefined;

export type Unit = 'percent' | 'bytes' | 'celsius' | 'watts' | 'hz' | 'plain';

export interface MetricChart {
  title: string;
  unit: Unit;
  seconds: number[];
  series: Series[];
  left_out: number;  // number of series that were not drawn because there are too many
}

export interface Band {
  from: number;  // seconds
  to: number;
  label: string;
}

export interface Metrics {
  charts: MetricChart[];
  constant: {key: string; value: number; unit: Unit}[];  // series that never change, shown as text
  bands: Band[];                                         // which model was running, if the lines contain it
  lines: number;
}

type Line = {seconds: number; label: string; values: Map<string, number>; pids: Map<string, number>};  // pids: by worker

const FAMILIES: {title: string; unit: Unit; pattern: RegExp}[] = [
  {title: 'CPU and GPU load', unit: 'percent', pattern: /^(cpu|gpu)_percent|^gpus\..*_percent$/},
  {title: 'Memory of the GPUs', unit: 'bytes', pattern: /^gpus\..*memory_used_bytes$/},
  {title: 'Memory of the machine', unit: 'bytes', pattern: /^(ram|nvmap|cma)_.*bytes$/},
  {title: 'Resident memory of the workers', unit: 'bytes', pattern: /^(process.*\.)?(rss|resident)_bytes$/},
  {title: 'Proportional share of the workers (PSS)', unit: 'bytes', pattern: /^(process.*\.)?pss_bytes$/},
  {title: 'Memory of the control group', unit: 'bytes', pattern: /cgroup.*bytes$/},
  {title: 'Swap', unit: 'bytes', pattern: /^swap.*bytes$/},
  {title: 'Memory pressure (PSI)', unit: 'percent', pattern: /^psi_.*_percent$/},
  {title: 'Paging and OOM kills, events per sample', unit: 'plain', pattern: /^(pages_swapped|refaults|oom_kills)/},
  {title: 'Temperatures', unit: 'celsius', pattern: /celsius/},
  {title: 'Power', unit: 'watts', pattern: /watts/},
  {title: 'Clocks', unit: 'hz', pattern: /(^|_)hz(\.|$)/},
];
// Titles of figures, by key without the sensor. The first part is the table in src/report/words.cpp, so that the page
// and report.md use the same words. The second part is only in metrics.jsonl.
export const TITLES: Record<string, string> = {
  cpu_percent: 'CPU, all cores',
  gpu_percent: 'GPU',
  gpu_load_percent: 'GPU load',
  gpu_memory_used_bytes: 'GPU memory used',
  gpu_memory_used_percent: 'GPU memory used, share',
  gpu_memory_free_bytes: 'GPU memory free',
  gpu_memory_load_percent: 'GPU memory, share of time in use',
  gpu_encoder_percent: 'GPU video encoders',
  gpu_decoder_percent: 'GPU video decoders',
  ram_used_bytes: 'RAM used',
  ram_used_percent: 'RAM used, share of the board',
  ram_available_bytes: 'RAM available',
  ram_free_bytes: 'RAM free',
  ram_cached_bytes: 'RAM cached',
  ram_shared_bytes: 'RAM shared',
  nvmap_used_bytes: 'NvMap (inside RAM used)',
  swap_used_bytes: 'Swap used',
  ram_anonymous_bytes: 'RAM of processes, anonymous',
  slab_unreclaimable_bytes: 'Kernel slab, unreclaimable',
  largest_free_block_bytes: 'Largest free block',
  cma_free_bytes: 'CMA free',
  zram_used_bytes: 'zram, memory used',
  cgroup_current_bytes: 'Control group',
  followed_processes: 'Followed processes',
  followed_rss_bytes: 'Followed: resident (sum of RSS)',
  followed_rss_percent: 'Followed: resident, share of the board',
  followed_descriptors: 'Followed: open descriptors',
  followed_pss_bytes: 'Followed: proportional share (PSS)',
  followed_swapped_bytes: 'Followed: swapped',
  followed_gpu_bytes: 'Followed: GPU memory',
  allocation_stalls: 'Allocation stalls (reclaim)',
  compaction_failures: 'Failed memory compactions',
  major_faults: 'Major page faults',
  open_files: 'Open files of the machine',
  emc_percent: 'Memory controller',
  engine_percent: 'Engine',
  fan_rpm: 'Fan, rpm',
  psi_some_percent: 'Memory pressure, some tasks waiting',
  psi_full_percent: 'Memory pressure, all tasks waiting',
  pages_swapped_in: 'Pages swapped in',
  pages_swapped_out: 'Pages swapped out',
  refaults: 'Page refaults',
  oom_kills: 'OOM kills',
  throttled: 'Clock throttled, share of samples',
  temperature_celsius: 'Temperature',
  power_watts: 'Power',
  clock_hz: 'Clock',

  ram_buffers_bytes: 'RAM of buffers',
  ram_mapped_bytes: 'RAM of mapped files',
  ram_dirty_bytes: 'RAM not yet written to disk',
  slab_reclaimable_bytes: 'Kernel slab, reclaimable',
  kernel_stacks_bytes: 'Kernel stacks',
  page_tables_bytes: 'Page tables',
  cma_total_bytes: 'CMA total',
  huge_pages_total_bytes: 'Huge pages, reserved',
  huge_pages_free_bytes: 'Huge pages, free',
  swap_cached_bytes: 'Swap, also in RAM',
  nvmap_free_bytes: 'NvMap, cached',
  largest_free_blocks: 'Blocks of the largest free size',
  zram_original_bytes: 'zram, swapped bytes',
  zram_compressed_bytes: 'zram, compressed size',
  'cgroup.current_bytes': 'Control group',
  'cgroup.peak_bytes': 'Control group, peak',
  'cgroup.limit_bytes': 'Control group, limit',
  'cgroup.high_bytes': 'Control group, memory.high',
  'cgroup.anonymous_bytes': 'Control group, anonymous',
  'cgroup.file_backed_bytes': 'Control group, file-backed',
  'cgroup.swapped_bytes': 'Control group, swapped',
  'cgroup.oom_kills': 'Control group, OOM kills',
  compaction_stalls: 'Runs of memory compaction',
  pool_used_bytes: 'Pool, used',
  pool_budget_bytes: 'Pool, budget',
};
const EVENTS = /^(cgroup\.oom_kills|allocation_stalls|compaction_(stalls|failures)|major_faults)$/;
const WORKERS = 'processes.';
const MOST_SERIES = 8;  // the number of colours in the palette
// Series that are not drawn. Totals never change and are in the header. Of a worker's memory, only resident memory and
// PSS are drawn, without the parts. A GPU's free and reserved memory follow from its used memory. Of the pressure, only
// the percentages are drawn: the stalled time contains the same information in another unit.
const NOT_DRAWN = /^(schema_version|line|ram_total_bytes|swap_total_bytes)$|^psi_.*_stalled_ns$|^gpus\..*(index|_instance|(total|free|reserved)_bytes|limit_watts)$|(^|[._])(time|pid|since_start)(_|$)|^process.*\.(?!(rss|resident|pss)_bytes$)[^.]*$/;

export function unit_of(key: string): Unit {
  const family = FAMILIES.find(({pattern}) => pattern.test(key));
  if (family) return family.unit;
  if (/percent/.test(key)) return 'percent';
  if (/bytes/.test(key)) return 'bytes';
  return 'plain';
}

export function parse_metrics(text: string): Metrics {
  const lines = read_lines(text);
  const keys = new Set<string>();
  for (const line of lines) for (const key of line.values.keys()) keys.add(key);
  const loads = [...keys].filter((key) => /^gpus\.[^.]+\.gpu_percent$/.test(key));
  if (loads.length === 1) keys.delete(loads[0]!);  // identical to the machine's gpu_percent

  const metrics: Metrics = {charts: [], constant: [], bands: bands_of(lines), lines: lines.length};
  const families = new Map<string, {unit: Unit; keys: string[]}>();
  for (const key of keys) {
    const values = lines.map((line) => line.values.get(key)).filter((value) => value !== undefined);
    const first = values[0]!;
    if (values.length < 2) continue;
    if (values.every((value) => value === first)) {
      metrics.constant.push({key, value: first, unit: unit_of(key)});
      continue;
    }
    const title = FAMILIES.find(({pattern}) => pattern.test(key))?.title ?? title_of(key) + (EVENTS.test(key) ? ', events per sample' : '');
    const family = families.get(title) ?? {unit: unit_of(key), keys: []};
    family.keys.push(key);
    families.set(title, family);
  }
  const order = (title: string) => {
    const at = FAMILIES.findIndex((family) => family.title === title);
    return at < 0 ? FAMILIES.length : at;
  };
  for (const [title, family] of [...families].sort(([a], [b]) => order(a) - order(b)))
    metrics.charts.push(chart_of(title, family.unit, family.keys, lines));
  return metrics;
}

function chart_of(title: string, unit: Unit, keys: string[], lines: Line[]): MetricChart {
  const of_workers = keys.some((key) => worker_of(key) !== undefined);
  const used = of_workers ? with_changes_of_process(lines) : lines.filter((line) => keys.some((key) => line.values.has(key)));
  const series = keys.map((key) => ({key, label: label_of(key), values: values_of(key, used)}));
  const shown = new Set([...series].sort((a, b) => largest_of(b.values) - largest_of(a.values)).slice(0, MOST_SERIES));
  return {
    title,
    unit,
    seconds: used.map((line) => line.seconds),
    series: series.filter((one) => shown.has(one)),
    left_out: series.length - shown.size,
  };
}

// "processes.yolo.rss_bytes" → "yolo"; undefined for a figure of the machine.
function worker_of(key: string): string | undefined {
  return key.startsWith(WORKERS) ? key.slice(WORKERS.length, key.lastIndexOf('.')) : undefined;
}

// A model that is measured alone and again with all others runs in a new process each time. Between the two there is
// nothing to draw. If the process changes from one line to the next, this inserts a line without either process.
function with_changes_of_process(lines: Line[]): Line[] {
  return lines.flatMap((line, i) => {
    const before = lines[i - 1];
    if (!before) return [line];
    const changed = [...line.pids].some(([worker, pid]) => before.pids.has(worker) && before.pids.get(worker) !== pid);
    if (!changed) return [line];
    const pids = new Map([...line.pids].filter(([worker, pid]) => before.pids.get(worker) === pid));
    return [{seconds: (before.seconds + line.seconds) / 2, label: '', values: new Map<string, number>(), pids}, line];
  });
}

function values_of(key: string, lines: Line[]): Value[] {
  const worker = worker_of(key);
  const values = lines.map((line): Value =>
    line.values.get(key) ?? (worker === undefined || line.pids.has(worker) ? undefined : null));
  // An undefined value next to a null would leave a stub of the line, so it becomes null, too.
  for (let i = 1; i < values.length; ++i) if (values[i] === undefined && values[i - 1] === null) values[i] = null;
  for (let i = values.length - 2; i >= 0; --i) if (values[i] === undefined && values[i + 1] === null) values[i] = null;
  return values;
}

// Math.max(...values) overflows the stack for a series of 100,000 points, so this is a loop.
export function largest_of(values: Value[]): number {
  let largest = -Infinity;
  for (const value of values) if (typeof value === 'number' && value > largest) largest = value;
  return largest;
}

// Indices of values without a neighbour: between two gaps a value is visible only as a point.
export function alone_in(values: Value[]): number[] {
  const measured = values.flatMap((value, i) => (value === undefined ? [] : [i]));
  const is_number = (at: number | undefined) => at !== undefined && values[at] !== null;
  return measured.filter((at, i) => is_number(at) && !is_number(measured[i - 1]) && !is_number(measured[i + 1]));
}

// "temperature_celsius.cpu-thermal" → "Temperature cpu-thermal"; "cgroup.oom_kills" → "Control group, OOM kills".
export function title_of(key: string): string {
  const whole = TITLES[key];
  if (whole !== undefined) return whole;
  const dot = key.indexOf('.');
  const family = dot > 0 ? TITLES[key.slice(0, dot)] : undefined;
  return family === undefined ? label_of(key) : `${family} ${key.slice(dot + 1)}`;
}

// "temperature_celsius.cpu-thermal" → "cpu-thermal"; "ram_used_bytes" → "RAM used"; "gpus.GPU 0.sm_clock_hz" → "GPU 0 sm clock".
export function label_of(key: string): string {
  if (key.startsWith('gpus.')) return key.slice(5).replace(/\.mig_instances\./, ' ').replace(/_(bytes|percent|celsius|watts|hz)$/, '').replace(/[._]/g, ' ');
  if (key.startsWith('cgroup.')) return key.slice(7).replace(/_bytes$/, '').replace(/_/g, ' ');
  const dot = key.indexOf('.');
  if (dot > 0) return key.slice(dot + 1).replace(/\.[a-z_]+_bytes$/, '');
  const words = key.replace(/_(bytes|percent|celsius|watts|hz)$/, '').replace(/_/g, ' ');
  return words.replace(/\b(ram|cpu|gpu|psi|rss|pss|oom|cma)\b/g, (word) => word.toUpperCase());
}

// Skips invalid lines, such as an incomplete last line after a kill.
function read_lines(text: string): Line[] {
  const lines: Line[] = [];
  let start: number | undefined;
  for (const raw of text.split('\n')) {
    if (raw.trim() === '') continue;
    let object: unknown;
    try {
      object = JSON.parse(raw);
    } catch {
      continue;
    }
    if (typeof object !== 'object' || object === null || Array.isArray(object)) continue;
    const record = object as Record<string, unknown>;
    const seconds = time_of(record);
    if (seconds === undefined) continue;
    start ??= seconds;
    const values = new Map<string, number>();
    flatten('', record, values);
    lines.push({seconds: seconds - start, label: band_label(record), values, pids: pids_of(record)});
  }
  return lines.sort((a, b) => a.seconds - b.seconds);
}

function time_of(record: Record<string, unknown>): number | undefined {
  for (const name of ['time', 'since_start', 'elapsed']) {
    if (typeof record[`${name}_ns`] === 'number') return (record[`${name}_ns`] as number) / 1e9;
    if (typeof record[`${name}_seconds`] === 'number') return record[`${name}_seconds`] as number;
  }
  return undefined;
}

function band_label(record: Record<string, unknown>): string {
  const part = (key: string) => (typeof record[key] === 'string' ? (record[key] as string) : '');
  const workers = Array.isArray(record.processes) ? record.processes.map(name_of) : [];
  return part('model') || (workers.length === 1 ? workers[0]! : '') || part('phase');
}

function pids_of(record: Record<string, unknown>): Map<string, number> {
  const workers = Array.isArray(record.processes) ? record.processes : [];
  return new Map(workers.map((item) => [name_of(item), Number(item?.pid ?? 0)]));
}

// GPUs of one machine can have the same name, so they are named by their number.
function name_of(item: unknown): string {
  const {name, label, model, uuid, index} = (item ?? {}) as Record<string, unknown>;
  if (typeof uuid === 'string' && typeof index === 'number') return `${uuid.startsWith('MIG-') ? 'MIG' : 'GPU'} ${index}`;
  return [name, label, model].find((text): text is string => typeof text === 'string') ?? '';
}

// Collects numbers by dotted key. Both {"zone": 43.5} and [{"name": "zone", "value": 43.5}] become "….zone";
// [{"name": "yolo", "rss_bytes": 5}] becomes "….yolo.rss_bytes".
function flatten(prefix: string, value: unknown, into: Map<string, number>): void {
  if (typeof value === 'number') {
    if (Number.isFinite(value) && !NOT_DRAWN.test(prefix)) into.set(prefix, value);
  } else if (Array.isArray(value)) {
    for (const item of value) {
      const name = name_of(item);
      if (name) flatten(`${prefix}.${name}`, item.value ?? item, into);
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [key, member] of Object.entries(value))
      flatten(prefix === '' || prefix === 'system' ? key : `${prefix}.${key}`, member, into);
  }
}

// Consecutive lines with the same model (or phase) become one shaded band.
function bands_of(lines: Line[]): Band[] {
  const bands: Band[] = [];
  let current: Band | undefined;
  for (const {seconds, label} of lines) {
    if (current && current.label === label) {
      current.to = seconds;
      continue;
    }
    if (current) current.to = seconds;
    current = {from: seconds, to: seconds, label};
    bands.push(current);
  }
  return bands.filter((band) => band.label !== '');
}
