// The words of the report page in one place, so that all sections use the same terms.
import type {Latency, Limit, Model, PhaseName, Status} from './report';

export const STATUS_WORDS: Record<Status, string> = {
  ok: 'ok',
  oom: 'out of memory',
  crashed: 'crashed',
  timeout: 'timed out',
  failed: 'failed',
  skipped: 'skipped',
};

// A worker marks a phase when the phase is complete; these words name the activity that follows. They label the bands of
// the memory chart, and the activity during which a model failed.
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
  device_ledger: 'the GPU ledger, which refuses requests over the limit',
  watchdog: 'a watchdog, which measures memory but stops nothing',
};

export const ROUTE_WORDS: Record<string, string> = {
  refused: 'refused',
  killed: 'killed',
  escaped: 'exceeded the limit',
  not_tried: 'not tried',
};

// The outcome of a model, as in src/report/run/run_words.cpp.
export type Outcome = 'ok' | 'over' | 'prepared' | 'fallen' | 'cut_short' | 'not_reached' | 'skipped';

// The run ended while this part was in progress, so it is not a failure of the model.
export function is_cut_short({status, error}: {status: Status; error?: string}): boolean {
  return status === 'failed' && error === 'the run ended while it was being measured';
}

export function outcome_of(model: Model): Outcome {
  if (model.status === 'skipped') return model.error === 'the run ended before it was measured' ? 'not_reached' : 'skipped';
  if (model.status !== 'ok') return model.error === 'the run ended while it was being measured' ? 'cut_short' : 'fallen';
  if (exceeds(model)) return 'over';
  return model.latency_ns || model.frames ? 'ok' : 'prepared';  // a prepared model has only the memory of its warm-up
}

export function outcome_words(model: Model): string {
  const words: Partial<Record<Outcome, string>> = {over: 'over limit', prepared: 'prepared; not measured', cut_short: 'cut short', not_reached: 'not reached'};
  return words[outcome_of(model)] ?? STATUS_WORDS[model.status];
}

// Skipped models come last; the order is otherwise unchanged.
export function in_reading_order(models: Model[]): Model[] {
  return [...models.filter((model) => model.status !== 'skipped'), ...models.filter((model) => model.status === 'skipped')];
}

// A control group's limit applies to its charged memory, which differs from resident memory.
export function counts_by_group(limit: Limit): boolean {
  return limit.mechanism === 'cgroup_v1' || limit.mechanism === 'cgroup_v2';
}

// A watchdog only measures; no mechanism at all does the same.
export function refuses_memory(limit: Limit): boolean {
  return limit.mechanism !== 'none' && limit.mechanism !== 'watchdog';
}

export function resident_is_above(model: Model, limit: Limit | undefined): boolean {
  const charged = model.memory?.limit_peak_bytes;
  if (!limit || (!counts_by_group(limit) && limit.mechanism !== 'rlimit_data') || charged === undefined) return false;
  return (peak_of(model) ?? 0) > limit.bytes && charged <= limit.bytes;
}

// With fewer than 10 frames, one slow frame dominates the variation, so the warning is dropped.
export function warnings_of(model: Model): string[] {
  const enough = (model.latency_ns?.n ?? 0) >= 10;
  return (model.warnings ?? []).filter((warning) => enough || !warning.startsWith('inference latency varies'));
}

// Mark for a percentile without a 99 % bound, because there are too few frames; the footnote explains it.
export const UNBOUNDED_MARK = '*';
export const UNBOUNDED_FOOTNOTE = '* Too few frames for a 99 % confidence bound (P90 needs 64 frames, P99 662).';

export function is_unbounded(latency: Latency, key: 'p90' | 'p99'): boolean {
  return (key === 'p90' ? latency.p90_bound : latency.p99_bound) === undefined;
}

// The larger of the two resident peaks: the memory that the model needs to load and run.
export function peak_of(model: Model): number | undefined {
  const {load_peak_bytes: load, run_peak_bytes: run} = model.memory ?? {};
  if (load === undefined) return run;
  return run === undefined ? load : Math.max(load, run);
}

export function exceeds(model: Model): boolean {
  return model.memory?.within_limit === false || (model.memory?.violations ?? 0) > 0;
}
