// The machine during the run: one chart per kind of figure, with a common cursor, and a summary table.
import {TimeChart} from '../charts/time_chart';
import {bytes, number} from '../format';
import {largest_of, type Metrics, title_of, type Unit, unit_of} from '../metrics';
import type {Report} from '../report';
import {SERIES_COLORS} from '../theme';

interface Props {
  metrics: Metrics;
  every: number;
  summaries: NonNullable<Report['system']>;
}

const FORMATS: Record<Unit, (value: number) => string> = {
  percent: (value) => `${number(value)} %`,
  bytes,
  celsius: (value) => `${value.toFixed(1)} °C`,
  watts: (value) => `${value.toFixed(2)} W`,
  hz: (value) => (value >= 1e9 ? `${(value / 1e9).toFixed(2)} GHz` : `${Math.round(value / 1e6)} MHz`),
  plain: number,
};

export function SystemMetrics({metrics, every, summaries}: Props) {
  // A mean per sample is meaningless for events, so they are shown as totals.
  const events = summaries.filter((summary) => summary.total !== undefined);
  const figures = summaries.filter((summary) => summary.total === undefined);
  const constant = metrics.constant.filter(({key}) => !events.some((event) => event.name === key));
  return (
    <section aria-labelledby="system-title">
      <h2 id="system-title">The machine during the run</h2>
      {metrics.bands.length > 1 && (
        <p class="quiet">Shaded: {metrics.bands.map((band) => `${band.label} ${band.from.toFixed(1)} to ${band.to.toFixed(1)} s`).join(' · ')}.</p>
      )}
      {metrics.charts.length > 0 && (
        <div class="charts even">
          {metrics.charts.map((chart) => {
            const format = FORMATS[chart.unit];
            const lines = chart.series.map((series, i) => ({label: series.label, color: SERIES_COLORS[i]!, values: series.values, fill: chart.series.length === 1}));
            const title = chart.left_out > 0 ? `${chart.title} (the ${chart.series.length} largest of ${chart.series.length + chart.left_out})` : chart.title;
            return (
              <TimeChart title={title} seconds={chart.seconds} lines={lines} format={format} height={180} sync="system"
                byte_axis={chart.unit === 'bytes'} bands={metrics.bands} from_zero={chart.unit !== 'celsius'}
                summary={chart.series.map((series) => `${series.label} at most ${format(largest_of(series.values))}`).join(', ') + '.'} />
            );
          })}
        </div>
      )}
      {constant.length > 0 && (
        <p class="quiet">Unchanged throughout: {constant.map(({key, value, unit}) => `${title_of(key)} ${FORMATS[unit](value)}`).join('; ')}.</p>
      )}
      {every > 1 && <p class="quiet">Every {every}th sample is drawn; metrics.jsonl in the run folder has all.</p>}
      {events.length > 0 && (
        <p class="quiet">Over the whole run, on the whole machine: {events.map((event) => `${title_of(event.name)} ${number(event.total)}`).join('; ')}.</p>
      )}
      {figures.length > 0 && (
        <details>
          <summary>Minimum, mean and maximum while the models ran</summary>
          <div class="scroll" role="region" tabIndex={0} aria-label="System metrics, summary">
            <table>
              <thead><tr><th class="text" scope="col">Figure</th>{['n', 'min', 'mean', 'max'].map((name) => <th scope="col">{name}</th>)}</tr></thead>
              <tbody>
                {figures.map((summary) => {
                  const format = FORMATS[unit_of(summary.name)];
                  return (
                    <tr>
                      <th class="text" scope="row">{title_of(summary.name)}</th>
                      <td>{number(summary.n)}</td><td>{format(summary.min)}</td><td>{format(summary.mean)}</td><td>{format(summary.max)}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </section>
  );
}
