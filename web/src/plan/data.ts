// The plan, in the format of `headroom plan --json`.

export interface Origin {
  kind: 'stated' | 'estimate' | 'measured';
  source?: string;
}

export interface Component {
  name: string;
  notes?: string;
  memory_bytes: number;
  load_peak_bytes?: number;
  run_mean_bytes?: number;
  run_peak_bytes?: number;
  frames_bytes: number;
  transient_bytes: number;
  gpu_apart_bytes?: number;
  is_system: boolean;
  is_lazy: boolean;
  group?: string;
  settings?: Record<string, string>;
  origin: Origin;
}

export interface Part {
  name: string;
  bytes: number;
  is_shared?: boolean;
  is_loading?: boolean;
}

export interface Moment {
  kind: 'starting' | 'all_starting' | 'running' | 'loading';
  words: string;
  bytes: number;
  parts: Part[];
}

export interface Advice {
  kind: string;
  words: string;
  what_if?: string;
  saved_bytes: number;
  verdict: string;
  origin: Origin;
}

export interface Plan {
  budget: string;
  title?: string;
  is_decimal: boolean;
  device: {name?: string; total_bytes: number; source?: string; is_control_group: boolean};
  rules: {most_used: number; buffer_bytes: number; allowed_bytes: number};
  verdict: 'healthy' | 'tight' | 'risky' | 'does_not_fit';
  reasons: string[];
  running_bytes: number;
  run_mean_bytes: number;
  peak_bytes: number;
  machine_peak_bytes: number;
  charged_peak_bytes: number;
  available_bytes: number;
  used: number;
  best_start_order: string[];
  best_peak_bytes: number;
  baseline?: string;
  what_ifs?: string[];
  components: Component[];
  moments: Moment[];
  worst_moment: number;
  fitting?: {members: string[]; left_out: string[]; peak_bytes: number; is_proven: boolean; required_fit: boolean};
  advice: Advice[];
}
