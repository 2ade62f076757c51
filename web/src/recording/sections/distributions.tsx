// Sizes and lifetimes of the blocks, and allocations per thread.
import {bytes, duration, number} from '../../format';
import type {Recording} from '../data';
import {SortableTable} from '../sortable_table';

export function Distributions({recording}: {recording: Recording}) {
  const {size_classes, lifetimes, threads} = recording;
  if (size_classes.length === 0) return null;
  return (
    <section id="sizes" aria-labelledby="sizes-title">
      <h2 id="sizes-title">Sizes, lifetimes, threads</h2>
      <div class="columns even">
        <Bars title="Live at the peak, by block size" rows={size_classes.filter((size) => size.at_peak_bytes > 0).map((size) => ({
          label: size_label(size),
          value: size.at_peak_bytes, text: bytes(size.at_peak_bytes),
          more: `${number(size.at_peak_blocks)} blocks at the peak, ${number(size.allocations)} allocations in total`}))} />
        <Bars title="Allocations by block size" rows={size_classes.map((size) => ({
          label: size_label(size),
          value: size.allocations, text: number(size.allocations), more: bytes(size.allocated_bytes)}))} />
        {lifetimes.length > 0 && <Bars title="Blocks by lifetime" rows={lifetimes.map((life) => ({
          label: `< ${rounded(life.below_ns)}`, value: life.blocks, text: number(life.blocks), more: bytes(life.bytes)}))} />}
        {lifetimes.length > 0 && <Bars title="Bytes by lifetime" rows={lifetimes.map((life) => ({
          label: `< ${rounded(life.below_ns)}`, value: life.bytes, text: bytes(life.bytes), more: `${number(life.blocks)} blocks`}))} />}
      </div>
      {lifetimes.length > 0 && <p class="quiet">A lifetime class starts at half of its bound. Blocks that were live at the end are in no class.</p>}
      <details>
        <summary>Threads</summary>
        <SortableTable label="Threads" rows={threads} most={20} key_of={(thread) => thread.index} sorted={{column: 'Allocations', direction: 'descending'}}
          columns={[
            {name: 'Thread', text: true, first: 'ascending', sort: (thread) => thread.index, cell: (thread) => `${thread.name || 'thread'} ${thread.tid ?? `#${thread.index}`}`},
            {name: 'Allocations', sort: (thread) => thread.allocations, cell: (thread) => number(thread.allocations)},
            {name: 'Deallocations', sort: (thread) => thread.deallocations, cell: (thread) => number(thread.deallocations)},
            {name: 'Allocated', sort: (thread) => thread.allocated_bytes, cell: (thread) => bytes(thread.allocated_bytes)},
            {name: 'At peak', sort: (thread) => thread.at_peak_bytes, cell: (thread) => bytes(thread.at_peak_bytes)},
            {name: 'At end', sort: (thread) => thread.at_end_bytes, cell: (thread) => bytes(thread.at_end_bytes)},
          ]} />
      </details>
    </section>
  );
}

// A class starts at a power of two and ends before the next one.
function size_label({smallest_bytes, largest_bytes}: {smallest_bytes: number; largest_bytes: number}): string {
  return smallest_bytes === largest_bytes ? bytes(smallest_bytes) : `≥ ${bytes(smallest_bytes).replace('.0 ', ' ')}`;
}

// The bounds are powers of two, so "134 ms" is precise enough; "134.22 ms" is not needed.
function rounded(ns: number): string {
  return duration(ns).replace(/^(\d{2,})\.\d+/, '$1').replace(/^(\d\.\d)\d+/, '$1');
}

interface Bar {
  label: string;
  value: number;
  text: string;
  more: string;
}

function Bars({title, rows}: {title: string; rows: Bar[]}) {
  const most = Math.max(1, ...rows.map((row) => row.value));
  return (
    <div>
      <h3>{title}</h3>
      <div class="class-bars" role="list">
        {rows.map((row) => (
          <div class="class-row" role="listitem" title={row.more}>
            <span>{row.label}</span>
            <span class="track" aria-hidden="true"><i style={{width: `${(100 * row.value) / most}%`}} /></span>
            <span>{row.text}</span>
          </div>
        ))}
      </div>
    </div>
  );
}
