// Models side by side. A click on a column head sorts; absent figures stay at the end in both directions.
import {useState} from 'preact/hooks';
import {bytes, duration, number, percent} from '../format';
import type {Limit, Model} from '../report';
import {type Direction, sorted_by} from '../sorting';
import {exceeds, peak_of} from '../words';
import {StatusBadge} from './status_badge';

interface Column {
  name: string;
  sort: (model: Model) => number | string | undefined;
  first: Direction;  // what the first click does: the better end first
  cell: (model: Model) => preact.ComponentChildren;
  text?: boolean;
}

export function ModelsTable({models, limit, anchors}: {models: Model[]; limit: Limit | undefined; anchors: Map<Model, string>}) {
  const [order, set_order] = useState<{column: string; direction: Direction} | null>(null);
  const columns = columns_of(limit, anchors, models);
  const active = columns.find((column) => column.name === order?.column);
  const rows = active && order ? sorted_by(models, active.sort, order.direction) : models;
  const sort = (column: Column) => set_order((now) => now?.column === column.name
    ? {column: column.name, direction: now.direction === 'ascending' ? 'descending' : 'ascending'}
    : {column: column.name, direction: column.first});

  // Roles are said again because a narrow screen lays the table out as cards, and then browsers forget them.
  return (
    <section id="models" aria-labelledby="models-title">
      <h2 id="models-title">Models side by side</h2>
      <div class="models-frame">
        <table class="models" role="table" aria-labelledby="models-title">
          <thead role="rowgroup">
            <tr role="row">
              {columns.map((column) => (
                <th role="columnheader" scope="col" class={column.text ? 'text' : ''}
                  aria-sort={order?.column === column.name ? order.direction : 'none'}>
                  <button type="button" onClick={() => sort(column)}>
                    {column.name}
                    <span class="arrow" aria-hidden="true">{order?.column === column.name ? (order.direction === 'ascending' ? '▲' : '▼') : ''}</span>
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody role="rowgroup">
            {rows.map((model) => (
              <tr role="row" key={anchors.get(model)!}>
                {columns.map((column, i) => i === 0
                  ? <th role="rowheader" scope="row" class="text">{column.cell(model)}</th>
                  : <td role="cell" class={column.text ? 'text' : ''} data-name={column.name}>{column.cell(model)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

function columns_of(limit: Limit | undefined, anchors: Map<Model, string>, models: Model[]): Column[] {
  const latency = (name: string, key: 'p50' | 'p90' | 'p99'): Column => {
    const value = (model: Model) => model.latency_ns?.[key];
    return {name, first: 'ascending', sort: value, cell: (model) => duration(value(model))};
  };
  const columns: Column[] = [
    {name: 'Model', text: true, first: 'ascending', sort: (model) => model.name,
     cell: (model) => <a href={`#${anchors.get(model)}`}>{model.name}</a>},
    {name: 'Status', text: true, first: 'ascending', sort: (model) => model.status,
     cell: (model) => <StatusBadge status={model.status} over={exceeds(model)} />},
    {name: 'FPS', first: 'descending', sort: (model) => model.fps, cell: (model) => number(model.fps)},
    latency('P50', 'p50'),
    latency('P90', 'p90'),
    latency('P99', 'p99'),
  ];
  if (models.some((model) => model.detections_per_frame))
    columns.push({name: 'Detections', first: 'descending', sort: (model) => model.detections_per_frame?.mean,
                  cell: (model) => number(model.detections_per_frame?.mean)});
  columns.push(
    {name: 'Load peak', first: 'ascending', sort: (model) => model.memory?.load_peak_bytes,
     cell: (model) => bytes(model.memory?.load_peak_bytes)},
    {name: 'Run peak', first: 'ascending', sort: (model) => model.memory?.run_peak_bytes,
     cell: (model) => bytes(model.memory?.run_peak_bytes)});
  if (limit)
    columns.push({name: 'Of limit', first: 'ascending', sort: peak_of, cell: (model) => <ShareOfLimit model={model} limit={limit} />});
  return columns;
}

function ShareOfLimit({model, limit}: {model: Model; limit: Limit}) {
  const peak = peak_of(model);
  if (peak === undefined) return <>{bytes(undefined)}</>;
  const share = peak / limit.bytes;
  return (
    <span class={`share ${share > 1 || exceeds(model) ? 'over' : ''}`}>
      <span class="track"><i style={{width: `${100 * Math.min(1, share)}%`}} /></span>
      {percent(share)}
    </span>
  );
}
