// GPU memory of each device: over time, by kind, place and layer, and the requests that a limit refused.
import {useMemo} from 'preact/hooks';
import {TimeChart} from '../../charts/time_chart';
import {bytes, counted, duration, number, percent} from '../../format';
import {curve_points} from '../curve_points';
import {type Device, type DeviceKind, type DeviceShare, NO_LAYER, type RecordingBase, type Refusal} from '../data';
import {Place} from '../place';
import {type Column, SortableTable} from '../sortable_table';

// The same words as in the terminal (src/report/recording/recording_words.cpp).
const KINDS: Record<string, string> = {
  device: 'device memory (cuMemAlloc)',
  array: 'arrays and mipmaps',
  managed: 'managed memory',
  physical: 'physical memory (cuMemCreate)',
  pool: 'allocated from pools',
  graph: 'memory nodes of graphs',
  pinned_host: 'pinned host memory',
  registered_host: 'registered host memory (cuMemHostRegister)',
  imported: 'imported from other processes and APIs',
  reservation: 'reserved addresses',
  mapping: 'mapped addresses',
};

export function Devices({recording}: {recording: RecordingBase & {host_recorded: boolean}}) {
  const devices = recording.devices ?? [];
  if (devices.length === 0 && recording.host_recorded) return null;
  return (
    <section id="gpus" aria-labelledby="gpus-title">
      <h2 id="gpus-title">GPU memory</h2>
      {devices.length === 0 && <p class="quiet">The program requested no GPU memory.</p>}
      {devices.length > 0 && <p class="quiet">Memory requested from the CUDA driver{recording.host_recorded && '; not part of the heap or of any other figure on this page'}.</p>}
      {devices.map((device) => <OneDevice device={device} end_ns={Math.round(recording.duration_seconds * 1e9)} />)}
    </section>
  );
}

function OneDevice({device, end_ns}: {device: Device; end_ns: number}) {
  const name = `GPU ${device.device}`;
  const granule = device.granule_bytes ?? USUAL_GRANULE;
  const curve = useMemo(() => curve_points(device.timeline, end_ns), [device, end_ns]);
  const lines = useMemo(() => [{label: 'in use', color: '--model', values: curve.values, fill: true}], [curve]);
  const layers = device.layers.some((layer) => layer.layer_name !== '');
  return (
    <div class="device">
      <h3>{[name, device.name, device.total_bytes && bytes(device.total_bytes), device.limit_bytes && `limited to ${bytes(device.limit_bytes)}${device.limit_type ? ` (${device.limit_type} according to the probe)` : ''}`].filter(Boolean).join(', ')}</h3>
      <p>
        Peak {bytes(device.peak_bytes)} at {duration(device.peak_time_seconds * 1e9)}; {bytes(device.at_end_bytes)} live at the end.
        {device.integrated && ' This GPU uses host memory: do not add its figures to the host’s.'}
        {device.pool_reserved_peak_bytes !== undefined && ` Pools reserved at most ${bytes(device.pool_reserved_peak_bytes)}, ${bytes(device.pool_reserved_at_end_bytes)} at the end (driver’s figures).`}
        {device.graph_reserved_peak_bytes !== undefined && ` Graphs reserved at most ${bytes(device.graph_reserved_peak_bytes)}.`}
        {device.rounding_at_peak_bytes !== undefined &&
          ` The driver rounds allocations over ${bytes(granule / 2)} up to multiples of ${bytes(granule)}: ${bytes(device.rounding_at_peak_bytes)} more.`}
        {device.context_bytes !== undefined && ` Contexts use ${bytes(device.context_bytes)} in addition to the allocations, by difference.`}
        {device.driver_growth_bytes !== undefined &&
          ` The driver used at most ${bytes(device.driver_growth_bytes)} more later, by difference: kernels loaded at first launch, stacks, streams.`}
        {device.overhead_bytes !== undefined && ` Modules use at most ${bytes(device.overhead_bytes)} in addition to the allocations, by difference.`}
        {device.refused_count > 0 && ` Refused: ${counted(device.refused_count, 'request')}, ${bytes(device.refused_bytes)} in total.`}
      </p>
      {curve.seconds.length > 0 && (
        <TimeChart title={`Memory in use on ${name}, maximum of each period`} summary={`At most ${bytes(device.peak_bytes)} at ${duration(device.peak_time_seconds * 1e9)}.`}
          seconds={curve.seconds} lines={lines} format={bytes} byte_axis stepped limit={device.limit_bytes} />
      )}
      <Kinds kinds={device.kinds} name={name} whole={device.peak_bytes} />
      {device.stacks.length > 0 && (
        <Shares label={`${name}, by place`} head="Place" rows={device.stacks} whole={device.peak_bytes}
          name={(row) => row.frames.join()} cell={(row) => <Place frames={row.frames} />} />
      )}
      {layers && (
        <Shares label={`${name}, by layer`} head="Layer" rows={device.layers} whole={device.peak_bytes}
          name={(row) => row.layer_name} cell={(row) => row.layer_name || NO_LAYER} />
      )}
      {device.refusals.length > 0 && <Refusals refusals={device.refusals} name={name} granule={granule} />}
    </div>
  );
}

function Kinds({kinds, name, whole}: {kinds: DeviceKind[]; name: string; whole: number}) {
  if (kinds.length === 0) return null;
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={`${name}, by kind of memory`}>
      <table>
        <thead>
          <tr>
            <th class="text" scope="col">Kind</th><th scope="col">At the peak</th><th scope="col">Share</th><th scope="col">Its own peak</th>
            <th scope="col">At the end</th><th scope="col">Allocations</th>
          </tr>
        </thead>
        <tbody>
          {kinds.map((kind) => (
            <tr>
              <th class="text wrap" scope="row">{KINDS[kind.kind] ?? kind.kind}{!kind.in_total && <small> not device memory</small>}</th>
              <td>{bytes(kind.at_peak_bytes)}</td>
              <td>{kind.in_total ? percent(kind.at_peak_bytes / Math.max(1, whole)) : ''}</td>
              <td>{bytes(kind.peak_bytes)}</td><td>{bytes(kind.at_end_bytes)}</td><td>{number(kind.allocations)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

interface Props<Row extends DeviceShare> {
  label: string;
  head: string;
  rows: Row[];
  whole: number;
  name: (row: Row) => string;
  cell: (row: Row) => preact.ComponentChildren;
}

function Shares<Row extends DeviceShare>({label, head, rows, whole, name, cell}: Props<Row>) {
  const columns: Column<Row>[] = [
    {name: 'At the peak', help: 'At the peak of memory in use', sort: (row) => row.at_peak_bytes, cell: (row) => bytes(row.at_peak_bytes)},
    {name: 'Share', sort: (row) => row.at_peak_bytes, cell: (row) => percent(row.at_peak_bytes / Math.max(1, whole))},
    {name: 'At end', help: 'Live at the end', sort: (row) => row.at_end_bytes, cell: (row) => bytes(row.at_end_bytes)},
    {name: head, place: true, first: 'ascending', sort: name, cell},
  ];
  return <SortableTable label={label} rows={rows} columns={columns} most={8} key_of={(row) => rows.indexOf(row)} sorted={{column: 'At the peak', direction: 'descending'}} />;
}

const MOST_REFUSALS = 10;
const MOST_PROCESSES = 3;  // other processes that a recording names
const USUAL_GRANULE = 2 * 2 ** 20;  // used if the driver did not report it

// Charged bytes without a known owner.
function unknown(refusal: Refusal) {
  const processes = (refusal.processes ?? []).reduce((sum, process) => sum + process.bytes, 0);
  return refusal.charged_bytes - refusal.own_bytes - refusal.rounding_bytes - (refusal.kept_bytes ?? 0) - processes;
}

function unknown_words(refusal: Refusal) {
  if (!refusal.processes) return 'other processes, pools, graphs and shared granules';
  return refusal.processes.length >= MOST_PROCESSES ? 'more processes' : 'released by other processes in the meantime';
}

function Refusals({refusals, name, granule}: {refusals: Refusal[]; name: string; granule: number}) {
  return (
    <>
      <h4>Refused by the limit</h4>
      <div class="scroll" role="region" tabIndex={0} aria-label={`${name}, refused requests`}>
        <table>
          <thead><tr><th scope="col">At</th><th scope="col">Requested</th><th scope="col">In use</th><th class="text" scope="col">Requested by, and what held the rest</th></tr></thead>
          <tbody>
            {refusals.slice(0, MOST_REFUSALS).map((refusal) => (
              <tr>
                <th scope="row">{duration(refusal.time_seconds * 1e9)}</th>
                <td>{bytes(refusal.requested_bytes)}</td>
                <td>{bytes(refusal.charged_bytes)} of {bytes(refusal.limit_bytes)}</td>
                <td class="text place">
                  <Place frames={refusal.frames} />
                  <ul class="holders">
                    {refusal.holders.map((holder) => <li>{bytes(holder.bytes)} <Place frames={holder.frames} /></li>)}
                    {refusal.rounding_bytes > 0 && <li>{bytes(refusal.rounding_bytes)} lost to rounding up to multiples of {bytes(granule)}</li>}
                    {(refusal.kept_bytes ?? 0) > 0 && <li>{bytes(refusal.kept_bytes ?? 0)} reserved by pools, graphs and shared granules</li>}
                    {refusal.processes?.map((process) => <li>{bytes(process.bytes)} process {process.pid}{process.in_another_container ? ' in another container' : process.command && ` (${process.command})`}</li>)}
                    {unknown(refusal) > 0 && <li>{bytes(unknown(refusal))} {unknown_words(refusal)}</li>}
                  </ul>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {refusals.length > MOST_REFUSALS && <p class="quiet">{number(refusals.length - MOST_REFUSALS)} more in --json.</p>}
    </>
  );
}
