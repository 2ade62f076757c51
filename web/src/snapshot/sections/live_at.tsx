// Live memory at a moment, by call stack: as a flame graph and as a table.
import {useMemo, useState} from 'preact/hooks';
import {bytes, number, percent} from '../../format';
import {FlameGraph} from '../../recording/flame_graph';
import {SortableTable} from '../../recording/sortable_table';
import {stack_tree} from '../../recording/tree';
import type {Calls, Device} from '../data';
import {place_words} from '../frames';
import {Place} from '../place';
import {moment_words} from '../time_axis';

interface Props {
  device: Device;
  calls: Calls;
  chosen: number;  // index of the moment
  choose: (moment: number) => void;
}

export function LiveAt({device, calls, chosen, choose}: Props) {
  const [words, set_words] = useState('');
  const {moments, peak} = device.fragmentation;
  const last = moments.length - 1;
  const moment = moments[chosen]!;
  const live = device.live[chosen];
  const tree = useMemo(() => live && stack_tree(calls, live), [calls, live]);
  if (!live || !tree || device.peak_allocated_bytes === 0) return null;
  const when = chosen === last ? 'at the end' : moment_words(device, moment);
  return (
    <section id="live" aria-labelledby="live-title">
      <h2 id="live-title">
        Live {when}{device.entries > 0 && chosen === peak && ', the peak'}: {device.doubt !== undefined && chosen !== last && '≈ '}{bytes(live.bytes)} in {number(live.blocks)} blocks
      </h2>
      <div class="tabs" role="group" aria-label="Moment">
        {device.entries > 0 && (
          <>
            <button type="button" aria-pressed={chosen === peak} onClick={() => choose(peak)}>At the peak</button>
            <button type="button" aria-pressed={chosen === last} onClick={() => choose(last)}>At the end</button>
            <span class="moments-slider">
              <input type="range" min={0} max={last} step={1} value={chosen} aria-label="Moment" aria-valuetext={moment_words(device, moment)}
                onInput={(event) => choose(Number(event.currentTarget.value))} />
            </span>
          </>
        )}
        <label>Search <input type="search" value={words} placeholder="function or file" onInput={(event) => set_words(event.currentTarget.value)} /></label>
      </div>
      {live.bytes > 0 && <FlameGraph tree={tree} words={words} title="Live memory by call stack" short_name={(name) => name} />}
      <Held device={device} calls={calls} chosen={chosen} />
      {device.entries > 0 && <Places device={device} calls={calls} />}
    </section>
  );
}

const MOST_HELD = 50;

function Held({device, calls, chosen}: {device: Device; calls: Calls; chosen: number}) {
  const live = device.live[chosen]!;
  // The largest first.
  const rows = useMemo(() => live.stack.slice(0, MOST_HELD).map((place, i) => ({place, held: live.stack_bytes[i]!, row: i})), [live]);
  return (
    <>
      <h3>Largest places</h3>
      <SortableTable label="Largest places" rows={rows} most={8} key_of={(row) => row.row} sorted={{column: 'Live', direction: 'descending'}}
        columns={[
          {name: 'Live', sort: (row) => row.held, cell: (row) => bytes(row.held)},
          {name: 'Share', sort: (row) => row.held, cell: (row) => percent(row.held / Math.max(1, live.bytes))},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => place_words(calls, row), cell: (row) => <Place calls={calls} at={row} />},
        ]} />
    </>
  );
}

function Places({device, calls}: {device: Device; calls: Calls}) {
  const rows = device.stacks;
  return (
    <details>
      <summary>All figures by place</summary>
      <SortableTable label="Figures by place" rows={rows} most={15} key_of={(row) => rows.indexOf(row)} sorted={{column: 'At the peak', direction: 'descending'}}
        columns={[
          {name: 'At the peak', help: 'At the peak of allocated memory', sort: (row) => row.at_peak_bytes, cell: (row) => bytes(row.at_peak_bytes)},
          {name: 'At end', sort: (row) => row.live_bytes, cell: (row) => bytes(row.live_bytes)},
          {name: 'Blocks', help: 'Live at the end', sort: (row) => row.live_blocks, cell: (row) => number(row.live_blocks)},
          {name: 'Allocations', help: 'In the trace', sort: (row) => row.allocations, cell: (row) => number(row.allocations)},
          {name: 'Allocated', help: 'Total in the trace', sort: (row) => row.allocated_bytes, cell: (row) => bytes(row.allocated_bytes)},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => place_words(calls, row), cell: (row) => <Place calls={calls} at={row} />},
        ]} />
    </details>
  );
}
