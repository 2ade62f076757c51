// GPU memory: for each device, the memory of each model by phase, the limit, and the refused requests.
import {Legend, StackedBar} from '../charts/stacked_bar';
import type {LimitWords} from '../data';
import {bytes, counted, percent} from '../format';
import type {GpuMemory, JointGpuMemory, Limit, Model} from '../report';
import {MECHANISM_WORDS} from '../words';
import {RoutesTable} from './probe_routes';

interface Props {
  models: Model[];
  joint: JointGpuMemory[];  // all models at once
  limit: Limit | undefined;
  words: LimitWords | undefined;
}

interface Row {
  name: string;
  gpu: GpuMemory;
}

export function GpuMemorySection({models, joint, limit, words}: Props) {
  const rows = models.flatMap((model) => (model.gpu_memory ?? []).map((gpu) => ({name: model.name, gpu})));
  if (rows.length === 0 && !limit) return null;
  const devices = [...new Set(rows.map((row) => row.gpu.device))].sort();
  return (
    <section aria-labelledby="gpu-title">
      <h2 id="gpu-title">{limit ? 'GPU memory and its limit' : 'GPU memory'}</h2>
      {limit && (
        <p>
          The limit is enforced by {MECHANISM_WORDS[limit.mechanism] ?? limit.mechanism}. It
          is <b>{limit.type}</b>{words ? `: ${words.meaning}` : ''}.{limit.note && ` ${limit.note}.`}
        </p>
      )}
      {rows.length > 0 && (
        <p class="quiet">
          Figures come from Headroom’s GPU ledger: requested memory, and memory reserved by pools and graphs. The driver’s figure for the
          process also includes the context and the loaded kernels.
        </p>
      )}
      {devices.map((device) => (
        <Device device={device} rows={rows.filter((row) => row.gpu.device === device)} joint={joint.find((one) => one.device === device)} />
      ))}
      {limit && <RoutesTable routes={limit.routes ?? []} label="Routes that the probe tried on GPU memory" />}
    </section>
  );
}

function peak_of(gpu: GpuMemory): number | undefined {
  const known = [gpu.load_peak_bytes, gpu.run_peak_bytes].filter((peak) => peak !== undefined);
  return known.length > 0 ? Math.max(...known) : undefined;
}

function Device({device, rows, joint}: {device: string; rows: Row[]; joint: JointGpuMemory | undefined}) {
  const {name, total_bytes, limit_bytes, is_integrated} = rows[0]!.gpu;
  const bars = rows.filter((row) => peak_of(row.gpu) !== undefined);
  const together = joint?.joint_peak_bytes;
  const scale = 1.04 * Math.max(limit_bytes ?? 0, together ?? 0, 1, ...bars.map((row) => peak_of(row.gpu)!));
  return (
    <>
      <h3>{[device, name, total_bytes && bytes(total_bytes), limit_bytes && `limit ${bytes(limit_bytes)}`].filter(Boolean).join(', ')}</h3>
      {is_integrated && <p class="quiet">This GPU uses host memory: do not add these figures to resident memory.</p>}
      {bars.length > 0 ? (
        <>
          <Legend items={[{label: 'model, once loaded', color: '--model'}, {label: 'up to its peak', color: '--working'},
            ...(together === undefined ? [] : [{label: 'all models at once, at their peak', color: '--charged'}]),
            ...(limit_bytes ? [{label: `limit ${bytes(limit_bytes)}`, shape: 'limit' as const}] : [])]} />
          <div class="bars">
            {bars.map((row) => <Bar row={row} scale={scale} />)}
            {together !== undefined && (
              <div class="bar-row">
                <div class="bar-name">all at once</div>
                <StackedBar scale={scale} limit={limit_bytes} label={`all models at once: peak ${bytes(together)}`}
                  parts={[{label: `joint peak ${bytes(together)}`, value: together, color: '--charged'}]} />
                <div class="bar-value">{bytes(together)}{limit_bytes && <small>{percent(together / limit_bytes)} of limit</small>}</div>
              </div>
            )}
          </div>
        </>
      ) : <p class="quiet">The ledger was not loaded, so the models’ requests to this device are unknown.</p>}
      <div class="scroll" role="region" tabIndex={0} aria-label={`Memory of ${device} by phase`}>
        <table>
          <thead>
            <tr>
              <th class="text" scope="col">Model</th><th scope="col">Runtime loaded</th><th scope="col">Model loaded</th><th scope="col">Load peak</th>
              <th scope="col">End of the run</th><th scope="col">Run peak</th><th scope="col">After unload</th><th scope="col">Context, kernels</th>
              <th class="text" scope="col">Refused</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({name: model, gpu}) => (
              <tr>
                <th class="text" scope="row">{model}</th>
                <td>{bytes(gpu.runtime_bytes)}</td><td>{bytes(gpu.loaded_bytes)}</td><td>{bytes(gpu.load_peak_bytes)}</td>
                <td>{bytes(gpu.running_bytes)}</td><td>{bytes(gpu.run_peak_bytes)}</td><td>{bytes(gpu.residual_bytes)}</td>
                <td>{bytes(driver_overhead(gpu))}</td>
                <td class="text">{gpu.refused ? `${counted(gpu.refused, 'request')}, ${bytes(gpu.refused_bytes)}` : gpu.limit_bytes ? 'none' : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Bar({row, scale}: {row: Row; scale: number}) {
  const {name, gpu} = row;
  const peak = peak_of(gpu)!;
  const loaded = Math.min(gpu.loaded_bytes ?? 0, peak);
  const parts = [{label: `loaded ${bytes(loaded)}`, value: loaded, color: '--model'},
    {label: `to its peak ${bytes(peak - loaded)}`, value: peak - loaded, color: '--working'}];
  return (
    <div class="bar-row">
      <div class="bar-name">{name}</div>
      <StackedBar scale={scale} limit={gpu.limit_bytes} parts={parts} label={`${name}: loaded ${bytes(loaded)}, peak ${bytes(peak)}`} />
      <div class="bar-value">
        {bytes(peak)}
        {gpu.limit_bytes && <small>{percent(peak / gpu.limit_bytes)} of limit</small>}
      </div>
    </div>
  );
}

// The driver's figure for the process minus the ledger's, at the last moment at which both are known.
function driver_overhead(gpu: GpuMemory): number | undefined {
  const process = gpu.process ?? {};
  const pairs = [[process.running_bytes, gpu.running_bytes], [process.loaded_bytes, gpu.loaded_bytes], [process.runtime_bytes, gpu.runtime_bytes]];
  const known = pairs.find(([theirs, ours]) => theirs !== undefined && ours !== undefined);
  return known && known[0]! - known[1]!;
}
