// The fields of report.json that the page reads (docs/report.schema.json). Any figure can be absent. An absent figure is
// shown as a dash, never as zero.

import type {MemoryShare} from './memory_kinds';

export type Status = 'ok' | 'oom' | 'crashed' | 'timeout' | 'failed' | 'skipped';
export type PhaseName = 'start' | 'runtime_loaded' | 'model_loaded' | 'warm' | 'running' | 'unloaded';

// All values are in nanoseconds; the key of the enclosing object ends in _ns.
export interface Latency {
  n: number;
  mean: number;
  sd: number;
  cv: number;
  min: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
  p90_bound?: number;
  p99_bound?: number;
  histogram?: number[];
}

export interface Memory {
  start_bytes?: number;
  runtime_bytes?: number;
  loaded_bytes?: number;
  load_peak_bytes?: number;
  run_mean_bytes?: number;
  run_peak_bytes?: number;
  residual_bytes?: number;
  frames_bytes?: number;
  cgroup_peak_bytes?: number;
  data_peak_bytes?: number;
  pss_run_peak_bytes?: number;
  runtime_own_bytes?: number;  // the runtime's own code and tables
  board_percent?: number;  // resident peak, of the machine's memory
  limit_peak_bytes?: number;  // in the figure that the limit applies to
  within_limit?: boolean;
  violations?: number;
}

export type Settings = Record<string, string | number | boolean>;

export interface Trial {
  settings: Settings;
  status: Status;
  error?: string;
  p50_ns?: number;
  peak_bytes?: number;
}

export interface NodeMemory {
  name: string;
  operation?: string;
  runs: number;
  duration_ns: number;
  output_bytes?: number;
  activation_bytes?: number;
  parameter_bytes?: number;
  arena_in_use_bytes?: number;
}

// Result of a traced run of the model (--layers).
export interface LayerMemory {
  recording?: string;
  frames: number;
  peak_bytes: number;
  shares?: MemoryShare[];
  peak_node?: string;
  nodes?: NodeMemory[];
}

// GPU memory of a process, as counted by the ledger of the preload library.
export interface GpuMemory {
  device: string;  // "cuda:0"
  name: string;
  total_bytes?: number;
  is_integrated?: boolean;
  runtime_bytes?: number;
  loaded_bytes?: number;
  load_peak_bytes?: number;
  running_bytes?: number;
  run_peak_bytes?: number;
  residual_bytes?: number;
  process?: {runtime_bytes?: number; loaded_bytes?: number; running_bytes?: number; residual_bytes?: number};  // the driver's figures
  peak_percent?: number;  // of total_bytes
  limit_bytes?: number;
  within_limit?: boolean;
  refused?: number;
  refused_bytes?: number;
}

// All models at once on one device.
export interface JointGpuMemory {
  device: string;
  joint_peak_bytes?: number;
  sum_of_peaks_bytes?: number;
  limit_bytes?: number;
}

export interface Model {
  name: string;
  path?: string;
  backend?: string;
  backend_version?: string;
  task?: string;
  input?: string;
  status: Status;
  error?: string;
  died_in?: PhaseName;
  fps?: number;
  pipeline_fps?: number;
  latency_ns?: Latency;  // inference; also one of the stages
  device_latency_ns?: Latency;  // inference, measured by the GPU's clock
  stages_ns?: Partial<Record<StageName, Latency>>;
  runtime_load_time_ns?: number;
  model_load_time_ns?: number;
  warmup_time_ns?: number;
  detections_per_frame?: {n: number; mean: number; min: number; max: number};
  frames?: number;
  memory?: Memory;
  gpu_memory?: GpuMemory[];
  file_size_bytes?: number;
  cpu_percent?: number;
  layers?: LayerMemory;
  cleanups?: {level: string; name: string; resident_bytes: number}[];
  memory_series?: {time_ns: number; resident_bytes: number}[];
  phases?: {phase: PhaseName; time_ns: number}[];
  confidence?: number;  // thresholds that the task used
  iou?: number;
  settings?: Settings;
  trials?: Trial[];
  smallest_settings?: Settings;
  warnings?: string[];
  annotated_images?: string[];
  vos?: VosResult;
}

export interface VosGrowth {
  bytes: number;
  low_bytes: number;
  high_bytes: number;
  points: number;
}

interface VosFigures {
  j_and_f?: number;
  j_mean?: number;
  f_mean?: number;
  reference_j?: number;
  reference_j_and_f?: number;
}

// Video object segmentation (--task vos).
export interface VosResult {
  prompt: string;
  profile: string;
  objects: string;
  label?: string;
  side: number;
  bank_bytes?: number;
  mean?: VosFigures;
  growth_per_frame?: VosGrowth;
  gpu_growth_per_frame?: VosGrowth;
  leaks: {level: string; memory: string; growth: VosGrowth}[];
  clips: {
    video: string; object?: string; width: number; height: number; frames: number; objects: number; fps?: number;
    peak_bytes?: number; gpu_peak_bytes?: number; after_bytes?: number; gpu_after_bytes?: number; growth_per_frame?: VosGrowth;
  }[];
  object_ends?: {video: string; object: string; after_bytes?: number; gpu_after_bytes?: number}[];
  scores: ({video: string; object: string; frames: number} & VosFigures)[];
  left_out?: {video: string; why: string}[];
}

export type StageName = 'decode' | 'preprocess' | 'inference' | 'postprocess' | 'end_to_end';

export interface Limit {
  bytes: number;
  type: 'hard' | 'soft' | 'unavailable';
  mechanism: string;
  routes?: {name: string; outcome: string; detail?: string}[];
  note?: string;
}

export interface Parallel {
  together: Model[];
  sum_of_peaks_bytes?: number;
  joint_peak_bytes?: number;
  joint_peak_source?: string;
  joint_peak_is_lower_bound?: boolean;
  gpu_memory?: JointGpuMemory[];
  within_limit?: boolean;
}

export interface Pipeline {
  status: Status;
  error?: string;
  models: {name: string; load_time_ns?: number; memory_increment_bytes?: number; latency_ns?: Latency}[];
  frame_latency_ns?: Latency;
  fps?: number;
  runtime_bytes?: number;
  loaded_bytes?: number;
  peak_bytes?: number;
  frames?: number;
}

export interface PooledModel {
  name: string;
  every: number;
  isolated?: boolean;
  requests: number;
  hits: number;
  loads: number;
  evictions: number;
  refusals: number;
  failures: number;
  charge_bytes?: number;
  load_ns?: Latency;
  wait_ns?: Latency;
  latency_ns?: Latency;
}

export interface Pool {
  status: Status;
  error?: string;
  budget_bytes: number;
  threads?: number;
  baseline_bytes?: number;
  all_at_once_bytes?: number;
  models: PooledModel[];
  frame_latency_ns?: Latency;
  fps?: number;
  load_time_ns?: number;
  reload_time_ns?: number;
  peak_bytes?: number;
  samples: number;
  samples_over: number;
  frames?: number;
}

export interface Host {
  hostname?: string;
  machine?: string;
  kernel?: string;
  os?: string;
  cpu_model?: string;
  board?: string;
  cpus?: number;
  ram_total_bytes?: number;
  headroom_version?: string;
  gpu_driver?: string;
  gpus?: {index: number; name: string; uuid: string; pci_bus_id: string; memory_total_bytes?: number; mig_enabled?: boolean}[];
}

export interface Source {
  kind?: string;
  path?: string;
  camera_index?: number;
  sequences?: {name: string; frames?: number; width?: number; height?: number}[];
  skipped?: {name: string; reason: string}[];
  total_frames?: number;
  prompted_by_mask?: number;  // objects of --task vos
  prompted_by_file?: number;
  frames_held_peak?: number;
}

// Flags by name, with units.
export type Options = Record<string, string | number | boolean | Record<string, string | number | boolean>>;

export interface Report {
  schema_version: number;
  run_name: string;
  started_at?: string;
  complete: boolean;
  command?: string;
  host: Host;
  source?: Source;
  limit?: Limit;
  gpu_limit?: Limit;
  image_size?: number;
  confidence?: number;
  iou?: number;
  options?: Options;
  setup_time_ns?: number;
  inference_time_ns?: number;
  models: Model[];
  parallel?: Parallel;
  pipeline?: Pipeline;
  pool?: Pool;
  // total: only for metrics that count events.
  system?: {name: string; n: number; min: number; mean: number; max: number; total?: number}[];
  warnings?: string[];
}
