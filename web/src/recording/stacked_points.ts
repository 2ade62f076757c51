// Computes the points of the timeline as cumulative sums, as needed for stacked areas.
import type {Timeline} from './data';

export interface StackedPoints {
  seconds: number[];
  totals: number[];
  layers: number[][];  // [layer][point]; the last is the rest
  is_quiet: boolean[];  // [point]: nothing changed until the next point
  order: number[];     // layers from the top of the stack to the bottom, in drawing order; empty layers are omitted
  sums: number[][];    // [i][point]: order[i] and all layers below it
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
    // A quiet period has no points: the memory live at the end of this point stays.
    const row = quiet_row.get(point);
    if (row !== undefined) add(start + width_ns, quiet.layers_bytes[row]!, quiet.other_layers_bytes[row]!, true);
  });
  const last = seconds.length - 1;
  if (last >= 0 && seconds[last]! < end_ns / 1e9) {
    seconds.push(end_ns / 1e9);
    is_quiet.push(true);
    layers.forEach((values) => values.push(values[last]!));
  }

  // Long-lived layers are at the bottom, for example weights; short-lived ones, for example workspaces, above them.
  const area = layers.map((values) => values.reduce((sum, held, point) => sum + held * ((seconds[point + 1] ?? seconds[point]!) - seconds[point]!), 0));
  const holds = (layer: number) => layers[layer]!.some((held) => held > 0);
  const ranked = Array.from({length: count - 1}, (_, layer) => layer).sort((a, b) => area[a]! - area[b]! || b - a);
  const order = [count - 1, ...ranked].filter((layer) => layer === 0 || holds(layer));
  const sums = order.map((_, top) => seconds.map((_, point) => order.slice(top).reduce((sum, layer) => sum + layers[layer]![point]!, 0)));
  return {seconds, totals: sums[0] ?? [], layers, is_quiet, order, sums};
}

// The point to show in each pixel column between two times. A column can contain many points, so it shows the one with the
// largest total; otherwise peaks would be lost. -1: the column is before the first point.
export function points_in_columns(seconds: number[], totals: number[], from: number, to: number, columns: number): number[] {
  const shown: number[] = [];
  let next = 0;  // the first point that was not examined yet
  while (next < seconds.length && seconds[next]! <= from) next++;
  for (let column = 0; column < columns; column++) {
    if (seconds[next] === from + ((to - from) * column) / columns) next++;
    let fullest = next - 1;  // a point is valid until the next one
    const end = from + ((to - from) * (column + 1)) / columns;
    for (; next < seconds.length && (seconds[next]! < end || column === columns - 1 && seconds[next]! <= end); next++)
      if (fullest < 0 || totals[next]! > totals[fullest]!) fullest = next;
    shown.push(fullest);
  }
  return shown;
}
