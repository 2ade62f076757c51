// The other processes of the same tree; each has a recording of its own.
import {bytes, number} from '../../format';
import type {Process} from '../data';
import {SortableTable} from '../sortable_table';

export function Processes({processes}: {processes: Process[]}) {
  return (
    <section id="processes" aria-labelledby="processes-title">
      <h2 id="processes-title">Other processes of the tree</h2>
      <SortableTable label="Other processes" rows={processes} most={10} key_of={(process) => process.file} sorted={{column: 'Peak', direction: 'descending'}}
        columns={[
          {name: 'Process', text: true, first: 'ascending', sort: (process) => process.command, cell: (process) => <>{process.command ?? process.problem}<small> {process.pid}</small></>},
          {name: 'Peak', sort: (process) => process.peak_bytes, cell: (process) => bytes(process.peak_bytes)},
          {name: 'Allocations', sort: (process) => process.allocations, cell: (process) => number(process.allocations)},
          {name: 'Live at end', sort: (process) => process.leaked_bytes, cell: (process) => bytes(process.leaked_bytes)},
          {name: 'Recording', place: true, first: 'ascending', sort: (process) => process.file, cell: (process) => process.file},
        ]} />
    </section>
  );
}
