// The points of the timeline as sums from the bottom up, which is how areas are stacked.
import type {Timeline} from './data';

export interface StackedPoints {
  seconds: number[];
  totals: number[];
  layers: number[][];  // [layer][point]; the last is the rest
  is_quiet: boolean[];  // of each point: nothing happened from then to the next
  order: number[];     // layers from the top of the stack to its bottom: those in front are drawn last; empty ones are left out
  sums: number[][];    // [i][point]: of order[i] and all below it
}

export const MOST_LAYER_COLORS = 12;

export function layer_color(layer: number, count: number): string {
  return layer === count - 1 ? '--layer-rest' : `--layer-${(layer % MOST_LAYER_COLORS) + 1}`;
}

export function stack_points({width_ns, layers: names, start_ns, layers_bytes, other_layers_bytes, quiet}: Timeline, end_ns: number): StackedPoints {
  const count = names.length + 1;
  const seconds: number[] = [];
  const is_quiet: boolean[] = [];
  const layers: number[][] = Array.from({length: count}, () => []);
  const add = (ns: number, held: number[], rest: number, after_it: boolean) => {
    seconds.push(ns / 1e9);
    is_quiet.push(after_it);
    layers.forEach((values, layer) => values.push(layer < count - 1 ? held[layer]! : rest));
  };
  const quiet_row = new Map(quiet.after.map((point, row) => [point, row]));
  start_ns.forEach((start, point) => {
    add(start, layers_bytes[point]!, other_layers_bytes[point]!, false);
    // Where nothing happened there is no point: what was live at the end of this one stays.
    const row = quiet_row.get(point);
    if (row !== undefined) add(start + width_ns, quiet.layers_bytes[row]!, quiet.other_layers_bytes[row]!, true);
  });
  const last = seconds.length - 1;
  if (last >= 0 && seconds[last]! < end_ns / 1e9) {
    seconds.push(end_ns / 1e9);
    is_quiet.push(true);
    layers.forEach((values) => values.push(values[last]!));
  }

  // What stays lies below what comes and goes: weights, and on them the workspace of each run.
  const area = layers.map((values) => values.reduce((sum, held, point) => sum + held * ((seconds[point + 1] ?? seconds[point]!) - seconds[point]!), 0));
  const holds = (layer: number) => layers[layer]!.some((held) => held > 0);
  const told_apart = Array.from({length: count - 1}, (_, layer) => layer).sort((a, b) => area[a]! - area[b]! || b - a);
  const order = [count - 1, ...told_apart].filter((layer) => layer === 0 || holds(layer));
  const sums = order.map((_, top) => seconds.map((_, point) => order.slice(top).reduce((sum, layer) => sum + layers[layer]![point]!, 0)));
  return {seconds, totals: sums[0] ?? [], layers, is_quiet, order, sums};
}

// The point that each of so many columns of pixels between two times shows: the fullest of those in it, because a
// stretch of time is narrower than a pixel, and a peak must not be lost in it. Before the first point there is none: -1.
export function points_in_columns(seconds: number[], totals: number[], from: number, to: number, columns: number): number[] {
  const shown: number[] = [];
  let next = 0;  // the first point after those that were looked at
  while (next < seconds.length && seconds[next]! <= from) next++;
  for (let column = 0; column < columns; column++) {
    if (seconds[next] === from + ((to - from) * column) / columns) next++;
    let fullest = next - 1;  // a point lasts until the next one
    const end = from + ((to - from) * (column + 1)) / columns;
    for (; next < seconds.length && (seconds[next]! < end || column === columns - 1 && seconds[next]! <= end); next++)
      if (fullest < 0 || totals[next]! > totals[fullest]!) fullest = next;
    shown.push(fullest);
  }
  return shown;
}
