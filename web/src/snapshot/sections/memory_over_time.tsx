// Allocated and reserved memory over the trace.
import {useMemo, useState} from 'preact/hooks';
import {type Line, TimeChart} from '../../charts/time_chart';
import {bytes, number} from '../../format';
import {layer_color} from '../../recording/stacked_points';
import type {Calls, Device} from '../data';
import {frames_of} from '../frames';
import {type Axis, axis_words, has_times, place_curves, trace_curve} from '../time_axis';

export function MemoryOverTime({device, calls}: {device: Device; calls: Calls}) {
  const [axis, set_axis] = useState<Axis>(has_times(device) ? 'time' : 'entry');
  const curve = useMemo(() => trace_curve(device, axis), [device, axis]);
  const lines = useMemo((): Line[] => [
    {label: 'reserved', color: '--series-7', values: curve.reserved},
    {label: 'allocated, highest', color: '--series-1', values: curve.highest, fill: true},
    {label: 'allocated, lowest', color: '--series-2', values: curve.lowest},
  ], [curve]);
  const stacked = useMemo(() => place_curves(device, curve).map(({place, rank, own, sum}): Line => ({
    label: place === undefined ? rank < device.timeline.places.length ? '(no stack)' : 'all other places' : frames_of(calls, place).telling.slice(0, 2).join(' ← '),
    color: layer_color(place === undefined ? device.timeline.places.length : rank, device.timeline.places.length + 1),
    values: sum, own, fill: true,
  })), [device, calls, curve]);
  if (device.entries === 0) return null;
  return (
    <section id="time" aria-labelledby="time-title">
      <h2 id="time-title">Memory over time</h2>
      {has_times(device) && <AxisTabs axis={axis} choose={set_axis} />}
      <TimeChart key={axis} title={`Each point is ${number(device.timeline.entries_per_point)} ${device.timeline.entries_per_point === 1 ? 'entry' : 'entries'} of the trace`} seconds={curve.x} x_words={axis_words(axis)} lines={lines}
        format={bytes} byte_axis stepped height={280} summary={`At most ${bytes(device.peak_allocated_bytes)} allocated and ${bytes(device.peak_reserved_bytes)} reserved.`} />
      {stacked.length > 1 && <TimeChart key={`places ${axis}`} title="By place, at the maximum of each period" seconds={curve.x} x_words={axis_words(axis)} lines={stacked}
        format={bytes} byte_axis stepped height={280} summary={`At the end ${stacked.slice(-3).reverse().map(({label, own}) => `${label} ${bytes(own!.at(-1) ?? 0)}`).join(', ')}.`} />}
    </section>
  );
}

// By time, waiting phases look long; by entry, every phase has a length in proportion to its number of entries.
function AxisTabs({axis, choose}: {axis: Axis; choose: (axis: Axis) => void}) {
  return (
    <div class="tabs" role="group" aria-label="Horizontal axis">
      <button type="button" aria-pressed={axis === 'time'} onClick={() => choose('time')}>By time</button>
      <button type="button" aria-pressed={axis === 'entry'} onClick={() => choose('entry')}>By entry</button>
    </div>
  );
}
