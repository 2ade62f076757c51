// Latency by stage: the mean times as one bar, and all figures in a table. The most important columns come first,
// because a phone shows only these without scrolling.
import {Legend, StackedBar} from '../charts/stacked_bar';
import {ABSENT, duration, number, percent} from '../format';
import type {Latency, Model, StageName} from '../report';
import {is_unbounded, UNBOUNDED_MARK} from '../words';

const STAGES: {key: StageName; name: string; color: string}[] = [
  {key: 'decode', name: 'decode', color: '--stage-decode'},
  {key: 'preprocess', name: 'pre-processing', color: '--stage-pre'},
  {key: 'inference', name: 'inference', color: '--stage-inference'},
  {key: 'postprocess', name: 'post-processing', color: '--stage-post'},
];
// With fewer frames, LoadGen's early stopping gives no bound at 99 % confidence.
const ENOUGH_FOR_P90 = 64;
const ENOUGH_FOR_P99 = 662;

export function LatencyStages({model}: {model: Model}) {
  const latency = model.stages_ns ?? {};
  const stages = STAGES.filter((stage) => latency[stage.key]);
  if (stages.length === 0) return null;
  const total = stages.reduce((sum, stage) => sum + latency[stage.key]!.mean, 0);
  const rows: {name: string; figures: Latency}[] = stages.map((stage) => ({name: stage.name, figures: latency[stage.key]!}));
  if (latency.end_to_end) rows.push({name: 'end to end', figures: latency.end_to_end});
  return (
    <div>
      <h3>Latency by stage</h3>
      {stages.length > 1 && total > 0 && (
        <>
          <StackedBar scale={total} label={stages.map((stage) => `${stage.name} ${duration(latency[stage.key]!.mean)}`).join(', ')}
            parts={stages.map((stage) => ({label: `${stage.name} ${duration(latency[stage.key]!.mean)}`, value: latency[stage.key]!.mean, color: stage.color}))} />
          <Legend items={stages.map((stage) => ({
            label: `${stage.name} ${duration(latency[stage.key]!.mean)} (${percent(latency[stage.key]!.mean / total)})`, color: stage.color}))} />
        </>
      )}
      <LatencyTable rows={rows} label={`Latency by stage, ${model.name}`} />
    </div>
  );
}

export function LatencyTable({rows, label, head = 'Stage'}: {rows: {name: string; figures: Latency}[]; label: string; head?: string}) {
  if (rows.length === 0) return null;
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            <th class="text" scope="col">{head}</th>
            {['n', 'P50', 'P90', 'P99', 'mean', 'sd', 'CV', 'min', 'max', 'P90 at most', 'P99 at most'].map((name) => <th scope="col">{name}</th>)}
          </tr>
        </thead>
        <tbody>
          {rows.map(({name, figures}) => (
            <tr>
              <th class="text" scope="row">{name}</th>
              <td>{number(figures.n)}</td>
              <td>{duration(figures.p50)}</td>
              <td>{percentile(figures, 'p90')}</td>
              <td>{percentile(figures, 'p99')}</td>
              <td>{duration(figures.mean)}</td>
              <td>{duration(figures.sd)}</td>
              <td>{percent(figures.cv)}</td>
              <td>{duration(figures.min)}</td>
              <td>{duration(figures.max)}</td>
              <td>{bound(figures.p90_bound, figures.n, ENOUGH_FOR_P90)}</td>
              <td>{bound(figures.p99_bound, figures.n, ENOUGH_FOR_P99)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function percentile(latency: Latency | undefined, key: 'p90' | 'p99'): string {
  if (!latency) return ABSENT;
  return duration(latency[key]) + (is_unbounded(latency, key) ? UNBOUNDED_MARK : '');
}

function bound(ns: number | undefined, n: number, enough: number) {
  if (ns !== undefined) return duration(ns);
  return n < enough ? <span class="quiet">too few frames</span> : ABSENT;
}
