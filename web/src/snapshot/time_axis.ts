// The horizontal position of a moment of a trace: its time, or its entry number if no times were recorded.
import {duration, number, short_duration} from '../format';
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

// Formats a position on the horizontal axis: exact for the cursor, short for a tick.
export function axis_words(axis: Axis): (x: number, exact: boolean) => string {
  if (axis === 'entry') return (entry, exact) => exact ? `entry ${number(entry)}` : number(entry);
  return (seconds, exact) => exact ? duration(seconds * 1e9) : short_duration(seconds * 1e9);
}

// If the clock goes back, the position stays: the x values of a chart must not decrease.
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

// The periods of the timeline, and the state at the end.
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

export interface PlaceCurve {
  place?: number;  // absent: all other places
  rank: number;    // rank by largest size; “all other places” has the last rank
  own: number[];
  sum: number[];   // including all places below it
}

// Memory of each place over the trace, from the top of the stack to the bottom. Long-lived places are at the bottom.
export function place_curves(device: Device, curve: TraceCurve): PlaceCurve[] {
  const {places, places_bytes} = device.timeline;
  if (places.length === 0) return [];
  const last = device.live[device.live.length - 1];
  const at_end = (place: number | null) => last ? last.stack.reduce((sum, node, i) => node === place ? sum + last.stack_bytes[i]! : sum, 0) : 0;
  const curves: PlaceCurve[] = places.map((place, rank) => ({...(place === null ? {} : {place}), rank, own: [...places_bytes.map((held) => held[rank] ?? 0), at_end(place)], sum: []}));
  curves.push({rank: places.length, own: curve.highest.map((total, i) => Math.max(0, total - curves.reduce((sum, {own}) => sum + own[i]!, 0))), sum: []});
  // A small minimum means that the place's memory is short-lived.
  const least = ({own}: PlaceCurve) => own.reduce((low, held) => Math.min(low, held), Infinity);
  curves.sort((a, b) => (a.place === undefined ? -1 : 0) - (b.place === undefined ? -1 : 0) || least(a) - least(b) || b.rank - a.rank);
  curves.forEach((one, i) => { one.sum = one.own.map((_, point) => curves.slice(i).reduce((sum, {own}) => sum + own[point]!, 0)); });
  return curves.filter(({own}) => own.some((held) => held > 0));
}

export function moments_on(device: Device, moments: Moment[], axis: Axis): number[] {
  return ascending(moments.map((moment) => axis === 'time' ? seconds_since_first(device, moment.time_us) : moment.entry));
}
