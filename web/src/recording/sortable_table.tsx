// A table that is sorted by clicking a column header. A long table shows its first rows and a button to show all.
import {useState} from 'preact/hooks';
import {type Direction, sorted_by} from '../sorting';

export interface Column<Row> {
  name: string;
  sort: (row: Row) => number | string | undefined;
  cell: (row: Row) => preact.ComponentChildren;
  first?: Direction;  // direction of the first click; default descending
  text?: boolean;
  help?: string;
  place?: boolean;    // a place in the program; the text may wrap
}

interface Props<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];  // the first column is the row header
  sorted: {column: string; direction: Direction};
  most?: number;
  key_of: (row: Row) => string | number;
}

export function SortableTable<Row>({label, rows, columns, sorted, most = 20, key_of}: Props<Row>) {
  const [order, set_order] = useState(sorted);
  const [all, set_all] = useState(false);
  const active = columns.find((column) => column.name === order.column) ?? columns[0]!;
  const ranked = sorted_by(rows, active.sort, order.direction);
  const shown = all ? ranked : ranked.slice(0, most);
  const sort = (column: Column<Row>) => set_order((now) => ({
    column: column.name,
    direction: now.column === column.name ? (now.direction === 'ascending' ? 'descending' : 'ascending') : column.first ?? 'descending',
  }));
  const style = (column: Column<Row>) => [column.text || column.place ? 'text' : '', column.place ? 'place' : ''].join(' ').trim();
  return (
    <>
      <div class="scroll" role="region" tabIndex={0} aria-label={label}>
        <table class={`sortable${columns.slice(1).some((column) => column.place) ? ' with-place' : ''}`} role="table">
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <th role="columnheader" scope="col" class={column.text || column.place ? 'text' : ''} aria-sort={order.column === column.name ? order.direction : 'none'}>
                  <button type="button" title={column.help} onClick={() => sort(column)}>
                    {column.name}
                    <span class="arrow" aria-hidden="true">{order.column === column.name ? (order.direction === 'ascending' ? '▲' : '▼') : ''}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {shown.map((row) => (
              <tr role="row" key={key_of(row)}>
                {columns.map((column, i) => i === 0
                  ? <th role="rowheader" scope="row" class={style(column)} data-name={column.name}>{column.cell(row)}</th>
                  : <td role="cell" class={style(column)} data-name={column.name}>{column.cell(row)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > most && (
        <p class="more">
          <button type="button" onClick={() => set_all(!all)}>{all ? `Show the first ${most}` : `Show all ${rows.length}`}</button>
        </p>
      )}
    </>
  );
}
