// The recording page: summary, memory over time, live memory at the selected moment, then layers, leaks, repeated
// allocations and fragmentation. A recording of GPU memory alone has only the GPU sections and the layers.
import {useMemo, useState} from 'preact/hooks';
import type {GpuRecording, HeapMap, LiveMoments, Recording, RecordingData} from './data';
import {has_arena, NO_LAYER} from './data';
import {display_names} from './layer_names';
import {MemoryChart, type Range} from './memory_chart';
import {Devices} from './sections/devices';
import {Distributions} from './sections/distributions';
import {Fragmentation} from './sections/fragmentation';
import {Header} from './sections/header';
import {LayersTable, LayerTimes} from './sections/layers_table';
import {Leaks} from './sections/leaks';
import {LiveAt} from './sections/live_at';
import {Mapped} from './sections/mapped';
import {Notes} from './sections/notes';
import {Processes} from './sections/processes';
import {ReuseCandidates} from './sections/reuse';
import {Sessions} from './sections/sessions';
import {end_of, moment_of} from './tree';

// Explains that the layer of a node is not the memory that the node needs; readers easily confuse the two.
function ArenaNote() {
  return (
    <p class="quiet">
      For a node of ONNX Runtime, the layer shows how much the runtime{'\u2019'}s arena grew while the node ran; later nodes reuse this memory. The section{' '}
      <a href="#sessions">below</a> lists the tensors of each node.
    </p>
  );
}

export function Page({data}: {data: RecordingData}) {
  const {recording, live, heap} = data;
  return recording.host_recorded ? <HostPage recording={recording} live={live} heap={heap} /> : <GpuPage recording={recording} />;
}

// A recording of GPU memory alone has no heap data.
function GpuPage({recording}: {recording: GpuRecording}) {
  return (
    <>
      <a class="skip" href="#layers">Skip to the layers</a>
      <Header recording={recording} />
      <main>
        <Devices recording={recording} />
        <LayerTimes layers={recording.layers} left_out={recording.layers_left_out ?? 0} />
        {(recording.other_processes ?? []).length > 0 && <Processes processes={recording.other_processes!} host_recorded={false} />}
      </main>
      <Notes recording={recording} />
    </>
  );
}

function HostPage({recording, live, heap}: {recording: Recording; live: LiveMoments; heap: HeapMap[]}) {
  const [range, set_range] = useState<Range | null>(null);
  const peak_ns = Math.round(recording.peak_time_seconds * 1e9);
  const chosen = useMemo(() => moment_of(live.moments, range?.from_ns ?? peak_ns, range?.to_ns ?? peak_ns), [live, range, peak_ns]);
  const moment = live.moments[chosen];
  // If memory did not change for a long time, this marks the selected part of that period.
  const shown_ns = moment ? Math.min(end_of(moment), Math.max(moment.time_ns, range?.from_ns ?? peak_ns)) : peak_ns;
  const layer_names = useMemo(() => [...display_names(recording.timeline.layers.map((path) => path || NO_LAYER)), 'other layers'], [recording]);
  return (
    <>
      <a class="skip" href="#layers">Skip to the layers</a>
      <Header recording={recording} />
      <main>
        <section aria-labelledby="time-title">
          <h2 id="time-title">Memory over time, by layer</h2>
          {has_arena((recording.sessions ?? []).filter((session) => session.at_peak.length > 0)) && <ArenaNote />}
          {recording.timeline.start_ns.length > 0
            ? <MemoryChart timeline={recording.timeline} layer_names={layer_names} end_ns={Math.round(recording.duration_seconds * 1e9)}
                peak_ns={peak_ns} peak_bytes={recording.peak_bytes} estimated={recording.peak_bytes_standard_error !== undefined} shown_ns={shown_ns} range={range} set_range={set_range} />
            : <p class="quiet">{recording.complete ? 'Nothing was allocated.' : 'The recording contains no allocation.'}</p>}
        </section>
        {moment && recording.peak_bytes > 0 && <LiveAt live={live} moment={moment} range={range} peak_ns={peak_ns} estimated={!recording.full} />}
        <Devices recording={recording} />
        <Mapped recording={recording} />
        <Sessions sessions={recording.sessions ?? []} peak_bytes={recording.peak_bytes} />
        <LayersTable layers={recording.layers} left_out={recording.layers_left_out ?? 0} />
        <Leaks recording={recording} />
        <ReuseCandidates reuse={recording.reuse} />
        <Fragmentation fragmentation={recording.fragmentation} heap={heap} full={recording.full} absent={recording.fragmentation_absent} />
        <Distributions recording={recording} />
        {(recording.other_processes ?? []).length > 0 && <Processes processes={recording.other_processes!} host_recorded />}
      </main>
      <Notes recording={recording} live={live} />
    </>
  );
}
