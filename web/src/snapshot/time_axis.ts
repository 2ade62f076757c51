// Where a moment of a trace lies: by its time where times were recorded, or by the number of its entry.
import {duration, number} from '../format';
import type {Device, Moment} from './data';

export type Axis = 'time' | 'entry';

export function has_times(device: Device): boolean {
  return device.first_time_us !== undefined && device.last_time_us !== undefined && device.last_time_us > device.first_time_us;
}

const seconds_since_first = (device: Device, time_us: number | undefined) => Math.max(0, ((time_us ?? 0) - (device.first_time_us ?? 0)) / 1e6);

// "0.25 s after the first entry".
export function moment_words(device: Device, {entry, time_us}: {entry: number; time_us?: number}): string {
  if (device.entries === 0) return 'at the end';
  if (!time_us || device.first_time_us === undefined) return `after entry ${number(entry)}`;
  return `${duration(seconds_since_first(device, time_us) * 1e9)} after the first entry`;
}

// Of the axis from left to right: of a moment under the cursor, and of a tick.
export function axis_words(axis: Axis): (x: number, exact: boolean) => string {
  if (axis === 'entry') return (entry, exact) => exact ? `entry ${number(entry)}` : number(entry);
  return (seconds, exact) => exact ? duration(seconds * 1e9) : seconds === 0 ? '0' : duration(seconds * 1e9).replace(/\.?0+ (?=\D)/, ' ');
}

// A clock that goes back stands still here: a chart goes from left to right.
function ascending(values: number[]): number[] {
  let last = 0;
  return values.map((value) => (last = Math.max(last, value)));
}

export interface TraceCurve {
  x: number[];
  lowest: number[];
  highest: number[];
  reserved: number[];
}

// The stretches of the timeline, and what is there at the end.
export function trace_curve(device: Device, axis: Axis): TraceCurve {
  const {timeline} = device;
  const x = axis === 'time' ? timeline.time_us.map((time) => seconds_since_first(device, time)) : timeline.time_us.map((_, i) => i * timeline.entries_per_point);
  x.push(axis === 'time' ? seconds_since_first(device, device.last_time_us) : device.entries);
  return {
    x: ascending(x),
    lowest: [...timeline.lowest_bytes, device.live_bytes],
    highest: [...timeline.highest_bytes, device.live_bytes],
    reserved: [...timeline.reserved_bytes, device.reserved_bytes],
  };
}

export function moments_on(device: Device, moments: Moment[], axis: Axis): number[] {
  return ascending(moments.map((moment) => axis === 'time' ? seconds_since_first(device, moment.time_us) : moment.entry));
}
