// Memory that the program mapped itself, by place, layer and module. It is not part of the heap.
import {bytes, duration, percent} from '../../format';
import {type MappedShare, NO_LAYER, type Recording} from '../data';
import {Place} from '../place';
import {type Column, SortableTable} from '../sortable_table';

// The same thresholds as in the terminal (src/report/recording/recording_devices.cpp).
const MUCH = 1 << 20;
const PART_OF_HEAP = 100;

export function Mapped({recording}: {recording: Recording}) {
  const {mapped} = recording;
  if (mapped.peak_bytes === 0 || mapped.peak_bytes < Math.min(MUCH, Math.floor(recording.peak_bytes / PART_OF_HEAP))) return null;
  const layers = mapped.layers.some((layer) => layer.layer_name !== '');
  return (
    <section id="mapped" aria-labelledby="mapped-title">
      <h2 id="mapped-title">Mapped by the program</h2>
      <p class="quiet">
        {bytes(mapped.peak_bytes)} at most, at {duration(mapped.peak_time_seconds * 1e9)}; {bytes(mapped.at_end_bytes)} at the end.
        Mapped memory is not part of the heap or of any other figure on this page. It counts whole pages, touched or not, but not pages that malloc maps for the heap.
      </p>
      <Shares label="Mapped, by place" head="Place" rows={mapped.stacks} whole={mapped.peak_bytes}
        name={(row) => row.frames.join()} cell={(row) => <Place frames={row.frames} />} />
      {layers && (
        <Shares label="Mapped, by layer" head="Layer" rows={mapped.layers} whole={mapped.peak_bytes}
          name={(row) => row.layer_name} cell={(row) => row.layer_name || NO_LAYER} />
      )}
      {mapped.modules.length > 1 && (
        <Shares label="Mapped, by module" head="Module" rows={mapped.modules} whole={mapped.peak_bytes}
          name={(row) => row.module ?? ''} cell={(row) => row.module ?? '(unknown)'} />
      )}
    </section>
  );
}

interface Props<Row extends MappedShare> {
  label: string;
  head: string;
  rows: Row[];
  whole: number;
  name: (row: Row) => string;
  cell: (row: Row) => preact.ComponentChildren;
}

function Shares<Row extends MappedShare>({label, head, rows, whole, name, cell}: Props<Row>) {
  const columns: Column<Row>[] = [
    {name: 'At its peak', help: 'At the peak of mapped memory', sort: (row) => row.at_peak_bytes, cell: (row) => bytes(row.at_peak_bytes)},
    {name: 'Share', sort: (row) => row.at_peak_bytes, cell: (row) => percent(row.at_peak_bytes / Math.max(1, whole))},
    {name: 'At end', help: 'Still mapped at the end', sort: (row) => row.at_end_bytes, cell: (row) => bytes(row.at_end_bytes)},
    {name: head, place: true, first: 'ascending', sort: name, cell},
  ];
  return <SortableTable label={label} rows={rows} columns={columns} most={8} key_of={(row) => rows.indexOf(row)} sorted={{column: 'At its peak', direction: 'descending'}} />;
}
