// The latency distribution from report.json: counts in logarithmic buckets between min and max.
import type {Latency} from './report';

export interface Bucket {
  from_ns: number;
  to_ns: number;
  count: number;
}

// Bucket i covers [min · r^i, min · r^(i+1)) with r = (max / min)^(1 / buckets).
export function buckets_of(latency: Latency): Bucket[] {
  const counts = latency.histogram ?? [];
  const {min, max} = latency;
  if (counts.length === 0 || !(min > 0)) return [];
  const ratio = (max / min) ** (1 / counts.length);
  return counts.map((count, i) => ({from_ns: min * ratio ** i, to_ns: min * ratio ** (i + 1), count}));
}

// Position of a value on the logarithmic axis: 0 at min, 1 at max.
export function position_of(value_ns: number, low_ns: number, high_ns: number): number {
  if (!(high_ns > low_ns) || !(low_ns > 0)) return 0.5;
  return Math.min(1, Math.max(0, Math.log(value_ns / low_ns) / Math.log(high_ns / low_ns)));
}

// Round values for a logarithmic axis: 1, 2, 5 × 10^k inside the range. If fewer than three fit: both ends and the middle.
export function log_ticks(low_ns: number, high_ns: number): number[] {
  if (!(low_ns > 0) || !(high_ns >= low_ns)) return [];  // the logarithm is undefined
  const ticks: number[] = [];
  for (let decade = 10 ** Math.floor(Math.log10(low_ns)); decade <= high_ns; decade *= 10)
    for (const factor of [1, 2, 5])
      if (decade * factor >= low_ns && decade * factor <= high_ns) ticks.push(decade * factor);
  return ticks.length >= 3 ? ticks : [low_ns, Math.sqrt(low_ns * high_ns), high_ns];
}

export interface Label {
  x: number;      // requested position
  width: number;
  row: number;    // 0 is the first row; labels that would touch get a higher row
}

// Places labels, sorted by x, on as few rows as possible without overlap.
export function stack_labels(labels: {x: number; width: number}[]): Label[] {
  const row_ends: number[] = [];
  return labels.map(({x, width}) => {
    let row = row_ends.findIndex((end) => end <= x - width / 2);
    if (row < 0) row = row_ends.length;
    row_ends[row] = x + width / 2 + 6;
    return {x, width, row};
  });
}
