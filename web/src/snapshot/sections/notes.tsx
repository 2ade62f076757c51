// Short definitions of the figures; docs/pytorch-snapshots.md has the full ones.
import type {Snapshot} from '../data';

export function Notes({snapshot}: {snapshot: Snapshot}) {
  return (
    <footer>
      <details>
        <summary>Definitions of the figures</summary>
        <dl class="definitions">
          <dt>Allocated, live</dt><dd>Blocks in use, with rounding: torch.cuda.memory_allocated().</dd>
          <dt>Reserved</dt><dd>Memory that the caching allocator holds on the device, in segments: torch.cuda.memory_reserved(). It does not include memory of the driver and of other libraries.</dd>
          <dt>Free in segments</dt><dd>Reserved but unused: kept for later requests of the same kind and stream.</dd>
          <dt>Peak</dt><dd>The maximum over the trace. A trace longer than max_entries has lost its beginning.</dd>
          <dt>Leak</dt><dd>The minimum of a place’s live memory in equal windows of the trace keeps growing. Memory of one iteration comes and goes, so it does not count.</dd>
          <dt>Place</dt><dd>A call stack. If none was recorded, the requested size.</dd>
        </dl>
      </details>
      <p class="quiet">{snapshot.file}</p>
    </footer>
  );
}
