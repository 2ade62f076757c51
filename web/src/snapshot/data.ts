// The data of a memory snapshot that src/report/snapshot/snapshot_json.cpp puts into the page.
// `snapshot` has the keys of `headroom report X.pickle --json` (docs/pytorch-snapshots.md). Instead of `frames` and `request_bytes`
// it has `place`, a node of the tree in `calls`. Only the page has `live`, the `cells` of segments, and `words`, the screen's
// sentences. Other programs read these elements, too.
import {check_version, embedded} from '../embedded';
import type {CallTree, HeldByStack} from '../recording/data';

// A node of `calls.stacks`; absent if the page was full or no stack was recorded.
export interface Placed {
  place?: number;
}

export interface Calls extends CallTree {
  passages: number[];  // functions that only forward a call
}

export interface Timeline {
  entries_per_point: number;
  time_us: number[];
  lowest_bytes: number[];
  highest_bytes: number[];
  reserved_bytes: number[];
  // Bytes of the largest places at the maximum of each period: [point][place].
  places: (number | null)[];
  places_bytes: number[][];
}

export interface Moment {
  entry: number;
  time_us?: number;
  allocated_bytes: number;
  reserved_bytes: number;
  segments: number;
  free_bytes: number;
  largest_free_bytes: number;
  holes: number;
  rounding_bytes: number;
  external_ratio: number;
  blocker?: Placed & {size_bytes: number; segment_bytes: number; freed_if_gone_bytes: number; empties_segment: boolean; allocated_by_entry?: number};
}

// Allocated memory at the moment with the same index.
export interface Live extends HeldByStack {
  bytes: number;
  blocks: number;
}

export interface Share extends Placed {
  bytes: number;
  blocks: number;
}

export interface OutOfMemory extends Placed {
  entry: number;
  time_us?: number;
  requested_bytes: number;
  segment_bytes: number;
  device_free_bytes: number;
  stream: number;
  allocated_bytes: number;
  reserved_bytes: number;
  pending_free_bytes: number;
  free_in_segments_bytes: number;
  fitting_free_bytes: number;
  largest_fitting_free_bytes: number;
  holders: Share[];
  room: {by: string; words: string; bytes: number; blocks: number; places: Share[]}[];
}

export interface PlaceGrowth extends Placed {
  verdict: string;
  bytes_per_window: number;
  first_bytes: number;
  last_bytes: number;
  late_bytes: number;
  allocations: number;
  live_blocks: number;
}

export interface Leaks {
  verdict: string;
  words: string;
  common?: string;  // the frame that calls all places of the verdict
  windows?: number;
  entries_per_window?: number;
  floor_bytes?: number[];
  stacks?: PlaceGrowth[];
}

export interface PlaceFigures extends Placed {
  live_bytes: number;
  live_blocks: number;
  at_peak_bytes: number;
  at_peak_blocks: number;
  allocations: number;
  allocated_bytes: number;
}

export interface Segment extends Placed {
  address: number;
  bytes: number;
  pool: 'large' | 'small';
  stream: number;
  live_bytes: number;
  live_blocks: number;
  largest_free_bytes: number;
  expandable?: boolean;
  private_pool?: boolean;
  cells: string;  // one letter per cell: # allocated, + partly allocated, ~ waiting for another stream, . free
}

export interface Device {
  device: number;
  segments: number;
  reserved_bytes: number;
  live_bytes: number;
  live_blocks: number;
  requested_bytes: number;
  pending_free_bytes: number;
  free_bytes: number;
  largest_free_bytes: number;
  peak_allocated_bytes: number;
  peak_reserved_bytes: number;
  doubt?: string;
  peak_entry: number;
  entries: number;
  first_time_us?: number;
  last_time_us?: number;
  allocated_before_bytes: number;
  actions: Record<string, number>;
  oom_count: number;
  ooms: OutOfMemory[];
  leaks: Leaks;
  fragmentation: {worst: number; peak: number; moments: Moment[]};
  stacks: PlaceFigures[];
  timeline: Timeline;
  segments_map: Segment[];
  live: Live[];
}

export interface Snapshot {
  schema_version: number;
  file: string;
  problems: string[];
  settings: {text?: string};
  devices: Device[];
  devices_left_out?: number;
}

export interface SnapshotData {
  snapshot: Snapshot;
  calls: Calls;
}

export function read_snapshot(page: Document): SnapshotData {
  const snapshot = embedded<Snapshot>(page, 'snapshot');
  check_version('snapshot', snapshot.schema_version, 1);
  return {snapshot, calls: embedded<Calls>(page, 'calls')};
}
