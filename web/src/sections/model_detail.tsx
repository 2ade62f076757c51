// All results of one model.
import {Histogram} from '../charts/histogram';
import {TimeChart} from '../charts/time_chart';
import {useEffect, useState} from 'preact/hooks';
import {average, bytes, counted, duration, number, percent} from '../format';
import type {Band} from '../metrics';
import type {Limit, Model, Source} from '../report';
import {counts_by_group, outcome_of, peak_of, PHASE_WORDS, resident_is_above, warnings_of} from '../words';
import {LatencyStages} from './latency_stages';
import {Layers} from './layers';
import {SampleImages} from './sample_images';
import {SettingsTable, TrialsTable} from './settings';
import {ModelBadge} from './status_badge';
import {Vos} from './vos';

interface Props {
  model: Model;
  source: Source | undefined;
  limit: Limit | undefined;
  images: Record<string, string>;
  anchor: string;
  first: boolean;
}

export function ModelDetail({model, source, limit, images, anchor, first}: Props) {
  const series = model.memory_series ?? [];
  const inference = model.latency_ns;
  // Opens the model if a link or the address points to it.
  const is_wanted = () => location.hash === `#${anchor}`;
  const [open, set_open] = useState(first || is_wanted());
  useEffect(() => {
    const follow = () => {
      if (is_wanted()) set_open(true);
    };
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  return (
    <section id={anchor} class="model" aria-labelledby={`${anchor}-title`}>
      <details open={open} onToggle={(event) => set_open(event.currentTarget.open)}>
      <summary>
        <h2 id={`${anchor}-title`}>{model.name}</h2>
        <ModelBadge model={model} />
        {!open && <span class="quiet">{gist_of(model)}</span>}
      </summary>
      <p class="origin">
        {[model.backend && `${model.backend} ${model.backend_version ?? ''}`.trim(), model.task, model.input,
          model.file_size_bytes !== undefined ? `${bytes(model.file_size_bytes)} on disk` : ''].filter(Boolean).join(' · ')}
        {model.path && <span class="path">{model.path}</span>}
      </p>
      {model.error && (
        <p class={outcome_of(model) === 'fallen' ? 'error' : 'quiet'} role="note">
          {model.error}{model.died_in && outcome_of(model) === 'fallen' && <small>It failed while {PHASE_WORDS[model.died_in]}.</small>}
        </p>
      )}
      {warnings_of(model).length > 0 && <ul class="warnings" aria-label="Warnings">{warnings_of(model).map((warning) => <li>{warning}</li>)}</ul>}
      <KeyFigures model={model} limit={limit} />
      <div class="charts">
        {series.length > 1 && (
          <TimeChart title="Resident memory over time" from_zero byte_axis
            summary={`From ${bytes(series[0]!.resident_bytes)} to a largest sample of ${bytes(series.reduce((most, point) => Math.max(most, point.resident_bytes), 0))}.`}
            seconds={series.map((point) => point.time_ns / 1e9)}
            lines={[{label: 'resident', color: '--model', values: series.map((point) => point.resident_bytes), fill: true}]}
            format={bytes} bands={phase_bands(model)} limit={limit?.bytes} height={236}
            limit_note={resident_is_above(model, limit)
              ? limit && counts_by_group(limit)
                ? 'Resident memory is larger than charged memory: pages of shared libraries that were already in memory are not charged.'
                : 'Resident memory is larger than reserved private memory: RLIMIT_DATA does not count pages of files and libraries, or shared memory.'
              : undefined}
            bands_note={phase_bands(model).filter((band) => band.to > band.from).map((band) => `${band.label} ${duration((band.to - band.from) * 1e9)}`).join(' · ')} />
        )}
        {inference && (inference.histogram ?? []).length > 0 && <Histogram title="Distribution of inference latency" latency={inference} />}
      </div>
      <LatencyStages model={model} />
      <div class="columns">
        {model.settings && <SettingsTable settings={model.settings} smallest={model.smallest_settings} thresholds={thresholds_of(model)} />}
        <Vos model={model} source={source} />
        <Cleanups model={model} />
      </div>
      {model.layers && <Layers layers={model.layers} name={model.name} />}
      {(model.trials ?? []).length > 0 && <TrialsTable trials={model.trials!} chosen={model.settings} smallest={model.smallest_settings} />}
      {(model.annotated_images ?? []).length > 0 && <SampleImages paths={model.annotated_images!} images={images} name={model.name} />}
      </details>
    </section>
  );
}

// Key figures of a model on a GPU: the latency by the GPU's clock, and the memory peaks.
function gpu_figures(model: Model): [string, string | undefined, (string | undefined)?][] {
  const figures: [string, string | undefined, (string | undefined)?][] = [];
  if (model.device_latency_ns) figures.push(['P50, GPU clock', duration(model.device_latency_ns.p50)]);
  for (const gpu of model.gpu_memory ?? []) {
    const share = (peak: number) => (gpu.limit_bytes ? `${percent(peak / gpu.limit_bytes)} of its limit` : undefined);
    for (const [label, peak] of [['load peak', gpu.load_peak_bytes], ['run peak', gpu.run_peak_bytes]] as const)
      if (peak !== undefined) figures.push([`${gpu.device} ${label}`, bytes(peak), share(peak)]);
    if (gpu.peak_percent !== undefined)
      figures.push([`${gpu.device} in use`, percent(gpu.peak_percent / 100), `of ${bytes(gpu.total_bytes)}, at the peak`]);
  }
  return figures;
}

function KeyFigures({model, limit}: {model: Model; limit: Limit | undefined}) {
  const memory = model.memory ?? {};
  const counted_peak = memory.limit_peak_bytes;
  const share = limit && counted_peak !== undefined ? `${percent(counted_peak / limit.bytes)} of the limit` : undefined;
  const by_group = limit !== undefined && counts_by_group(limit);
  // A limit on resident memory applies to the larger of the two peaks.
  const share_of_resident = (peak: number | undefined) => (!by_group && peak === counted_peak ? share : undefined);
  const join = (...notes: (string | undefined | false)[]) => notes.filter(Boolean).join(', ') || undefined;
  const detections = model.detections_per_frame;
  const figures: [string, string | undefined, (string | undefined)?][] = [
    ['Inference', model.fps === undefined ? undefined : `${number(model.fps)} FPS`],
    ['Whole pipeline', model.pipeline_fps === undefined ? undefined : `${number(model.pipeline_fps)} FPS`],
    ['Charged to the limit', by_group && counted_peak !== undefined ? bytes(counted_peak) : undefined, join(share, 'with page cache')],
    ['Reserved, against the limit', memory.data_peak_bytes === undefined ? undefined : bytes(memory.data_peak_bytes),
     join(share, 'private, touched or not')],
    ['Bare runtime', memory.runtime_bytes === undefined ? undefined : bytes(memory.runtime_bytes),
     memory.runtime_own_bytes === undefined ? undefined : `${bytes(memory.runtime_own_bytes)} of it code and tables`],
    ['Load peak', memory.load_peak_bytes === undefined ? undefined : bytes(memory.load_peak_bytes), share_of_resident(memory.load_peak_bytes)],
    ['Loaded', memory.loaded_bytes === undefined ? undefined : bytes(memory.loaded_bytes)],
    ['Run mean', memory.run_mean_bytes === undefined ? undefined : bytes(memory.run_mean_bytes)],
    ['Run peak', memory.run_peak_bytes === undefined ? undefined : bytes(memory.run_peak_bytes),
     join(share_of_resident(memory.run_peak_bytes), memory.frames_bytes ? `including ${bytes(memory.frames_bytes)} of frames` : undefined)],
    ['Peak of the board', memory.board_percent === undefined ? undefined : percent(memory.board_percent / 100), 'resident, of the machine\u2019s memory'],
    ['After unload', memory.residual_bytes === undefined ? undefined : bytes(memory.residual_bytes)],
    ['Control group peak', by_group || memory.cgroup_peak_bytes === undefined ? undefined : bytes(memory.cgroup_peak_bytes), 'with page cache'],
    ['Run peak as PSS', memory.pss_run_peak_bytes === undefined ? undefined : bytes(memory.pss_run_peak_bytes), 'shared pages divided'],
    ...gpu_figures(model),
    ['Over the limit', memory.violations ? counted(memory.violations, 'sample') : undefined],
    ['Load time', model.model_load_time_ns === undefined ? undefined : duration(model.model_load_time_ns),
     model.runtime_load_time_ns === undefined ? undefined : `runtime ${duration(model.runtime_load_time_ns)}`],
    ['Detections per frame', detections && average(detections.mean), detections && `on average; ${detections.min} to ${detections.max}`],
    ['CPU', model.cpu_percent === undefined ? undefined : `${number(model.cpu_percent)} %`, 'of one core'],
    ['Frames', model.frames ? number(model.frames) : undefined],
  ];
  const known = figures.filter(([, value]) => value !== undefined);
  if (known.length === 0) return null;
  return (
    <dl class="figures">
      {known.map(([name, value, note]) => <div><dt>{name}</dt><dd>{value}{note && <small>{note}</small>}</dd></div>)}
    </dl>
  );
}

// The thresholds that the task used; some tasks have none.
function thresholds_of(model: Model): [string, number][] {
  const both: [string, number | undefined][] = [['confidence', model.confidence], ['IoU', model.iou]];
  return both.filter((pair): pair is [string, number] => pair[1] !== undefined);
}

// Summary of a folded model.
function gist_of(model: Model): string {
  const peak = peak_of(model);
  return [model.fps !== undefined && `${number(model.fps)} FPS`, model.latency_ns && `P50 ${duration(model.latency_ns.p50)}`,
    peak !== undefined && `peak ${bytes(peak)} resident`].filter(Boolean).join(' · ');
}

// A phase lasts from its mark to the next one; the last phase lasts to the end of the series.
export function phase_bands(model: Model): Band[] {
  const marks = model.phases ?? [];
  const end = (model.memory_series ?? []).at(-1)?.time_ns ?? 0;
  return marks.map((mark, i) => ({
    from: mark.time_ns / 1e9,
    to: (marks[i + 1]?.time_ns ?? Math.max(end, mark.time_ns)) / 1e9,
    label: PHASE_WORDS[mark.phase] ?? mark.phase,
  }));
}

function Cleanups({model}: {model: Model}) {
  const points = model.cleanups ?? [];
  if (points.length === 0) return null;
  return (
    <div>
      <h3>Memory after cleanup</h3>
      <div class="scroll" role="region" tabIndex={0} aria-label={`Memory after cleanup, ${model.name}`}>
        <table>
          <thead><tr><th class="text" scope="col">After</th><th class="text" scope="col">Name</th><th scope="col">Resident</th></tr></thead>
          <tbody>
            {points.map((point) => <tr><td class="text">{point.level === 'video' ? 'sequence' : point.level}</td><td class="text">{point.name}</td><td>{bytes(point.resident_bytes)}</td></tr>)}
          </tbody>
        </table>
      </div>
    </div>
  );
}
