// Stable sorting for tables. Rows without the figure come last in both directions.

export type Direction = 'ascending' | 'descending';

export function sorted_by<Row>(rows: Row[], key: (row: Row) => number | string | undefined, direction: Direction): Row[] {
  const sign = direction === 'ascending' ? 1 : -1;
  return [...rows].sort((row_a, row_b) => {
    const a = key(row_a);
    const b = key(row_b);
    if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined);
    if (typeof a === 'string' || typeof b === 'string') return sign * String(a).localeCompare(String(b), 'en', {numeric: true});
    return sign * (a - b);
  });
}
