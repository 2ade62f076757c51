// Tests the recording page: trees of live memory, their layout, stacked points, names of places.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {load} from './load.mjs';

const tree = await load('recording/tree.ts');
const {stack_points, points_in_columns, layer_color} = await load('recording/stacked_points.ts');
const places = await load('recording/places.ts');
const {display_names} = await load('recording/layer_names.ts');
const {curve_points} = await load('recording/curve_points.ts');
const {estimated_number} = await load('format.ts');

// main → load → new (70), main → run → new (20) and run itself (5); 5 have no stack in the page.
const live = {
  frames: ['all', 'main', 'load', 'run', 'operator new(unsigned long)'],
  stacks: {frame: [0, 1, 2, 4, 3, 4], parent: [0, 0, 1, 2, 1, 4]},
  layers: {name: ['all', 'session', 'Run', 'conv'], parent: [0, 0, 1, 2]},
  shares: {module: {name: ['libengine.so', 'app'], bytes: [[40, 0], [60, 35], [0, 60]], other_bytes: [0, 5, 0]}},
  moments: [
    {time_ns: 10, bytes: 40, blocks: 1, stack: [3], stack_bytes: [40], other_bytes: 0, layer: [0], layer_bytes: [40], other_layers_bytes: 0},
    {time_ns: 20, bytes: 100, blocks: 4, stack: [3, 5, 4], stack_bytes: [70, 20, 5], other_bytes: 5, layer: [0, 1, 3], layer_bytes: [10, 25, 60], other_layers_bytes: 5},
    {time_ns: 50, bytes: 60, blocks: 2, stack: [5], stack_bytes: [60], other_bytes: 0, layer: [3], layer_bytes: [60], other_layers_bytes: 0},
  ],
};

test('adds sums up the stacks, and puts the rest into its own node', () => {
  const stacks = tree.stack_tree(live, live.moments[1]);
  assert.deepEqual(stacks.bytes, [100, 95, 70, 70, 25, 20, 5]);
  assert.equal(stacks.name[6], '(many small stacks)');
  assert.deepEqual(stacks.children[1], [2, 4], 'the widest first');
  assert.deepEqual(stacks.depth, [0, 1, 2, 3, 2, 3, 1]);
  assert.deepEqual(tree.path_to(stacks, 5), [0, 1, 4, 5]);
  assert.deepEqual(tree.stack_tree(live, live.moments[2]).children[1], [4], 'nodes without memory are omitted');
});

test('includes inner layers in the sums of a layer', () => {
  const layers = tree.layer_tree(live, live.moments[1], 'outside');
  assert.deepEqual(layers.bytes, [100, 85, 60, 60, 10, 5]);
  assert.deepEqual(layers.name.slice(4), ['outside', '(many small layers)']);
});

test('builds a tree of one level for a share, the widest first', () => {
  const modules = tree.share_tree(live.shares.module, 1);
  assert.deepEqual(modules.name, ['all', 'libengine.so', 'app', '(others)']);
  assert.deepEqual(modules.bytes, [100, 60, 35, 5]);
  assert.deepEqual(modules.children[0], [1, 2, 3]);
  assert.deepEqual(tree.share_tree(live.shares.module, 2).children[0], [2], 'nodes without memory are omitted');
  assert.deepEqual(tree.share_tree(live.shares.module, 0).name.length, 3, 'no rest, no node');
});

test('lays out widths in proportion to bytes, and keeps the callers when zooming', () => {
  const stacks = tree.stack_tree(live, live.moments[1]);
  const whole = tree.layout(stacks, 0, 0.06);
  const at = (node) => whole.boxes.find((box) => box.node === node);
  assert.deepEqual(at(4), {node: 4, row: 2, left: 0.7, width: 0.25});
  assert.equal(at(6), undefined, 'too narrow to be seen');
  assert.equal(whole.rows, 4);
  const zoomed = tree.layout(stacks, 4, 0.001);
  assert.deepEqual(zoomed.boxes.map(({node, row, width}) => [node, row, width]), [[0, 0, 1], [1, 1, 1], [4, 2, 1], [5, 3, 0.8]]);
});

test('counts a match inside another match once', () => {
  const stacks = tree.stack_tree(live, live.moments[1]);
  assert.deepEqual(tree.search(stacks, 'NEW'), {nodes: new Set([3, 5]), bytes: 90});
  assert.equal(tree.search(stacks, 'n').bytes, 100, 'main contains the other matches');
  assert.deepEqual(tree.search(stacks, ' '), {nodes: new Set(), bytes: 0});
});

test('chooses the largest moment of a range, or the nearest one', () => {
  assert.equal(tree.moment_of(live.moments, 0, 100), 1);
  assert.equal(tree.moment_of(live.moments, 40, 100), 2);
  assert.equal(tree.moment_of(live.moments, 30, 34), 1);
  assert.equal(tree.moment_of(live.moments, 44, 46), 2);
});

test('shows live memory of a quiet period, not of the run before or after it', () => {
  const moments = [{time_ns: 10, bytes: 320}, {time_ns: 12, until_ns: 39, bytes: 64}, {time_ns: 40, bytes: 320}, {time_ns: 41, until_ns: 60, bytes: 64}];
  assert.equal(tree.moment_of(moments, 36, 38), 1);
  assert.equal(tree.moment_of(moments, 38, 38), 1, 'nearer to the next run');
  assert.equal(tree.moment_of(moments, 10, 10), 0);
  assert.equal(tree.moment_of(moments, 40, 40), 2, 'the quiet period is over');
  assert.equal(tree.moment_of(moments, 30, 50), 2, 'the largest of the range');
  assert.equal(tree.moment_of(moments, 62, 70), 3);
});

// The peak of the second point is 20 of a, 16 of b and 4 of the rest; at its end only half of b is left.
const timeline = {
  width_ns: 10, layers: ['a', 'b'], start_ns: [0, 10, 50], lowest_bytes: [0, 0, 0], highest_bytes: [10, 40, 20], last_bytes: [10, 8, 0],
  mapped_bytes: [0, 0, 0], layers_bytes: [[10, 0], [20, 16], [20, 0]], other_layers_bytes: [0, 4, 0],
  quiet: {after: [1, 2], layers_bytes: [[0, 8], [0, 0]], other_layers_bytes: [0, 0]},
};

test('keeps sums in stacked points, and live memory in quiet periods', () => {
  const points = stack_points(timeline, 75);
  assert.deepEqual(points.seconds.map((s) => Math.round(s * 1e9)), [0, 10, 20, 50, 60, 75]);
  assert.deepEqual(points.totals, [10, 40, 8, 20, 0, 0]);
  assert.deepEqual(points.layers, [[10, 20, 0, 20, 0, 0], [0, 16, 8, 0, 0, 0], [0, 4, 0, 0, 0, 0]]);
  assert.deepEqual(points.is_quiet, [false, false, true, false, true, true]);
  assert.deepEqual(points.order, [2, 1, 0]);
  assert.deepEqual(points.sums[1], [10, 36, 8, 20, 0, 0]);
  assert.equal(layer_color(2, 3), '--layer-rest');
  assert.deepEqual(stack_points({...timeline, quiet: {...timeline.quiet, layers_bytes: [[0, 38], [0, 0]]}}, 75).order, [2, 0, 1], 'long-lived layers are at the bottom');
  const only_a = {...timeline, other_layers_bytes: [0, 0, 0], layers_bytes: [[10, 0], [40, 0], [20, 0]], quiet: {after: [2], layers_bytes: [[0, 0]], other_layers_bytes: [0]}};
  assert.deepEqual(stack_points(only_a, 55).order, [0]);
});

test('shows the maximum of each pixel column, and a long moment in all its columns', () => {
  const shown = (...args) => points_in_columns([1, 2, 2.5, 3, 8], [5, 40, 5, 20, 0], ...args);
  assert.deepEqual(shown(1, 9, 8), [0, 1, 3, 3, 3, 3, 3, 4]);
  assert.deepEqual(shown(1, 9, 2), [1, 3], 'the peak is not lost in a wide one');
  assert.deepEqual(shown(0, 4, 4), [-1, 0, 1, 3]);
  assert.deepEqual(shown(4, 6, 2), [3, 3], 'zoomed in between two points');
  assert.deepEqual(shown(2.1, 2.9, 2), [1, 2], 'a point that ended before the first column is not shown');
});

test('shows five short runs of a server as five columns at any width', () => {
  const runs = [0.3, 0.6, 0.9, 1.2, 1.5];
  const start_ns = runs.map((seconds) => seconds * 1e9);
  const points = stack_points({
    width_ns: 904_000, layers: ['workspace', 'weights'], start_ns, lowest_bytes: runs.map(() => 64), highest_bytes: runs.map(() => 320), last_bytes: runs.map(() => 64),
    mapped_bytes: [], layers_bytes: runs.map(() => [256, 64]), other_layers_bytes: runs.map(() => 0),
    quiet: {after: [0, 1, 2, 3, 4], layers_bytes: runs.map(() => [0, 64]), other_layers_bytes: runs.map(() => 0)},
  }, 1.8e9);
  for (const columns of [1400, 1000, 390, 300]) {
    const shown = points_in_columns(points.seconds, points.totals, 0, 1.8, columns);
    const full = shown.filter((point) => point >= 0 && points.totals[point] === 320);
    assert.equal(new Set(full).size, 5, `${columns} columns`);
    assert.ok(full.length <= 10, 'and not much wider than they are');
  }
});

test('starts places after functions that only forward allocations', () => {
  assert.deepEqual(places.telling_frames(['operator new(unsigned long)', 'std::vector<int>::resize(unsigned long)', 'load(int)', 'load(int)', 'main', '__libc_start_main']),
    ['load', 'main']);
  assert.deepEqual(places.telling_frames(['xmalloc']), ['xmalloc']);
  assert.deepEqual(places.telling_frames([]), []);
  assert.equal(places.short_function('Session::run(std::span<Tensor const, 4ul>) const'), 'Session::run');
  assert.equal(places.short_function('operator<<(std::ostream&, int)'), 'operator<<');
  assert.equal(places.short_function('void copy<float, (Layout)2>(float*, int (*)(int))'), 'copy');
  assert.equal(places.short_function('(many small stacks)'), '(many small stacks)');
  assert.ok(places.is_place('libonnxruntime.so.1+0x41be9d') && places.is_place('0x7f00') && !places.is_place('main'));
});

test('shortens layer names but keeps them distinct', () => {
  assert.deepEqual(display_names(['m/run/conv', 'm/load', 'n/run/conv', '(outside of any layer)']), ['m/run/conv', 'load', 'n/run/conv', '(outside of any layer)']);
});

test('marks a number of blocks with a standard error as an estimate', () => {
  assert.equal(estimated_number(1200, undefined), '1200');
  assert.equal(estimated_number(1200, 0.5), '≈ 1200');
});

test('starts curves at zero, keeps peaks, and draws quiet periods as level lines', () => {
  const curve = {width_ns: 10, start_ns: [20, 30, 90], lowest_bytes: [0, 5, 3], highest_bytes: [40, 50, 9], last_bytes: [8, 7, 3]};
  const points = curve_points(curve, 120);
  assert.deepEqual(points.seconds.map((s) => Math.round(s * 1e9)), [0, 20, 30, 40, 90, 100, 120]);
  assert.deepEqual(points.values, [0, 40, 50, 7, 9, 3, 3]);
  assert.deepEqual(curve_points({width_ns: 1, start_ns: [], lowest_bytes: [], highest_bytes: [], last_bytes: []}, 9), {seconds: [], values: []});
});
