// Converts a curve to steps: a value is valid until the next one.
import type {Curve} from './data';

export interface CurvePoints {
  seconds: number[];
  values: number[];
}

export function curve_points(curve: Curve, end_ns: number): CurvePoints {
  const seconds: number[] = [];
  const values: number[] = [];
  const add = (ns: number, bytes: number) => {
    seconds.push(ns / 1e9);
    values.push(bytes);
  };
  if (curve.start_ns.length > 0 && curve.start_ns[0]! > 0) add(0, 0);
  curve.start_ns.forEach((start, point) => {
    add(start, curve.highest_bytes[point]!);
    // A quiet period has no points: the value at the end of this point stays.
    const over = start + curve.width_ns;
    const next = curve.start_ns[point + 1] ?? Math.max(end_ns, over + 1);
    if (next > over) add(over, curve.last_bytes[point]!);
  });
  if (seconds.length > 0 && seconds[seconds.length - 1]! < end_ns / 1e9) add(end_ns, values[values.length - 1]!);
  return {seconds, values};
}
