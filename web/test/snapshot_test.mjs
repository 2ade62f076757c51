// Tests the snapshot page: places as nodes of a tree, the axis of a trace, the cells of a segment.
import assert from 'node:assert/strict';
import {test} from 'node:test';
import {load} from './load.mjs';

const {stack_tree} = await load('recording/tree.ts');
const axis = await load('snapshot/time_axis.ts');
const {frames_of, place_words} = await load('snapshot/frames.ts');
const {runs_of} = await load('snapshot/cells.ts');

// main → train → _call_impl → conv2d, and main → load.
const calls = {
  frames: ['all', 'main', 'train', '_call_impl', 'conv2d', 'load'],
  stacks: {frame: [0, 1, 2, 3, 4, 5], parent: [0, 0, 1, 2, 3, 1]},
  passages: [3],
};

test('lists the frames of a place, innermost first', () => {
  assert.deepEqual(frames_of(calls, 4), {frames: ['conv2d', '_call_impl', 'train', 'main'], telling: ['conv2d', 'train', 'main']});
  assert.deepEqual(frames_of({...calls, passages: [1, 2, 3, 4, 5]}, 5).telling, ['load', 'main'], 'all frames if all of them only forward calls');
  assert.equal(place_words(calls, {}), '');
});

test('adds the live memory of a moment up the tree', () => {
  const tree = stack_tree(calls, {stack: [4, 5], stack_bytes: [30, 50], other_bytes: 20});
  assert.deepEqual(tree.bytes, [100, 80, 30, 30, 30, 50, 20]);
});

const device = {
  entries: 10, first_time_us: 1_000_000, last_time_us: 3_000_000, live_bytes: 7, reserved_bytes: 20,
  timeline: {entries_per_point: 4, time_us: [1_000_000, 500_000, 2_000_000], lowest_bytes: [0, 1, 2], highest_bytes: [4, 5, 6], reserved_bytes: [10, 10, 20]},
};

test('draws a trace from left to right to its end, even if the clock goes back', () => {
  assert.deepEqual(axis.trace_curve(device, 'time').x, [0, 0, 1, 2]);
  assert.deepEqual(axis.trace_curve(device, 'entry').x, [0, 4, 8, 10]);
  assert.deepEqual(axis.trace_curve(device, 'time').highest, [4, 5, 6, 7]);
  assert.deepEqual(axis.trace_curve(device, 'time').reserved, [10, 10, 20, 20]);
});

test('stacks places by their memory at the maximum of each period, and at the end', () => {
  const traced = {...device, live: [{stack: [4], stack_bytes: [5]}], timeline: {...device.timeline, places: [4, null], places_bytes: [[1, 2], [3, 2], [3, 0]]}};
  const curves = axis.place_curves(traced, axis.trace_curve(traced, 'time'));
  assert.deepEqual(curves.map(({place, rank, own}) => ({place, rank, own})), [
    {place: undefined, rank: 2, own: [1, 0, 3, 2]},
    {place: undefined, rank: 1, own: [2, 2, 0, 0]},
    {place: 4, rank: 0, own: [1, 3, 3, 5]},
  ]);
  assert.deepEqual(curves.map(({sum}) => sum), [[4, 5, 6, 7], [3, 5, 3, 5], [1, 3, 3, 5]]);
  assert.deepEqual(axis.place_curves({...traced, timeline: {...traced.timeline, places: []}}, axis.trace_curve(traced, 'time')), []);
});

test('describes moments by time if times were recorded', () => {
  assert.equal(axis.has_times(device), true);
  assert.equal(axis.moment_words(device, {entry: 4, time_us: 1_250_000}), '250.00 ms after the first entry');
  const untimed = {entries: 10, timeline: device.timeline};
  assert.equal(axis.has_times(untimed), false);
  assert.equal(axis.moment_words(untimed, {entry: 4}), 'after entry 4');
  assert.equal(axis.moment_words({entries: 0}, {entry: 0}), 'at the end');
  assert.deepEqual([0, 0.25, 1.5, 0.0001].map((seconds) => axis.axis_words('time')(seconds, false)), ['0', '250 ms', '1.5 s', '100 µs']);
  assert.equal(axis.axis_words('entry')(12, true), 'entry 12');
});

test('combines equal cells into one rectangle', () => {
  assert.deepEqual(runs_of('##.~'), [{state: '#', from: 0, length: 2}, {state: '.', from: 2, length: 1}, {state: '~', from: 3, length: 1}]);
  assert.deepEqual(runs_of(''), []);
});
