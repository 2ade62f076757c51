// What was allocated and reserved over the trace.
import {useMemo, useState} from 'preact/hooks';
import {type Line, TimeChart} from '../../charts/time_chart';
import {bytes, number} from '../../format';
import type {Device} from '../data';
import {type Axis, axis_words, has_times, trace_curve} from '../time_axis';

export function MemoryOverTime({device}: {device: Device}) {
  const [axis, set_axis] = useState<Axis>(has_times(device) ? 'time' : 'entry');
  const curve = useMemo(() => trace_curve(device, axis), [device, axis]);
  const lines = useMemo((): Line[] => [
    {label: 'reserved', color: '--series-7', values: curve.reserved},
    {label: 'allocated, highest', color: '--series-1', values: curve.highest, fill: true},
    {label: 'allocated, lowest', color: '--series-2', values: curve.lowest},
  ], [curve]);
  if (device.entries === 0) return null;
  return (
    <section id="time" aria-labelledby="time-title">
      <h2 id="time-title">Memory over time</h2>
      {has_times(device) && <AxisTabs axis={axis} choose={set_axis} />}
      <TimeChart key={axis} title={`Each point is ${number(device.timeline.entries_per_point)} ${device.timeline.entries_per_point === 1 ? 'entry' : 'entries'} of the trace`} seconds={curve.x} x_words={axis_words(axis)} lines={lines}
        format={bytes} byte_axis stepped height={280} summary={`At most ${bytes(device.peak_allocated_bytes)} allocated and ${bytes(device.peak_reserved_bytes)} reserved.`} />
    </section>
  );
}

// A loop that waits looks stretched by its time, and as long as any other by its entries.
function AxisTabs({axis, choose}: {axis: Axis; choose: (axis: Axis) => void}) {
  return (
    <div class="tabs" role="group" aria-label="From left to right">
      <button type="button" aria-pressed={axis === 'time'} onClick={() => choose('time')}>By time</button>
      <button type="button" aria-pressed={axis === 'entry'} onClick={() => choose('entry')}>By entry</button>
    </div>
  );
}
