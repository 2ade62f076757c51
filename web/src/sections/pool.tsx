// --pool: all models in one process; a pool keeps them inside a budget. Shows the memory and the loads of each model.
import {Legend, StackedBar, type Part} from '../charts/stacked_bar';
import {bytes, counted, duration, number} from '../format';
import type {Pool, PooledModel} from '../report';
import {SERIES_COLORS} from '../theme';
import {is_cut_short} from '../words';
import {LatencyTable} from './latency_stages';
import {PipelineBadge} from './status_badge';

function samples_in_words(pool: Pool): string {
  if (pool.samples === 0) return '';
  return pool.samples_over === 0 ? `none of ${counted(pool.samples, 'sample')} over the budget` : `${pool.samples_over} of ${counted(pool.samples, 'sample')} over the budget`;
}

function Row({model}: {model: PooledModel}) {
  return (
    <tr>
      <th class="text" scope="row">{model.name}{model.isolated && <span class="quiet"> own process</span>}</th>
      <td>{model.every === 1 ? 'every frame' : `1 in ${model.every}`}</td>
      <td>{model.requests}</td><td>{model.hits}</td><td>{model.loads}</td><td>{model.evictions}</td><td>{model.refusals + model.failures}</td>
      <td>{bytes(model.charge_bytes)}</td><td>{duration(model.load_ns?.p50)}</td><td>{duration(model.wait_ns?.p50)}</td>
    </tr>
  );
}

export function PoolSection({pool}: {pool: Pool}) {
  const parts: Part[] = [];
  if (pool.baseline_bytes !== undefined) parts.push({label: `runtime and frames ${bytes(pool.baseline_bytes)}`, value: pool.baseline_bytes, color: '--runtime'});
  pool.models.forEach((model, i) => {
    if (model.charge_bytes !== undefined)
      parts.push({label: `${model.name} ${bytes(model.charge_bytes)}`, value: model.charge_bytes, color: SERIES_COLORS[i % SERIES_COLORS.length]!});
  });
  const stacked = parts.reduce((sum, part) => sum + part.value, 0);
  const peak = pool.peak_bytes === undefined ? [] : [{label: `peak ${bytes(pool.peak_bytes)}`, value: pool.peak_bytes}];
  return (
    <section aria-labelledby="pool-title">
      <div class="model-head">
        <h2 id="pool-title">All models in a pool of {bytes(pool.budget_bytes)}</h2>
        <PipelineBadge pipeline={pool} />
      </div>
      {pool.error && <p class={is_cut_short(pool) ? 'quiet' : 'error'} role="note">{pool.error}</p>}
      <p class="origin">
        {[pool.fps !== undefined && `${number(pool.fps)} FPS, loads included`, pool.frames ? counted(pool.frames, 'frame') : '',
          pool.threads !== undefined && pool.threads > 1 && `requested by ${pool.threads} threads at the same time`,
          pool.peak_bytes !== undefined && `peak ${bytes(pool.peak_bytes)}`, samples_in_words(pool),
          pool.load_time_ns !== undefined && `${duration(pool.load_time_ns)} of loading`].filter(Boolean).join(' · ')}
      </p>
      {parts.length > 0 && (
        <>
          <StackedBar scale={1.04 * Math.max(pool.budget_bytes, stacked, 1)} parts={parts} limit={pool.budget_bytes} label={parts.map((part) => part.label).join(', ')} ticks={peak} />
          <Legend items={[...parts.map(({label, color}) => ({label, color})), ...peak.map(({label}) => ({label, shape: 'tick' as const})),
            {label: `budget ${bytes(pool.budget_bytes)}`, shape: 'limit' as const}]} />
        </>
      )}
      <div class="scroll" role="region" tabIndex={0} aria-label="Models of the pool">
        <table>
          <thead>
            <tr>
              <th class="text" scope="col">Model</th><th scope="col">Requested</th><th scope="col">Requests</th><th scope="col">Hits</th><th scope="col">Loads</th>
              <th scope="col">Evictions</th><th scope="col">Failed</th><th scope="col">Memory</th><th scope="col">Load P50</th><th scope="col">Wait P50</th>
            </tr>
          </thead>
          <tbody>{pool.models.map((model) => <Row key={model.name} model={model} />)}</tbody>
        </table>
      </div>
      <p class="quiet">
        The bar shows all models loaded at the same time. The pool starts empty, so these figures include each model’s first load. “Memory” is what the pool
        measured at the model’s last load. “Wait” is the delay of a request whose model was not loaded: evictions and the load.
      </p>
      <LatencyTable label="Latency in the pool" head="Model" rows={[
        ...pool.models.flatMap((model) => (model.latency_ns ? [{name: model.name, figures: model.latency_ns}] : [])),
        ...(pool.frame_latency_ns ? [{name: 'one frame', figures: pool.frame_latency_ns}] : []),
      ]} />
    </section>
  );
}
