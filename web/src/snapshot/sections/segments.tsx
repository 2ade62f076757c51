// The segments at the end; each is drawn as a bar of its blocks.
import {Legend} from '../../charts/stacked_bar';
import {bytes, number} from '../../format';
import {SortableTable} from '../../recording/sortable_table';
import {runs_of} from '../cells';
import type {Device, Segment} from '../data';

const STATES: Record<string, string> = {'#': 'live', '+': 'part', '~': 'waiting'};

export function Segments({device}: {device: Device}) {
  const rows = device.segments_map;
  if (rows.length === 0) return null;
  const waits = device.pending_free_bytes > 0;
  return (
    <section id="segments" aria-labelledby="segments-title">
      <h2 id="segments-title">Segments at the end</h2>
      <p class="quiet">
        {rows.length < device.segments && `The ${number(rows.length)} largest of ${number(device.segments)}. `}Each bar shows one segment from its first address to its last; all bars have the same length.
      </p>
      <Legend items={[{label: 'allocated (paler: partly)', color: '--live'}, ...(waits ? [{label: 'waiting for another stream', color: '--working'}] : []), {label: 'free', color: '--hole'}]} />
      <SortableTable<Segment> label="Segments at the end" rows={rows} most={20} key_of={(row) => rows.indexOf(row)} sorted={{column: 'Size', direction: 'descending'}}
        columns={[
          {name: 'Size', sort: (row) => row.bytes, cell: (row) => bytes(row.bytes)},
          {name: 'Blocks, by address', text: true, first: 'ascending', sort: (row) => row.address, cell: (row) => <Cells segment={row} />},
          {name: 'Live', sort: (row) => row.live_bytes, cell: (row) => bytes(row.live_bytes)},
          {name: 'In blocks', sort: (row) => row.live_blocks, cell: (row) => number(row.live_blocks)},
          {name: 'Largest free', sort: (row) => row.largest_free_bytes, cell: (row) => bytes(row.largest_free_bytes)},
          {name: 'Kind', text: true, first: 'ascending', sort: kind_of, cell: kind_of},
        ]} />
    </section>
  );
}

function kind_of(segment: Segment): string {
  return [segment.pool === 'small' ? 'small blocks' : 'large blocks', segment.stream !== 0 && `stream ${segment.stream}`,
    segment.expandable && 'expandable', segment.private_pool && 'private pool'].filter(Boolean).join(', ');
}

function Cells({segment}: {segment: Segment}) {
  const {cells} = segment;
  return (
    <svg class="segment-cells" viewBox={`0 0 ${cells.length} 1`} preserveAspectRatio="none" role="img"
      aria-label={`${bytes(segment.bytes)} at 0x${segment.address.toString(16)}: ${bytes(segment.live_bytes)} live`}>
      {runs_of(cells).map(({state, from, length}) => STATES[state] && <rect class={STATES[state]} x={from} width={length} y={0} height={1} />)}
    </svg>
  );
}
