// The snapshot, its problems, and the main figures of a device.
import {bytes, counted, duration, number} from '../../format';
import type {Device, Snapshot} from '../data';
import {has_times, moment_words} from '../time_axis';

export function Header({snapshot, chosen, choose}: {snapshot: Snapshot; chosen: number; choose: (device: number) => void}) {
  return (
    <header>
      <p class="wordmark">Headroom <span>PyTorch memory snapshot</span></p>
      <h1>{snapshot.file.replace(/.*\/(?=.)/, '')}</h1>
      {snapshot.problems.length > 0 && <ul class="warnings" aria-label="Problems">{snapshot.problems.map((problem) => <li>{problem}</li>)}</ul>}
      {snapshot.settings.text && <p class="command"><code><span>PYTORCH_CUDA_ALLOC_CONF={snapshot.settings.text}</span></code></p>}
      {snapshot.devices.length > 1 && (
        <div class="tabs" role="group" aria-label="Device">
          {snapshot.devices.map((device, i) => (
            <button key={i} type="button" aria-pressed={i === chosen} onClick={() => choose(i)}>Device {device.device}: {bytes(device.peak_allocated_bytes)} at most</button>
          ))}
        </div>
      )}
      {snapshot.devices_left_out !== undefined && <p class="quiet">{number(snapshot.devices_left_out)} more devices in --json.</p>}
    </header>
  );
}

export function DeviceFigures({device}: {device: Device}) {
  const traced = device.entries > 0;
  const rounding = device.live_bytes + device.pending_free_bytes - device.requested_bytes;
  const moment = device.fragmentation.moments[device.fragmentation.peak];
  const about = device.doubt === undefined ? '' : '≈ ';
  const count = (...actions: string[]) => actions.reduce((sum, action) => sum + (device.actions[action] ?? 0), 0);
  return (
    <>
      <h2>Device {device.device}</h2>
      <dl class="figures">
        {traced && moment && <Figure name="Peak allocated" value={about + bytes(device.peak_allocated_bytes)} note={moment_words(device, moment)} />}
        {traced && <Figure name="Peak reserved" value={about + bytes(device.peak_reserved_bytes)} note="of the device, in segments" />}
        <Figure name="Live at the end" value={bytes(device.live_bytes)} note={`in ${counted(device.live_blocks, 'block')}; ${bytes(rounding)} lost to rounding`} />
        <Figure name="Reserved at the end" value={bytes(device.reserved_bytes)} note={`in ${counted(device.segments, 'segment')}`} />
        <Figure name="Free in segments" value={bytes(device.free_bytes)} note={`at the end, the largest piece ${bytes(device.largest_free_bytes)}`} />
        {device.pending_free_bytes > 0 && <Figure name="Released, but waiting" value={bytes(device.pending_free_bytes)} note="for another stream" />}
        {traced && <Figure name="Trace" value={`${number(device.entries)} entries`}
          note={`${number(count('alloc'))} allocations, ${number(count('free_requested'))} releases${has_times(device) ? `, ${duration((device.last_time_us! - device.first_time_us!) * 1e3)}` : ''}`} />}
      </dl>
      {!traced && <p class="quiet">No trace: the snapshot has no allocation history. Memory before the end is unknown.</p>}
      {device.doubt !== undefined && <p class="banner">Figures of the trace may be wrong: {device.doubt}</p>}
      {traced && device.allocated_before_bytes > 0 && <p class="quiet">{bytes(device.allocated_before_bytes)} was allocated before the trace started.</p>}
    </>
  );
}

function Figure({name, value, note}: {name: string; value: string; note: string}) {
  return <div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>;
}
