// What the figures mean, in short; docs/trace-report.md defines them.
import {number} from '../../format';
import type {LiveMoments, RecordingBase} from '../data';

// `live`: of the host's memory, where that was recorded.
export function Notes({recording, live}: {recording: RecordingBase; live?: LiveMoments}) {
  return (
    <footer>
      {recording.notes.length > 0 && (
        <details>
          <summary>Notes of the recorder</summary>
          <ul>{recording.notes.map((note) => <li>{note}</li>)}</ul>
        </details>
      )}
      <details>
        <summary>What the figures mean</summary>
        <dl class="definitions">
          <dt>Live</dt><dd>Bytes as the program asked for them, allocated and not yet released.</dd>
          {live && <HostTerms live={live} />}
          {(recording.devices ?? []).length > 0 && <GpuTerms />}
          <dt>Layer</dt><dd>A scope by its path. An allocation belongs to the layer that its thread was in, whoever releases it.{live && ' Figures are with the layers inside, unless they say own.'}</dd>
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
      <dd>Each point is the fullest moment of its stretch of time, split by the layers that held it then. Where nothing happened, what was live at the end of the stretch before is drawn in its shares.</dd>
      <dt>Live at a moment</dt>
      <dd>The page holds {number(live.moments.length)} moments: the fullest of equal stretches of time, the peak and the end. Of the stacks those that ever held most are told apart, the others are “many small stacks”.</dd>
      <dt>Mapped by the program</dt><dd>What it asked of the kernel itself with mmap, mremap or brk. All other figures, and those of layers, are of the heap.</dd>
      <dt>Fragmentation of a layer</dt><dd>(reserved − allocated) / reserved, averaged over its allocations: headers and rounding by the rules of glibc.</dd>
      <dt>Leak</dt><dd>What is live at the ends of a repeated cycle grows, by the test of Mann and Kendall, and still does in the last half.</dd>
      <dt>Hole</dt><dd>Free between the live blocks of one heap: the one at the program’s break, or 64 MiB of another. Large blocks with a mapping of their own leave none.</dd>
    </>
  );
}

function GpuTerms() {
  return (
    <>
      <dt>GPU memory</dt>
      <dd>What was asked of the CUDA driver, by device. The driver’s own memory for contexts and kernels, and the granules of 2 MiB that it gives memory in, are not in it. It is never added to the host’s memory.</dd>
    </>
  );
}
