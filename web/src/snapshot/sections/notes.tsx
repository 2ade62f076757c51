// What the figures mean, in short; docs/pytorch-snapshots.md defines them.
import type {Snapshot} from '../data';

export function Notes({snapshot}: {snapshot: Snapshot}) {
  return (
    <footer>
      <details>
        <summary>What the figures mean</summary>
        <dl class="definitions">
          <dt>Allocated, live</dt><dd>Blocks in use, as large as they are: torch.cuda.memory_allocated().</dd>
          <dt>Reserved</dt><dd>What the caching allocator has of the device, in segments: torch.cuda.memory_reserved(). What the driver and other libraries take is not in it.</dd>
          <dt>Free in segments</dt><dd>Reserved, and in no use: kept for the next request of its kind and stream.</dd>
          <dt>Peak</dt><dd>The most over the trace. A trace that is longer than max_entries has lost its beginning.</dd>
          <dt>Leak</dt><dd>The least that a place held in each of equal windows of the trace grows on and on. What belongs to one iteration comes and goes, and is not in it.</dd>
          <dt>Place</dt><dd>A call stack. Where none was recorded, how much was asked for.</dd>
        </dl>
      </details>
      <p class="quiet">{snapshot.file}</p>
    </footer>
  );
}
