// --pipeline: all models in one process. They are loaded one after another; then each frame passes through all of them.
import {Legend, StackedBar, type Part} from '../charts/stacked_bar';
import {bytes, counted, duration, number} from '../format';
import type {Limit, Pipeline} from '../report';
import {SERIES_COLORS} from '../theme';
import {LatencyTable} from './latency_stages';
import {is_cut_short} from '../words';
import {PipelineBadge} from './status_badge';

export function PipelineSection({pipeline, limit}: {pipeline: Pipeline; limit: Limit | undefined}) {
  const parts: Part[] = [];
  if (pipeline.runtime_bytes !== undefined) parts.push({label: `runtime ${bytes(pipeline.runtime_bytes)}`, value: pipeline.runtime_bytes, color: '--runtime'});
  pipeline.models.forEach((model, i) => {
    if (model.memory_increment_bytes !== undefined)
      parts.push({label: `${model.name} +${bytes(model.memory_increment_bytes)}`, value: Math.max(0, model.memory_increment_bytes), color: SERIES_COLORS[i % SERIES_COLORS.length]!});
  });
  const stacked = parts.reduce((sum, part) => sum + part.value, 0);
  const scale = 1.04 * Math.max(limit?.bytes ?? 0, pipeline.peak_bytes ?? 0, stacked, 1);
  return (
    <section aria-labelledby="pipeline-title">
      <div class="model-head">
        <h2 id="pipeline-title">All models in one process</h2>
        <PipelineBadge pipeline={pipeline} />
      </div>
      {pipeline.error && <p class={is_cut_short(pipeline) ? 'quiet' : 'error'} role="note">{pipeline.error}</p>}
      <p class="origin">
        {[pipeline.fps !== undefined && `${number(pipeline.fps)} FPS through all models`, pipeline.frames ? counted(pipeline.frames, 'frame') : '',
          pipeline.loaded_bytes !== undefined && `${bytes(pipeline.loaded_bytes)} once all are loaded`,
          pipeline.peak_bytes !== undefined && `peak ${bytes(pipeline.peak_bytes)}`].filter(Boolean).join(' · ')}
      </p>
      {parts.length > 0 && (
        <>
          <StackedBar scale={scale} parts={parts} limit={limit?.bytes} label={parts.map((part) => part.label).join(', ')}
            ticks={pipeline.peak_bytes === undefined ? [] : [{label: `peak ${bytes(pipeline.peak_bytes)}`, value: pipeline.peak_bytes}]} />
          <Legend items={[...parts.map(({label, color}) => ({label, color})),
            ...(pipeline.peak_bytes === undefined ? [] : [{label: `peak ${bytes(pipeline.peak_bytes)}`, shape: 'tick' as const}]),
            ...(limit ? [{label: `limit ${bytes(limit.bytes)}`, shape: 'limit' as const}] : [])]} />
        </>
      )}
      <div class="scroll" role="region" tabIndex={0} aria-label="Models of the pipeline">
        <table>
          <thead><tr><th class="text" scope="col">Model</th><th scope="col">Load time</th><th scope="col">Memory increment</th></tr></thead>
          <tbody>
            {pipeline.models.map((model) => (
              <tr><th class="text" scope="row">{model.name}</th><td>{duration(model.load_time_ns)}</td><td>{bytes(model.memory_increment_bytes)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="quiet">
        Models are loaded in this order, and the increments depend on it: a later model reuses memory that an earlier load
        released, so it can add less here than it needs alone.
      </p>
      <LatencyTable label="Latency in the pipeline" head="Model" rows={[
        ...pipeline.models.flatMap((model) => (model.latency_ns ? [{name: model.name, figures: model.latency_ns}] : [])),
        ...(pipeline.frame_latency_ns ? [{name: 'all models', figures: pipeline.frame_latency_ns}] : []),
      ]} />
    </section>
  );
}
