// Short definitions of the figures; docs/trace-report.md has the full ones.
import {number} from '../../format';
import type {LiveMoments, RecordingBase} from '../data';

// `live`: set if host memory was recorded.
export function Notes({recording, live}: {recording: RecordingBase; live?: LiveMoments}) {
  return (
    <footer>
      {recording.notes.length > 0 && (
        <details>
          <summary>Notes from the recorder</summary>
          <ul>{recording.notes.map((note) => <li>{note}</li>)}</ul>
        </details>
      )}
      <details>
        <summary>Definitions of the figures</summary>
        <dl class="definitions">
          <dt>Live</dt><dd>Bytes that are allocated and not yet released, as requested by the program.</dd>
          {live && <HostTerms live={live} />}
          {(recording.devices ?? []).length > 0 && <GpuTerms />}
          <dt>Layer</dt><dd>A scope, named by its path. An allocation belongs to the layer of its thread at that time, no matter which thread releases it.{live && ' Figures include inner layers, except those called “own”.'}</dd>
        </dl>
      </details>
      <p class="quiet">{recording.file}</p>
    </footer>
  );
}

function HostTerms({live}: {live: LiveMoments}) {
  return (
    <>
      <dt>Memory over time</dt>
      <dd>Each point is the maximum of its period, split by layer. In a quiet period, the chart shows what was live at the end of the period before.</dd>
      <dt>Live at a moment</dt>
      <dd>The page stores {number(live.moments.length)} moments: the maximum of each of many equal periods, the peak and the end. The largest stacks are shown separately, all others as “many small stacks”.</dd>
      <dt>Mapped by the program</dt><dd>Memory that the program requested directly from the kernel with mmap, mremap or brk. All other figures, also those of layers, are for the heap.</dd>
      <dt>Fragmentation of a layer</dt><dd>(reserved − allocated) / reserved, averaged over its allocations: headers and rounding follow the rules of glibc.</dd>
      <dt>Leak</dt><dd>Live memory at the end of a repeated cycle grows, according to the Mann–Kendall test, and still grows in the last half.</dd>
      <dt>Hole</dt><dd>Free memory between the live blocks of one heap: the main heap, or a 64 MiB heap of an arena. Large blocks have their own mapping and leave no holes.</dd>
    </>
  );
}

function GpuTerms() {
  return (
    <>
      <dt>GPU memory</dt>
      <dd>Memory requested from the CUDA driver, by device. It does not include the driver’s memory for contexts and kernels, or the rounding to granules of 2 MiB. It is never added to host memory.</dd>
    </>
  );
}
