// Formats figures exactly as the command line prints them (src/base/units.cpp).

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
export const ABSENT = '–';

// "812 B", "1.5 KiB", "23.4 MiB", "1.21 GiB", "-3.0 MiB"; a dash if there is no figure.
export function bytes(count: number | undefined): string {
  if (count === undefined) return ABSENT;
  let value = count;
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit + 1 < BYTE_UNITS.length) {
    value /= 1024;
    unit++;
  }
  if (unit === 0) return `${count} B`;
  return `${value.toFixed(unit >= 3 ? 2 : 1)} ${BYTE_UNITS[unit]}`;
}

// "812 ns", "12.3 µs", "4.56 ms", "1.234 s", "2 min 05 s".
export function duration(ns: number | undefined): string {
  if (ns === undefined) return ABSENT;
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  if (size < 1e6) return `${(ns / 1e3).toFixed(1)} µs`;
  if (size < 1e9) return `${(ns / 1e6).toFixed(2)} ms`;
  if (size < 60e9) return `${(ns / 1e9).toFixed(3)} s`;
  const seconds = Math.round(ns / 1e9);
  return `${Math.trunc(seconds / 60)} min ${String(Math.abs(seconds % 60)).padStart(2, '0')} s`;
}

// For an axis: "1.5 ms", "2 min", "0".
export function short_duration(ns: number): string {
  return ns === 0 ? '0' : duration(ns).replace(/(\.\d*?)0+ /, '$1 ').replace('. ', ' ').replace(' 00 s', '');
}

// Labels of a time axis, all in one unit: ["0 ms", "0.5 ms", "1 ms"]. Different times have different labels.
export function time_ticks(seconds: readonly number[]): string[] {
  const largest = seconds.reduce((most, time) => Math.max(most, Math.abs(time)), 0);
  const [unit, scale] = largest < 1e-3 ? ['µs', 1e6] : largest < 1 ? ['ms', 1e3] : ['s', 1];
  const step = seconds.length > 1 ? Math.abs(seconds[1]! - seconds[0]!) * scale : 0;
  const digits = step > 0 ? Math.min(9, Math.max(0, 1 - Math.floor(Math.log10(step)))) : 4;
  return seconds.map((time) => `${Number((time * scale).toFixed(digits))} ${unit}`);
}

// At least three significant digits, never an exponent: "0.042", "3.14", "217", "12,345".
export function number(value: number | undefined): string {
  if (value === undefined) return ABSENT;
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 10_000) return String(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ',');
}

// "≈ 12" if the count has a standard error.
export function estimated_number(value: number, standard_error: number | undefined): string {
  return (standard_error === undefined ? '' : '≈ ') + number(value);
}

// A mean of counts: "0.5", "5.4", "0.04".
export function average(value: number | undefined): string {
  if (value === undefined) return ABSENT;
  return value.toFixed(value === 0 || value >= 100 ? 0 : value >= 0.095 ? 1 : 2);
}

export function percent(fraction: number | undefined): string {
  if (fraction === undefined) return ABSENT;
  const value = 100 * fraction;
  return `${value.toFixed(Math.abs(value) < 10 ? 1 : 0)} %`;
}

// "1 model", "4 models".
export function counted(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}
