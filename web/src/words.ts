// What the words of a report mean, in one place: the page says the same thing the same way everywhere.
import type {Limit, Model, PhaseName, Status} from './report';

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

export const LIMIT_TYPE_WORDS: Record<Limit['type'], string> = {
  hard: 'every route by which a process can take memory was refused or killed at the limit, as tried in this run',
  soft: 'a watchdog or an allocator cap, or some route got past the limit when it was tried; a model may exceed it, and is then marked',
  unavailable: 'nothing on this machine enforces the limit; memory was only watched',
};

export const MECHANISM_WORDS: Record<string, string> = {
  none: 'nothing',
  cgroup_v2: 'control group v2 (memory.max)',
  cgroup_v1: 'control group v1 (memory.limit_in_bytes)',
  rlimit_data: 'RLIMIT_DATA',
  watchdog: 'watchdog',
};

export const ROUTE_WORDS: Record<string, string> = {
  refused: 'refused',
  killed: 'killed',
  escaped: 'got past the limit',
  not_tried: 'not tried',
};

// The larger of the two peaks: what the model needs to get through loading and running.
export function peak_of(model: Model): number | undefined {
  const {load_peak_bytes: load, run_peak_bytes: run} = model.memory ?? {};
  if (load === undefined) return run;
  return run === undefined ? load : Math.max(load, run);
}

export function exceeds(model: Model): boolean {
  return model.memory?.within_limit === false || (model.memory?.violations ?? 0) > 0;
}
