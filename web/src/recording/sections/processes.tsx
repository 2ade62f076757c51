// The other processes of the same process tree; each has its own recording.
import {bytes, number} from '../../format';
import type {Process} from '../data';
import {type Column, SortableTable} from '../sortable_table';

export function Processes({processes, host_recorded}: {processes: Process[]; host_recorded: boolean}) {
  const of_host: Column<Process>[] = [
    {name: 'Peak', sort: (process) => process.peak_bytes, cell: (process) => bytes(process.peak_bytes)},
    {name: 'Allocations', sort: (process) => process.allocations, cell: (process) => number(process.allocations)},
    {name: 'Live at end', sort: (process) => process.leaked_bytes, cell: (process) => bytes(process.leaked_bytes)},
  ];
  const of_gpus: Column<Process> = {name: 'GPU peak', help: 'Sum over its GPUs', sort: (process) => process.device_peak_bytes, cell: (process) => bytes(process.device_peak_bytes)};
  const has_gpus = !host_recorded || processes.some((process) => process.device_peak_bytes !== undefined);
  return (
    <section id="processes" aria-labelledby="processes-title">
      <h2 id="processes-title">Other processes of the process tree</h2>
      <SortableTable label="Other processes" rows={processes} most={10} key_of={(process) => process.file} sorted={{column: host_recorded ? 'Peak' : 'GPU peak', direction: 'descending'}}
        columns={[
          {name: 'Process', text: true, first: 'ascending', sort: (process) => process.command, cell: (process) => <>{process.command ?? process.problem}<small> {process.pid}</small></>},
          ...(host_recorded ? of_host : []),
          ...(has_gpus ? [of_gpus] : []),
          {name: 'Recording', place: true, first: 'ascending', sort: (process) => process.file, cell: (process) => process.file},
        ]} />
    </section>
  );
}
