// The traced command, the main figures, and the missing parts of the recording.
import {bytes, duration, estimated_number, number, percent} from '../../format';
import type {GpuRecording, Recording, RecordingBase} from '../data';

export function Header({recording}: {recording: Recording | GpuRecording}) {
  return (
    <header>
      <p class="wordmark">Headroom <span>memory recording</span></p>
      <h1>{program_of(recording)}</h1>
      {!recording.complete && <Incomplete recording={recording} />}
      {recording.complete && recording.problems.length > 0 && (
        <ul class="warnings" aria-label="Problems">{recording.problems.map((problem) => <li>{problem}</li>)}</ul>
      )}
      <dl class="figures">
        {recording.host_recorded ? <HostFigures recording={recording} /> : <GpuFigures recording={recording} />}
        <Figure name="Duration" value={duration(recording.duration_seconds * 1e9)} note={`${number(recording.events)} events`} />
      </dl>
      {recording.command.length > 0 && (
        <p class="command"><code>{recording.command.map((word) => <><span>{word}</span>{' '}</>)}</code></p>
      )}
      <p class="quiet">
        pid {recording.pid}{recording.folder && <> in <span class="path">{recording.folder}</span></>}, started {started(recording.started_realtime_ns)}.{' '}
        {!recording.host_recorded
          ? 'GPU memory only (--only gpu): every allocation of GPU memory was recorded, host memory was not.'
          : recording.full
          ? `Every allocation was recorded: figures are exact${recording.complete ? '' : ', except for the missing parts'}.`
          : `Each allocation of ${bytes(recording.large_bytes)} or more was recorded. Smaller ones were counted, and sampled every ${bytes(recording.sample_period_bytes)}, so their live bytes are estimates.`}
      </p>
    </header>
  );
}

function HostFigures({recording}: {recording: Recording}) {
  const temporary = recording.temporary_allocations;
  const peak_blocks = estimated_number(recording.peak_blocks, recording.peak_blocks_standard_error);
  const leaked_blocks = estimated_number(recording.leaked_blocks, recording.leaked_blocks_standard_error);
  // A ring recording was overwritten.
  const is_part = recording.peak_bytes_at_least !== undefined;
  const at_least = is_part ? 'at least ' : '', older = is_part ? '; older blocks are not counted' : '';
  return (
    <>
      <Figure name="Peak" value={at_least + estimate(recording.peak_bytes, recording.peak_bytes_standard_error, recording.peak_bytes_at_most)}
        note={`at ${duration(recording.peak_time_seconds * 1e9)}, ${peak_blocks} blocks${older}`} />
      <Figure name="Allocated in total" value={bytes(recording.total_allocated_bytes)}
        note={`${number(recording.allocations)} allocations, ${number(recording.deallocations)} releases`} />
      <Figure name="Live at the end" value={at_least + estimate(recording.leaked_bytes, recording.leaked_bytes_standard_error, recording.leaked_bytes_at_most)}
        note={`${leaked_blocks} blocks; not always a leak${older}`} />
      {temporary !== undefined && (
        <Figure name="Temporary" value={percent(temporary / Math.max(1, recording.allocations))} note={`${number(temporary)} released by the next call`} />
      )}
      {recording.mapped.maps > 0 && (
        <Figure name="Mapped by the program" value={bytes(recording.mapped.peak_bytes)} note={`at most, not part of the heap; ${bytes(recording.mapped.at_end_bytes)} at the end`} />
      )}
    </>
  );
}

const MOST_DEVICES = 4;

function GpuFigures({recording}: {recording: GpuRecording}) {
  const devices = recording.devices ?? [];
  return (
    <>
      {devices.length === 0 && <Figure name="GPU memory" value="none" note="the program requested no GPU memory" />}
      {devices.slice(0, MOST_DEVICES).map((device) => (
        <Figure name={`Peak of GPU ${device.device}`} value={bytes(device.peak_bytes)}
          note={`at ${duration(device.peak_time_seconds * 1e9)}; ${bytes(device.at_end_bytes)} at the end`} />
      ))}
    </>
  );
}

function Incomplete({recording}: {recording: RecordingBase}) {
  return (
    <div class="banner" role="status">
      <b>Incomplete.</b> Figures cover only the recorded part.
      <ul>
        {recording.problems.map((problem) => <li>{problem}</li>)}
      </ul>
    </div>
  );
}

function Figure({name, value, note}: {name: string; value: string; note: string}) {
  return <div><dt>{name}</dt><dd>{value}<small>{note}</small></dd></div>;
}

function program_of({command, file}: RecordingBase): string {
  return (command[0] ?? file).replace(/.*\/(?=.)/, '') || file;
}

// `at_most`: an upper bound below the estimate.
export function estimate(count: number, standard_error: number | undefined, at_most: number | undefined): string {
  if (at_most !== undefined) return `at most ${bytes(at_most)}`;
  return standard_error === undefined ? bytes(count) : `≈ ${bytes(count)} ± ${bytes(Math.round(standard_error))}`;
}

function started(ns: number): string {
  return ns > 0 ? new Date(ns / 1e6).toISOString().replace('T', ' ').replace(/\..*/, ' UTC') : 'at an unknown time';
}
