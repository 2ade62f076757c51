// Comparison of models. A click on a column header sorts; absent figures are last in both directions.
import {useState} from 'preact/hooks';
import {ABSENT, average, bytes, duration, number, percent} from '../format';
import type {Limit, Model} from '../report';
import {type Direction, sorted_by} from '../sorting';
import {counts_by_group, exceeds, in_reading_order, is_unbounded, outcome_of, outcome_words, peak_of, UNBOUNDED_FOOTNOTE} from '../words';
import {percentile} from './latency_stages';
import {ModelBadge} from './status_badge';

interface Column {
  name: string;
  sort: (model: Model) => number | string | undefined;
  first: Direction;  // direction of the first click: best values first
  cell: (model: Model) => preact.ComponentChildren;
  text?: boolean;
}

export function ModelsTable({models, limit, anchors}: {models: Model[]; limit: Limit | undefined; anchors: Map<Model, string>}) {
  const [order, set_order] = useState<{column: string; direction: Direction} | null>(null);
  const prepared = models.some((model) => outcome_of(model) === 'prepared');
  const columns = prepared ? prepared_columns(anchors) : measured_columns(limit, anchors, models);
  const active = columns.find((column) => column.name === order?.column);
  const rows = in_reading_order(active && order ? sorted_by(models, active.sort, order.direction) : models);
  const marked = !prepared && models.some(({latency_ns}) => latency_ns && (is_unbounded(latency_ns, 'p90') || is_unbounded(latency_ns, 'p99')));
  const notes = [marked && UNBOUNDED_FOOTNOTE, columns.some((column) => column.name === 'Found') && 'Found: mean detections per frame.'].filter(Boolean);
  const sort = (column: Column) => set_order((now) => now?.column === column.name
    ? {column: column.name, direction: now.direction === 'ascending' ? 'descending' : 'ascending'}
    : {column: column.name, direction: column.first});

  // The roles are explicit because narrow screens show the table as cards, and then browsers drop the implicit roles.
  return (
    <section id="models" aria-labelledby="models-title">
      <h2 id="models-title">Models side by side</h2>
      {prepared && <p>The models were prepared but not measured (<code>--skip-inference</code>).{models.some((model) => peak_of(model) !== undefined) && ' Their memory was measured during the warm-up.'}</p>}
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
      {notes.length > 0 && <p class="quiet footnote">{notes.join(' ')}</p>}
    </section>
  );
}

const name_column = (anchors: Map<Model, string>): Column => ({
  name: 'Model', text: true, first: 'ascending', sort: (model) => model.name,
  cell: (model) => <a href={`#${anchors.get(model)}`}>{model.name}</a>,
});
const STATUS_COLUMN: Column = {
  name: 'Status', text: true, first: 'ascending', sort: outcome_words, cell: (model) => <ModelBadge model={model} />,
};

function prepared_columns(anchors: Map<Model, string>): Column[] {
  const text = (name: string, value: (model: Model) => string | undefined): Column =>
    ({name, text: true, first: 'ascending', sort: value, cell: (model) => value(model) || ABSENT});
  return [name_column(anchors), STATUS_COLUMN, text('Task', (model) => model.task), text('Input', (model) => model.input),
    text('Backend', (model) => model.backend), text('Settings tried', (model) => (model.trials?.length ? String(model.trials.length) : undefined))];
}

function measured_columns(limit: Limit | undefined, anchors: Map<Model, string>, models: Model[]): Column[] {
  const of_latency = (name: string, key: 'p90' | 'p99'): Column =>
    ({name, first: 'ascending', sort: (model) => model.latency_ns?.[key], cell: (model) => percentile(model.latency_ns, key)});
  const columns: Column[] = [
    name_column(anchors),
    STATUS_COLUMN,
    {name: 'n', first: 'descending', sort: (model) => model.latency_ns?.n, cell: (model) => number(model.latency_ns?.n)},
    {name: 'FPS', first: 'descending', sort: (model) => model.fps, cell: (model) => number(model.fps)},
    {name: 'P50', first: 'ascending', sort: (model) => model.latency_ns?.p50, cell: (model) => duration(model.latency_ns?.p50)},
    of_latency('P90', 'p90'),
    of_latency('P99', 'p99'),
  ];
  if (models.some((model) => model.detections_per_frame))
    columns.push({name: 'Found', first: 'descending', sort: (model) => model.detections_per_frame?.mean,
                  cell: (model) => average(model.detections_per_frame?.mean)});
  columns.push(
    {name: 'Load peak', first: 'ascending', sort: (model) => model.memory?.load_peak_bytes,
     cell: (model) => bytes(model.memory?.load_peak_bytes)},
    {name: 'Run peak', first: 'ascending', sort: (model) => model.memory?.run_peak_bytes,
     cell: (model) => bytes(model.memory?.run_peak_bytes)});
  if (limit)
    columns.push({name: counts_by_group(limit) ? 'Charged to limit' : 'Of limit', first: 'ascending',
                  sort: (model) => model.memory?.limit_peak_bytes, cell: (model) => <ShareOfLimit model={model} limit={limit} />});
  return columns;
}

function ShareOfLimit({model, limit}: {model: Model; limit: Limit}) {
  const peak = model.memory?.limit_peak_bytes;
  if (peak === undefined) return <>{ABSENT}</>;
  const share = peak / limit.bytes;
  return (
    <span class={`share ${share > 1 || exceeds(model) ? 'over' : ''}`}>
      <span class="track"><i style={{width: `${100 * Math.min(1, share)}%`}} /></span>
      <span>{counts_by_group(limit) && <>{bytes(peak)}, </>}{percent(share)}</span>
    </span>
  );
}
