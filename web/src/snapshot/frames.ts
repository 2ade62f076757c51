// Formats the places of a snapshot as text. A place is a node of the call tree.
import type {Calls, Placed} from './data';

// The frames of a node, innermost first, and the relevant ones among them.
export function frames_of(calls: Calls, node: number): {frames: string[]; telling: string[]} {
  const names: number[] = [];
  for (let at = node; at > 0; at = calls.stacks.parent[at]!) names.push(calls.stacks.frame[at]!);
  const passages = passages_of(calls);
  const telling = names.filter((name) => !passages.has(name));
  const words = (list: number[]) => list.map((name) => calls.frames[name]!);
  return {frames: words(names), telling: words(telling.length > 0 ? telling : names)};
}

const passages = new WeakMap<Calls, Set<number>>();

function passages_of(calls: Calls): Set<number> {
  if (!passages.has(calls)) passages.set(calls, new Set(calls.passages));
  return passages.get(calls)!;
}

export function place_words(calls: Calls, {place}: Placed): string {
  return place === undefined ? '' : frames_of(calls, place).telling.join();
}
