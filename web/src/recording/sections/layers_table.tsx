// Table of layers: live bytes at the peak and at the end, and the fields of LayerMemoryStats.
import {useState} from 'preact/hooks';
import {ABSENT, bytes, duration, number, percent} from '../../format';
import {type Layer, type LayerTime, NO_LAYER} from '../data';
import {type Column, SortableTable} from '../sortable_table';

export function LayersTable({layers, left_out}: {layers: Layer[]; left_out: number}) {
  const columns: Column<Layer>[] = [
    NAME,
    {name: 'Own at peak', help: 'Live at the peak of the whole heap, without inner layers', sort: (layer) => layer.self_at_peak_bytes, cell: (layer) => bytes(layer.self_at_peak_bytes)},
    {name: 'At peak', help: 'The same, with inner layers', sort: (layer) => layer.at_peak_bytes, cell: (layer) => bytes(layer.at_peak_bytes)},
    {name: 'At end', help: 'Live at the end, with inner layers', sort: (layer) => layer.at_end_bytes, cell: (layer) => bytes(layer.at_end_bytes)},
    {name: 'Peak allocated', help: 'Largest number of live bytes of this layer at any time', sort: (layer) => layer.peak_allocated_bytes, cell: (layer) => bytes(layer.peak_allocated_bytes)},
    {name: 'Peak reserved', help: 'The same, with the allocator’s headers and rounding', sort: (layer) => layer.peak_reserved_bytes, cell: (layer) => bytes(layer.peak_reserved_bytes)},
    {name: 'Allocations', sort: (layer) => layer.total_allocations, cell: (layer) => number(layer.total_allocations)},
    {name: 'Deallocations', sort: (layer) => layer.total_deallocations, cell: (layer) => number(layer.total_deallocations)},
    {name: 'Allocated', help: 'Bytes in total', sort: (layer) => layer.total_allocated_bytes, cell: (layer) => bytes(layer.total_allocated_bytes)},
    {name: 'Fragmentation', help: '(reserved − allocated) / reserved, on average', sort: (layer) => layer.avg_fragmentation, cell: (layer) => percent(layer.avg_fragmentation)},
    ...TIMES,
    {name: 'Process peak', help: 'Largest number of live bytes in the process while the layer ran', sort: (layer) => layer.process_peak_bytes, cell: (layer) => bytes(layer.process_peak_bytes)},
  ];
  // The first row is the memory outside of any layer.
  return <Layers layers={layers} left_out={left_out} columns={columns} sorted="Own at peak" entered={layers.length > 1} />;
}

// For recordings of GPU memory alone.
export function LayerTimes({layers, left_out}: {layers: LayerTime[]; left_out: number}) {
  return <Layers layers={layers} left_out={left_out} columns={[NAME, ...TIMES]} sorted="Duration" entered={layers.length > 0} />;
}

const NAME: Column<LayerTime> = {name: 'Layer', text: true, first: 'ascending', sort: (layer) => layer.layer_name, cell: (layer) => <LayerName layer={layer} />};
const TIMES: Column<LayerTime>[] = [
  {name: 'Entries', sort: (layer) => layer.entries, cell: (layer) => number(layer.entries)},
  {name: 'Duration', sort: (layer) => layer.duration_ms, cell: (layer) => (layer.duration_ms === undefined ? ABSENT : duration(layer.duration_ms * 1e6))},
];

interface Props<Row extends LayerTime> {
  layers: Row[];
  left_out: number;
  columns: Column<Row>[];
  sorted: string;
  entered: boolean;  // the program entered at least one layer
}

function Layers<Row extends LayerTime>({layers, left_out, columns, sorted, entered}: Props<Row>) {
  const [words, set_words] = useState('');
  const wanted = words.trim().toLowerCase();
  const rows = wanted ? layers.filter((layer) => layer.layer_name.toLowerCase().includes(wanted)) : layers;
  return (
    <section id="layers" aria-labelledby="layers-title">
      <h2 id="layers-title">Layers</h2>
      {!entered && <p class="quiet">The program entered no layer. Layers are PyTorch modules, NVTX ranges, headroom_scope_push(), and sessions and nodes of ONNX Runtime.</p>}
      {layers.length > 10 && (
        <p class="filter">
          <label>Filter <input type="search" value={words} placeholder="layer" onInput={(event) => set_words(event.currentTarget.value)} /></label>
          <span class="quiet">{number(rows.length)} of {number(layers.length)}</span>
        </p>
      )}
      {left_out > 0 && <p class="quiet">{number(left_out)} smaller layers are not shown; --json has all.</p>}
      {layers.length > 0 && (
        <SortableTable label="Layers" rows={rows} most={15} key_of={(layer) => layer.layer_name} sorted={{column: sorted, direction: 'descending'}} columns={columns} />
      )}
    </section>
  );
}

// A line can break after a slash; the layer's own name is emphasized.
function LayerName({layer}: {layer: LayerTime}) {
  if (!layer.layer_name) return <>{NO_LAYER}</>;
  const own = layer.layer_name.lastIndexOf('/', layer.layer_name.length - 2) + 1;
  return (
    <>
      {own > 0 && layer.layer_name.slice(0, own - 1).split('/').map((part) => <><span class="around">{part}/</span><wbr /></>)}
      <span class="own-name">{layer.layer_name.slice(own)}</span>
      {layer.source && <small> {layer.source}</small>}
    </>
  );
}
