// Places that allocate again and again what a pool, or a buffer that is kept, would not.
import {bytes, number} from '../../format';
import type {Reuse} from '../data';
import {Place} from '../place';
import {SortableTable} from '../sortable_table';

export function ReuseCandidates({reuse}: {reuse: Reuse[]}) {
  if (reuse.length === 0) return null;
  return (
    <section id="reuse" aria-labelledby="reuse-title">
      <h2 id="reuse-title">Allocated again and again</h2>
      <p class="quiet">A buffer that is kept, or a pool of the size given, would save these calls.</p>
      <SortableTable label="Reuse candidates" rows={reuse} most={8} key_of={(row) => reuse.indexOf(row)} sorted={{column: 'Not churned', direction: 'descending'}}
        columns={[
          {name: 'Not churned', help: 'Bytes that would not be allocated anew', sort: (row) => row.not_churned_bytes, cell: (row) => bytes(row.not_churned_bytes)},
          {name: 'Calls saved', sort: (row) => row.calls_saved, cell: (row) => number(row.calls_saved)},
          {name: 'A second', sort: (row) => row.calls_saved_per_second, cell: (row) => number(row.calls_saved_per_second)},
          {name: 'Pool', help: 'How large the pool gets', sort: (row) => row.pool_bytes, cell: (row) => bytes(row.pool_bytes)},
          {name: 'Blocks', help: 'What the pool has to hold', sort: (row) => row.most_blocks, cell: (row) => number(row.most_blocks)},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
        ]} />
    </section>
  );
}
