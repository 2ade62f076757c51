// Divides a model's memory into parts that add up to its run peak; each byte is counted once.
import type {Memory} from './report';

export interface MemoryPart {
  kind: 'runtime' | 'model' | 'working set' | 'frames' | 'whole';
  bytes: number;
}

// runtime: resident once the runtime is loaded. model: loaded − runtime. frames: decoded frames that the bench keeps in
// memory while running (not part of the model). working set: run peak − loaded − frames. If a figure of a part was not
// measured, the part is not estimated: the known memory of the process is then one part.
export function memory_parts(memory: Memory): MemoryPart[] {
  const {runtime_bytes: runtime, loaded_bytes: loaded, run_peak_bytes: run_peak, load_peak_bytes: load_peak} = memory;
  const parts: MemoryPart[] = [];
  if (runtime === undefined) {
    const whole = run_peak ?? load_peak ?? loaded;
    return whole === undefined ? [] : [{kind: 'whole', bytes: whole}];
  }
  parts.push({kind: 'runtime', bytes: runtime});
  if (loaded === undefined) {
    const known = run_peak ?? load_peak;
    if (known !== undefined && known > runtime) parts.push({kind: 'model', bytes: known - runtime});
    return parts;
  }
  if (loaded > runtime) parts.push({kind: 'model', bytes: loaded - runtime});
  const below = Math.max(loaded, runtime);
  if (run_peak !== undefined && run_peak > below) {
    const frames = Math.min(memory.frames_bytes ?? 0, run_peak - below);
    if (run_peak - below > frames) parts.push({kind: 'working set', bytes: run_peak - below - frames});
    if (frames > 0) parts.push({kind: 'frames', bytes: frames});
  }
  return parts;
}
