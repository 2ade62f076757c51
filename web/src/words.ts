// What the words of a report mean, in one place: the page says the same thing the same way everywhere.
import type {Latency, Limit, Model, PhaseName, Status} from './report';

export const STATUS_WORDS: Record<Status, string> = {
  ok: 'ok',
  oom: 'out of memory',
  crashed: 'crashed',
  timeout: 'timed out',
  failed: 'failed',
  skipped: 'skipped',
};

// A worker marks a phase when it is done; this is what it does next. Names the bands of the memory chart, and what
// a model that died was doing after the last mark.
export const PHASE_WORDS: Record<PhaseName, string> = {
  start: 'loading the runtime',
  runtime_loaded: 'loading the model',
  model_loaded: 'warming up',
  warm: 'running',
  running: 'unloading',
  unloaded: 'ending',
};

export const MECHANISM_WORDS: Record<string, string> = {
  none: 'nothing',
  cgroup_v2: 'control group v2 (memory.max)',
  cgroup_v1: 'control group v1 (memory.limit_in_bytes)',
  rlimit_data: 'RLIMIT_DATA',
  device_ledger: 'the ledger in front of the driver, which refuses',
  watchdog: 'a watchdog that samples, and marks what it sees over the limit',
};

export const ROUTE_WORDS: Record<string, string> = {
  refused: 'refused',
  killed: 'killed',
  escaped: 'got past the limit',
  not_tried: 'not tried',
};

// What became of a model, as in src/report/outcome.cpp.
export type Outcome = 'ok' | 'over' | 'prepared' | 'fallen' | 'cut_short' | 'not_reached' | 'skipped';

// The run ended while it was under way: nothing is known against it.
export function is_cut_short({status, error}: {status: Status; error?: string}): boolean {
  return status === 'failed' && error === 'the run ended while it was being measured';
}

export function outcome_of(model: Model): Outcome {
  if (model.status === 'skipped') return model.error === 'the run ended before it was measured' ? 'not_reached' : 'skipped';
  if (model.status !== 'ok') return model.error === 'the run ended while it was being measured' ? 'cut_short' : 'fallen';
  if (exceeds(model)) return 'over';
  return model.latency_ns || model.frames ? 'ok' : 'prepared';  // the memory of one that was only prepared is its warm-up's
}

export function outcome_words(model: Model): string {
  const words: Partial<Record<Outcome, string>> = {over: 'over limit', prepared: 'prepared; not measured', cut_short: 'cut short', not_reached: 'not reached'};
  return words[outcome_of(model)] ?? STATUS_WORDS[model.status];
}

// Models with nothing to show below the others; else as given.
export function in_reading_order(models: Model[]): Model[] {
  return [...models.filter((model) => model.status !== 'skipped'), ...models.filter((model) => model.status === 'skipped')];
}

// A control group's account is not the resident size, and only the account can be compared with its limit.
export function counts_by_group(limit: Limit): boolean {
  return limit.mechanism === 'cgroup_v1' || limit.mechanism === 'cgroup_v2';
}

export function resident_is_above(model: Model, limit: Limit | undefined): boolean {
  const charged = model.memory?.limit_peak_bytes;
  if (!limit || (!counts_by_group(limit) && limit.mechanism !== 'rlimit_data') || charged === undefined) return false;
  return (peak_of(model) ?? 0) > limit.bytes && charged <= limit.bytes;
}

// Below 10 frames one slow frame decides how much the latency varies, so nothing is said about it.
export function warnings_of(model: Model): string[] {
  const enough = (model.latency_ns?.n ?? 0) >= 10;
  return (model.warnings ?? []).filter((warning) => enough || !warning.startsWith('inference latency varies'));
}

// A percentile that n is too small to bound is marked, and the table says what the mark means.
export const UNBOUNDED_MARK = '*';
export const UNBOUNDED_FOOTNOTE = '* n is too small to bound it at 99 % confidence.';

export function is_unbounded(latency: Latency, key: 'p90' | 'p99'): boolean {
  return (key === 'p90' ? latency.p90_bound : latency.p99_bound) === undefined;
}

// The larger of the two resident peaks: what the model needs to get through loading and running.
export function peak_of(model: Model): number | undefined {
  const {load_peak_bytes: load, run_peak_bytes: run} = model.memory ?? {};
  if (load === undefined) return run;
  return run === undefined ? load : Math.max(load, run);
}

export function exceeds(model: Model): boolean {
  return model.memory?.within_limit === false || (model.memory?.violations ?? 0) > 0;
}
