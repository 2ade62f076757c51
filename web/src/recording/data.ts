// The data of a recording that src/report/recording/recording_html.cpp puts into the page.
// `recording` has the keys of `headroom report FILE.hrec --json` (docs/trace-report.md). Names are cut to 240 bytes, and at most
// 4000 layers are kept. `live` has what was live at up to 64 moments, `heap` has maps of the heap at some of them.
// Other programs read these elements, too.

import {check_version, embedded} from '../embedded';
import type {MemoryShare} from '../memory_kinds';
import type {NodeMemory} from '../report';

export interface LiveAtPeakAndEnd {
  at_peak_bytes: number;
  at_peak_blocks: number;
  at_end_bytes: number;
  at_end_blocks: number;
}

export interface LayerTime {
  layer_name: string;  // '' means outside of any layer
  source?: string;
  duration_ms?: number;
  entries?: number;
}

export interface Layer extends LayerTime, LiveAtPeakAndEnd {
  peak_allocated_bytes: number;
  peak_reserved_bytes: number;
  total_allocations?: number;
  total_deallocations?: number;
  total_allocated_bytes?: number;
  avg_fragmentation: number;
  process_peak_bytes: number;
  self_at_peak_bytes: number;
  self_at_end_bytes: number;
}

// A session of ONNX Runtime.
export interface Session {
  name: string;
  load?: number;  // only for a model that was loaded several times
  loads?: number;
  at_peak: MemoryShare[];
  tracing_bytes?: number;
  arena_held_bytes?: number;  // absent if the runtime reported no arena
  peak_node?: string;
  nodes?: SessionNode[];
}

export interface SessionNode extends NodeMemory {
  layer_at_peak_bytes?: number;  // of its layer, without inner layers; with an arena: how much the arena grew while the node ran
}

export function has_arena(sessions: Session[]): boolean {
  return sessions.some((session) => session.arena_held_bytes !== undefined);
}

// Bytes that the node reads and writes in one run.
export function tensors_of(node: SessionNode): number {
  return (node.activation_bytes ?? 0) + (node.output_bytes ?? 0);
}

export interface Stack extends LiveAtPeakAndEnd {
  frames: string[];  // innermost first
  allocations: number;
  allocated_bytes: number;
  temporary_allocations?: number;
}

export interface SizeClass extends LiveAtPeakAndEnd {
  smallest_bytes: number;
  largest_bytes: number;
  allocations: number;
  allocated_bytes: number;
}

export interface StackGrowth {
  verdict: string;
  bytes_per_cycle: number;
  first_bytes: number;
  last_bytes: number;
  late_bytes: number;
  end_bytes: number;
  frames: string[];
}

export interface Leaks {
  verdict: 'unknown' | 'none' | 'grew_then_stayed' | 'grew_then_released' | 'grew_late' | 'leak';
  cycle?: string;
  cycles?: number;
  warm_up_cycles?: number;
  bytes_per_cycle?: number;
  late_bytes?: number;
  last_step_cycle?: number;
  released_bytes?: number;  // part of the growth that was released after the last cycle
  released_seconds?: number;
  cut_off?: boolean;  // the recording ends before its program did
  smallest_visible_bytes_per_cycle?: number;
  at_cycles?: number[];
  live_bytes?: number[];
  stacks?: StackGrowth[];
  same_places?: boolean;  // for other cycles: it leaks from the same stacks as the worst cycle
  other_cycles?: Leaks[];
  cycles_left_out?: number;
}

export interface Reuse {
  calls_saved: number;
  calls_saved_per_second: number;
  most_blocks?: number;
  pool_bytes?: number;
  not_churned_bytes: number;
  frames: string[];
}

export interface Timeline {
  width_ns: number;
  layers: string[];
  start_ns: number[];
  lowest_bytes: number[];
  highest_bytes: number[];
  last_bytes: number[];
  mapped_bytes: number[];
  layers_bytes: number[][];  // [point][layer]
  other_layers_bytes: number[];
  quiet: QuietLayers;
}

// Bytes of the layers at the end of each point that is followed by a quiet period.
export interface QuietLayers {
  after: number[];  // points
  layers_bytes: number[][];
  other_layers_bytes: number[];
}

export interface FragmentationMoment {
  time_ns: number;
  live_bytes: number;
  chunk_bytes: number;
  extent_bytes: number;
  free_bytes: number;
  largest_free_bytes: number;
  holes: number;
  internal_ratio: number;
  external_ratio: number;
}

// Memory that the program mapped itself: not part of the heap, in whole pages.
export interface MappedShare {
  at_peak_bytes: number;  // at the peak of mapped memory
  at_end_bytes: number;
}

export interface Mapped {
  maps: number;
  peak_bytes: number;
  peak_time_seconds: number;
  at_heap_peak_bytes: number;
  at_end_bytes: number;
  stacks: (MappedShare & {frames: string[]})[];  // innermost first
  layers: (MappedShare & {layer_name: string})[];  // without inner layers; '' means outside of any layer
  modules: (MappedShare & {module?: string})[];
}

// GPU memory of one layer or stack.
export interface DeviceShare {
  at_peak_bytes: number;  // at the peak of the device's total
  at_end_bytes: number;
  allocations: number;
}

export interface Curve {
  width_ns: number;
  start_ns: number[];
  lowest_bytes: number[];
  highest_bytes: number[];
  last_bytes: number[];
}

export interface DeviceKind extends DeviceShare {
  kind: string;
  in_total: boolean;  // counts towards the device's memory
  peak_bytes: number;
}

export interface Refusal {
  time_seconds: number;
  requested_bytes: number;
  charged_bytes: number;
  limit_bytes: number;
  own_bytes: number;
  rounding_bytes: number;
  frames: string[];
  holders: {bytes: number; frames: string[]}[];
  kept_bytes?: number;  // reserved by the program's pools and graphs; absent in recordings of earlier versions
  processes?: {pid: number; bytes: number; command?: string; in_another_container?: boolean}[];  // other processes, the largest first
}

export interface Device {
  device: number;
  name?: string;
  total_bytes?: number;
  limit_bytes?: number;
  limit_type?: string;  // the result of the probe
  granule_bytes?: number;
  integrated?: boolean;
  peak_bytes: number;
  peak_time_seconds: number;
  at_end_bytes: number;
  pool_reserved_peak_bytes?: number;
  pool_reserved_at_end_bytes?: number;
  graph_reserved_peak_bytes?: number;
  context_bytes?: number;
  driver_growth_bytes?: number;
  rounding_at_peak_bytes?: number;
  overhead_bytes?: number;
  timeline: Curve;
  kinds: DeviceKind[];
  layers: (DeviceShare & {layer_name: string})[];  // without inner layers; '' means outside of any layer
  stacks: (DeviceShare & {frames: string[]})[];
  refused_count: number;
  refused_bytes: number;
  refusals: Refusal[];
}

export interface Process {
  file: string;
  problem?: string;
  pid?: number;
  command?: string;
  complete?: boolean;
  allocations?: number;
  peak_bytes?: number;
  leaked_bytes?: number;
  device_peak_bytes?: number;  // sum over its GPUs
}

// Fields of every recording.
export interface RecordingBase {
  schema_version: number;
  file: string;
  command: string[];
  folder?: string;
  pid: number;
  started_realtime_ns: number;
  duration_seconds: number;
  full: boolean;
  complete: boolean;
  ended_by_itself: boolean;
  problems: string[];
  notes: string[];
  events: number;
  dropped_events: number;
  gaps: number;
  devices?: Device[];
  layers_left_out?: number;  // number of the smallest layers that are not in the page
  other_processes?: Process[];
}

// A recording of `headroom trace --only gpu`: host memory is unknown.
export interface GpuRecording extends RecordingBase {
  host_recorded: false;
  layers: LayerTime[];
}

export interface Recording extends RecordingBase {
  host_recorded: true;
  allocations: number;
  deallocations: number;
  total_allocated_bytes: number;
  peak_bytes: number;
  peak_bytes_standard_error?: number;
  peak_bytes_at_most?: number;
  peak_bytes_at_least?: number;
  peak_time_seconds: number;
  peak_blocks: number;
  peak_blocks_standard_error?: number;
  leaked_bytes: number;
  leaked_bytes_standard_error?: number;
  leaked_bytes_at_most?: number;
  leaked_blocks: number;
  leaked_blocks_standard_error?: number;
  temporary_allocations?: number;
  sample_period_bytes?: number;
  large_bytes?: number;
  mapped: Mapped;
  layers: Layer[];
  sessions?: Session[];
  stacks: Stack[];
  threads: (LiveAtPeakAndEnd & {index: number; tid?: number; name?: string; allocations: number; deallocations: number; allocated_bytes: number})[];
  size_classes: SizeClass[];
  lifetimes: {below_ns: number; blocks: number; bytes: number}[];
  leaks: Leaks;
  fragmentation?: {worst: number; largest: number; moments: FragmentationMoment[]};
  fragmentation_absent?: string;  // the reason if a full recording has no fragmentation data
  reuse: Reuse[];
  timeline: Timeline;
}

// Call stacks as a tree, stored in columns: node 0 is the root, and a parent comes before its children.
export interface CallTree {
  frames: string[];  // names of functions
  stacks: {frame: number[]; parent: number[]};  // frame[i] is an index of frames, parent[i] a node
}

export interface LiveMoments extends CallTree {
  layers: {name: string[]; parent: number[]};
  shares: Record<ShareBy, Share>;
  moments: LiveMoment[];
}

export type ShareBy = 'module' | 'thread' | 'size';

// Bytes of each row at each moment; other_bytes is the rest.
export interface Share {
  name: string[];
  bytes: number[][];  // [moment][row]
  other_bytes: number[];
}

export interface HeldByStack {
  stack: number[];  // nodes of `stacks`
  stack_bytes: number[];
  other_bytes: number;  // stacks that are not in the page
}

export interface LiveMoment extends HeldByStack {
  time_ns: number;
  until_ns?: number;  // set if nothing changed until this time, for a long period
  bytes: number;
  blocks: number;
  layer: number[];  // nodes of `layers`; 0 means outside of any layer
  layer_bytes: number[];
  other_layers_bytes: number;  // layers that are not in the page
}

export interface HeapMap extends FragmentationMoment {
  cell_bytes: number;
  // Of the cells, one letter of base64's alphabet each, from A (free) to / (live throughout).
  extents: {address: string; bytes: number; cells: string}[];
  blocker?: Blocker;
}

// The blocks at one end of the largest hole.
export interface Blocker {
  address: string;  // address of the first block
  size_bytes: number;
  blocks: number;
  span_bytes: number;  // from the start of the first block to the end of the last
  freed_if_gone_bytes: number;  // size of the largest hole without these blocks
  age_ns: number;
  places: {bytes: number; blocks: number; frames: string[]}[];  // the places with most bytes
  extent?: number;  // index of the extent in which it lies, at offset_bytes
  offset_bytes?: number;
}

export interface RecordingData {
  recording: Recording | GpuRecording;
  live: LiveMoments;
  heap: HeapMap[];
}

export function read_recording(page: Document): RecordingData {
  const recording = embedded<Recording | GpuRecording>(page, 'recording');
  check_version('recording', recording.schema_version, 1);
  return {recording, live: embedded<LiveMoments>(page, 'live'), heap: embedded<HeapMap[]>(page, 'heap')};
}

export const NO_LAYER = '(outside of any layer)';
