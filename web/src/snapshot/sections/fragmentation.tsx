// Free memory in segments over the trace, and the allocation that splits it.
import {useMemo} from 'preact/hooks';
import {type Line, TimeChart} from '../../charts/time_chart';
import {bytes, counted, percent} from '../../format';
import type {Calls, Device, Moment} from '../data';
import {Place} from '../place';
import {type Axis, axis_words, has_times, moment_words, moments_on} from '../time_axis';

export function Fragmentation({device, calls}: {device: Device; calls: Calls}) {
  const {moments, worst, peak} = device.fragmentation;
  const axis: Axis = has_times(device) ? 'time' : 'entry';
  const x = useMemo(() => moments_on(device, moments, axis), [device, axis]);
  const lines = useMemo((): Line[] => [
    {label: 'reserved', color: '--series-7', values: moments.map((moment) => moment.reserved_bytes)},
    {label: 'free in segments', color: '--series-8', values: moments.map((moment) => moment.free_bytes), fill: true},
    {label: 'lost to rounding', color: '--series-4', values: moments.map((moment) => moment.rounding_bytes)},
  ], [device]);
  const most = moments[worst];
  if (!most || most.free_bytes === 0) return null;
  return (
    <section id="fragmentation" aria-labelledby="fragmentation-title">
      <h2 id="fragmentation-title">Fragmentation</h2>
      <p>
        {device.entries > 0 && `At the peak, ${free_words(moments[peak]!)}. `}
        {(device.entries === 0 || worst !== peak) && `Most was free ${worst === moments.length - 1 ? 'at the end' : moment_words(device, most)}: ${free_words(most)}.`}
      </p>
      {moments.length > 1 && (
        <TimeChart title={`At ${counted(moments.length, 'moment')} of the trace`} seconds={x} x_words={axis_words(axis)} lines={lines} format={bytes} byte_axis height={180}
          summary={`At most ${bytes(most.free_bytes)} was free in segments.`} />
      )}
      {most.blocker && (
        <div class="blocker-words">
          When most was free, {bytes(most.blocker.size_bytes)}{' '}
          {most.blocker.empties_segment ? `prevented the release of a segment of ${bytes(most.blocker.segment_bytes)}:` : `split a free range of ${bytes(most.blocker.freed_if_gone_bytes)}:`}
          {' '}<Place calls={calls} at={most.blocker} />
        </div>
      )}
    </section>
  );
}

function free_words(moment: Moment): string {
  return `${bytes(moment.free_bytes)} of ${bytes(moment.reserved_bytes)} reserved was free in ${counted(moment.holes, 'piece')} (${percent(moment.external_ratio)}), the largest ${bytes(moment.largest_free_bytes)}`;
}
