// The points of the timeline as sums from the bottom up, which is how areas are stacked.
import type {Timeline} from './data';

export interface StackedPoints {
  seconds: number[];
  totals: number[];
  layers: number[][];  // [layer][point]; the last is the rest
  order: number[];     // layers from the top of the stack to its bottom: those in front are drawn last; empty ones are left out
  sums: number[][];    // [i][point]: of order[i] and all below it
}

export const MOST_LAYER_COLORS = 12;

export function layer_color(layer: number, count: number): string {
  return layer === count - 1 ? '--layer-rest' : `--layer-${(layer % MOST_LAYER_COLORS) + 1}`;
}

export function stack_points(timeline: Timeline, end_ns: number): StackedPoints {
  const count = timeline.layers.length + 1;
  const seconds: number[] = [];
  const layers: number[][] = Array.from({length: count}, () => []);
  const add = (ns: number, share: (layer: number) => number) => {
    seconds.push(ns / 1e9);
    layers.forEach((values, layer) => values.push(share(layer)));
  };
  timeline.start_ns.forEach((start, point) => {
    const at = (layer: number) => (layer < count - 1 ? timeline.layers_bytes[point]![layer]! : timeline.other_layers_bytes[point]!);
    add(start, at);
    // Where nothing happened there is no point: what was live at the end of this one stays. Of that only the sum is
    // known, and it is split as the fullest moment was.
    const over = start + timeline.width_ns;
    const next = timeline.start_ns[point + 1] ?? Math.max(end_ns, over + 1);
    const left = timeline.highest_bytes[point]! > 0 ? timeline.last_bytes[point]! / timeline.highest_bytes[point]! : 0;
    if (next > over) add(over, (layer) => at(layer) * left);
  });
  if (seconds.length > 0 && seconds[seconds.length - 1]! < end_ns / 1e9) add(end_ns, (layer) => layers[layer]![layers[layer]!.length - 1]!);

  const holds = (layer: number) => layers[layer]!.some((held) => held > 0);
  const order = Array.from({length: count}, (_, i) => count - 1 - i).filter((layer) => layer === 0 || holds(layer));
  const sums = order.map((top) => seconds.map((_, point) => {
    let sum = 0;
    for (let layer = 0; layer <= top; layer++) sum += layers[layer]![point]!;
    return sum;
  }));
  return {seconds, totals: sums[0] ?? [], layers, order, sums};
}
