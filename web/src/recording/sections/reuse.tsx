// Places that allocate repeatedly, where a pool or a reused buffer would help.
import {bytes, number} from '../../format';
import type {Reuse} from '../data';
import {Place} from '../place';
import {SortableTable} from '../sortable_table';

export function ReuseCandidates({reuse}: {reuse: Reuse[]}) {
  if (reuse.length === 0) return null;
  return (
    <section id="reuse" aria-labelledby="reuse-title">
      <h2 id="reuse-title">Repeated allocations</h2>
      <p class="quiet">A reused buffer, or a pool of the given size, would avoid these calls.</p>
      <SortableTable label="Reuse candidates" rows={reuse} most={8} key_of={(row) => reuse.indexOf(row)} sorted={{column: 'Bytes saved', direction: 'descending'}}
        columns={[
          {name: 'Bytes saved', help: 'Bytes that would not be allocated again: a total over time, not less memory', sort: (row) => row.not_churned_bytes, cell: (row) => bytes(row.not_churned_bytes)},
          {name: 'Calls saved', sort: (row) => row.calls_saved, cell: (row) => number(row.calls_saved)},
          {name: 'Per second', help: 'Calls saved per second', sort: (row) => row.calls_saved_per_second, cell: (row) => number(row.calls_saved_per_second)},
          {name: 'Pool', help: 'Size of the pool', sort: (row) => row.pool_bytes, cell: (row) => bytes(row.pool_bytes)},
          {name: 'Blocks', help: 'Number of blocks in the pool', sort: (row) => row.most_blocks, cell: (row) => number(row.most_blocks)},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
        ]} />
    </section>
  );
}
