// Live memory at one moment as a tree with sums. It is laid out as an icicle: the root on top, and below each node its
// callees, with widths in proportion to their bytes.
import type {CallTree, HeldByStack, LiveMoment, LiveMoments, Share} from './data';

export interface Tree {
  name: string[];
  parent: number[];
  bytes: number[];  // including all descendants
  children: number[][];  // the widest first
  depth: number[];
}

// Caches the names: there can be 100,000, and they are the same for all moments.
const stack_names = new WeakMap<CallTree, string[]>();
const NO_CHILDREN: number[] = [];

// Memory of stacks that are not in the page gets its own node, so that the widths add up.
export function stack_tree(live: CallTree, moment: HeldByStack): Tree {
  if (!stack_names.has(live)) stack_names.set(live, live.stacks.frame.map((frame) => live.frames[frame]!));
  const name = stack_names.get(live)!.slice();
  const parent = live.stacks.parent.slice();
  const own = new Array<number>(name.length).fill(0);
  moment.stack.forEach((node, i) => { own[node]! += moment.stack_bytes[i]!; });
  if (moment.other_bytes > 0) {
    name.push('(many small stacks)');
    parent.push(0);
    own.push(moment.other_bytes);
  }
  return summed(name, parent, own);
}

export function layer_tree(live: LiveMoments, moment: LiveMoment, outside: string): Tree {
  const name = [...live.layers.name];
  const parent = [...live.layers.parent];
  const own = new Array<number>(name.length).fill(0);
  moment.layer.forEach((node, i) => { own[node]! += moment.layer_bytes[i]!; });
  name.push(outside);
  parent.push(0);
  own.push(own[0]!);
  own[0] = 0;
  if (moment.other_layers_bytes > 0) {
    name.push('(many small layers)');
    parent.push(0);
    own.push(moment.other_layers_bytes);
  }
  return summed(name, parent, own);
}

// A tree of one level: one node for each row of the share.
export function share_tree(share: Share, moment: number): Tree {
  const name = ['all', ...share.name];
  const own = [0, ...share.bytes[moment]!];
  if (share.other_bytes[moment]! > 0) {
    name.push('(others)');
    own.push(share.other_bytes[moment]!);
  }
  return summed(name, name.map(() => 0), own);
}

function summed(name: string[], parent: number[], bytes: number[]): Tree {
  for (let node = bytes.length - 1; node > 0; node--) bytes[parent[node]!]! += bytes[node]!;
  const children: number[][] = new Array<number[]>(name.length).fill(NO_CHILDREN);
  const depth = new Array<number>(name.length).fill(0);
  for (let node = 1; node < name.length; node++) {
    depth[node] = depth[parent[node]!]! + 1;
    if (bytes[node]! <= 0) continue;
    if (children[parent[node]!] === NO_CHILDREN) children[parent[node]!] = [node];
    else children[parent[node]!]!.push(node);
  }
  for (const list of children) if (list.length > 1) list.sort((a, b) => bytes[b]! - bytes[a]! || a - b);
  return {name, parent, bytes, children, depth};
}

export interface Box {
  node: number;
  row: number;
  left: number;   // 0 to 1
  width: number;
}

// The boxes of `top` and its descendants that are at least `narrowest` wide. Its callers are above it, at full width.
export function layout(tree: Tree, top: number, narrowest: number): {boxes: Box[]; rows: number} {
  const boxes: Box[] = path_to(tree, top).slice(0, -1).map((node, row) => ({node, row, left: 0, width: 1}));
  let rows = boxes.length;
  const open: Box[] = [{node: top, row: boxes.length, left: 0, width: 1}];
  while (open.length > 0) {
    const box = open.pop()!;
    boxes.push(box);
    rows = Math.max(rows, box.row + 1);
    let left = box.left;
    for (const child of tree.children[box.node]!) {
      const width = box.width * tree.bytes[child]! / Math.max(1, tree.bytes[box.node]!);
      if (width < narrowest) break;
      open.push({node: child, row: box.row + 1, left, width});
      left += width;
    }
  }
  return {boxes, rows};
}

export function path_to(tree: Tree, node: number): number[] {
  const path = [node];
  for (let at = node; at > 0;) path.unshift(at = tree.parent[at]!);
  return path;
}

// The nodes whose names contain the words, and their bytes. A match inside another match is not counted twice.
export function search(tree: Tree, words: string): {nodes: Set<number>; bytes: number} {
  const nodes = new Set<number>();
  const wanted = words.trim().toLowerCase();
  if (!wanted) return {nodes, bytes: 0};
  let bytes = 0;
  const inside = new Array<boolean>(tree.name.length).fill(false);
  for (let node = 1; node < tree.name.length; node++) {
    const around = inside[tree.parent[node]!]!;
    inside[node] = around;
    if (tree.bytes[node]! <= 0 || !tree.name[node]!.toLowerCase().includes(wanted)) continue;
    nodes.add(node);
    inside[node] = true;
    if (!around) bytes += tree.bytes[node]!;
  }
  return {nodes, bytes};
}

// The time until which live memory did not change after a moment.
export function end_of(moment: LiveMoment): number {
  return moment.until_ns ?? moment.time_ns;
}

// The moment to show for a range: the one with the most live memory, or the nearest one if the range has none.
export function moment_of(moments: LiveMoment[], from_ns: number, to_ns: number): number {
  let best = -1;
  moments.forEach((moment, i) => {
    if (end_of(moment) >= from_ns && moment.time_ns <= to_ns && (best < 0 || moment.bytes > moments[best]!.bytes)) best = i;
  });
  if (best >= 0) return best;
  const distance = (moment: LiveMoment) => Math.max(moment.time_ns - to_ns, from_ns - end_of(moment));
  return moments.reduce((nearest, moment, i) => (distance(moment) < distance(moments[nearest]!) ? i : nearest), 0);
}
