// Holes between the live blocks: over time, and as a map of the heap at one moment.
import {useMemo, useState} from 'preact/hooks';
import {type Line, TimeChart} from '../../charts/time_chart';
import {bytes, counted, duration, percent} from '../../format';
import type {HeapMap, Recording} from '../data';
import {HeapCells} from '../heap_cells';
import {Place} from '../place';

interface Props {
  fragmentation: Recording['fragmentation'];
  heap: HeapMap[];
  full: boolean;
  absent: string | undefined;  // the reason if a full recording has no data
}

export function Fragmentation({fragmentation, heap, full, absent}: Props) {
  const moment = fragmentation?.moments[fragmentation.largest];
  const largest = moment && moment.extent_bytes > 0 ? moment : undefined;
  const worst = fragmentation?.moments[fragmentation.worst];
  const most_holes = heap.findIndex((map) => map.time_ns === worst?.time_ns);
  const first = Math.max(0, heap.findIndex((map) => map.time_ns === largest?.time_ns));
  const [chosen, set_chosen] = useState(first);
  const seconds = useMemo(() => (fragmentation?.moments ?? []).map((moment) => moment.time_ns / 1e9), [fragmentation]);
  const lines = useMemo((): Line[] => {
    const moments = fragmentation?.moments ?? [];
    return [
      {label: 'heap', color: '--series-7', values: moments.map((moment) => moment.extent_bytes)},
      {label: 'in holes', color: '--series-8', values: moments.map((moment) => moment.free_bytes), fill: true},
      {label: 'headers and rounding', color: '--series-4', values: moments.map((moment) => moment.chunk_bytes - moment.live_bytes)},
    ];
  }, [fragmentation]);
  const map = heap[Math.min(chosen, heap.length - 1)];
  return (
    <section id="fragmentation" aria-labelledby="fragmentation-title">
      <h2 id="fragmentation-title">Fragmentation</h2>
      {!full && <p class="quiet">Fragmentation needs every address: record with --full.</p>}
      {absent && <p class="quiet">{absent}.</p>}
      {full && !absent && !largest && <p class="quiet">The heap was empty at all examined moments.</p>}
      {fragmentation && largest && (
        <>
          <p>
            When the heap was largest ({duration(largest.time_ns)}), {bytes(largest.free_bytes)} of its {bytes(largest.extent_bytes)} were
            holes ({percent(largest.external_ratio)}), the largest {bytes(largest.largest_free_bytes)}; headers and rounding took {percent(largest.internal_ratio)} of the blocks.
            {worst && worst.free_bytes > largest.free_bytes && ` Holes took the most memory at ${duration(worst.time_ns)}: ${bytes(worst.free_bytes)} of ${bytes(worst.extent_bytes)} (${percent(worst.external_ratio)}), the largest ${bytes(worst.largest_free_bytes)}.`}
          </p>
          {fragmentation.moments.length > 1 && (
            <TimeChart title="Over time" seconds={seconds} lines={lines} format={bytes} byte_axis height={180}
              summary={`Holes took at most ${bytes(Math.max(...fragmentation.moments.map((moment) => moment.free_bytes)))}.`} />
          )}
        </>
      )}
      {map && map.extents.length > 0 && (
        <>
          <h3>Map of the heap at {duration(map.time_ns)}</h3>
          {heap.length > 1 && (
            <p class="moments">
              <label>
                Moment <input type="range" min={0} max={heap.length - 1} step={1} value={chosen} aria-valuetext={duration(map.time_ns)}
                  onInput={(event) => set_chosen(Number(event.currentTarget.value))} />
              </label>
              <button type="button" onClick={() => set_chosen(first)}>Largest heap</button>
              {most_holes >= 0 && most_holes !== first && <button type="button" onClick={() => set_chosen(most_holes)}>Largest holes</button>}
            </p>
          )}
          <p class="quiet">
            {bytes(map.free_bytes)} in {counted(map.holes, 'hole')}, the largest {bytes(map.largest_free_bytes)}; {percent(map.external_ratio)} of {bytes(map.extent_bytes)}.
            A cell is {bytes(map.cell_bytes)}. Addresses increase from left to right, then down.
          </p>
          <HeapCells map={map} />
          {map.blocker && (
            <div class="blocker-words">
              Splitting the free memory: {bytes(map.blocker.size_bytes)} in {counted(map.blocker.blocks, 'block')} from {map.blocker.address}, up to {duration(map.blocker.age_ns)} old,
              at the end of the largest hole. Without {map.blocker.blocks === 1 ? 'it' : 'them'}, the hole would be {bytes(map.blocker.freed_if_gone_bytes)}.
              {map.blocker.places.map((place) => <div>{bytes(place.bytes)} in {counted(place.blocks, 'block')}: <Place frames={place.frames} /></div>)}
            </div>
          )}
        </>
      )}
    </section>
  );
}
