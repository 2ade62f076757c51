// Who held the memory at the chosen moment: by call stack, layer, module, thread or size, as an icicle and as a table.
import {useMemo, useState} from 'preact/hooks';
import {bytes, duration, number, percent} from '../../format';
import {type LiveMoment, type LiveMoments, NO_LAYER, type ShareBy} from '../data';
import {FlameGraph} from '../flame_graph';
import type {Range} from '../memory_chart';
import {Place} from '../place';
import {short_function} from '../places';
import {SortableTable} from '../sortable_table';
import {layer_tree, path_to, share_tree, stack_tree} from '../tree';

interface Props {
  live: LiveMoments;
  moment: LiveMoment;
  range: Range | null;
  peak_ns: number;
  estimated: boolean;
}

const MOST_PLACES = 50;

type By = 'stack' | 'layer' | ShareBy;
const WAYS: {by: By; label: string; title: string; search: string}[] = [
  {by: 'stack', label: 'By call stack', title: 'call stack', search: 'function'},
  {by: 'layer', label: 'By layer', title: 'layer', search: 'layer'},
  {by: 'module', label: 'By module', title: 'module', search: 'module'},
  {by: 'thread', label: 'By thread', title: 'thread that allocated', search: 'thread'},
  {by: 'size', label: 'By size', title: 'size of the allocation', search: 'size'},
];

export function LiveAt({live, moment, range, peak_ns, estimated}: Props) {
  const [by, set_by] = useState<By>('stack');
  const [words, set_words] = useState('');
  const stacks = useMemo(() => stack_tree(live, moment), [live, moment]);
  const layers = useMemo(() => layer_tree(live, moment, NO_LAYER), [live, moment]);
  const way = WAYS.find((candidate) => candidate.by === by)!;
  const tree = useMemo(() => by === 'stack' ? stacks : by === 'layer' ? layers : share_tree(live.shares[by], live.moments.indexOf(moment)),
    [by, stacks, layers, live, moment]);
  const places = useMemo(() => moment.stack
    .map((node, i) => ({node, held: moment.stack_bytes[i]!}))
    .sort((a, b) => b.held - a.held).slice(0, MOST_PLACES)
    .map(({node, held}) => ({node, held, frames: path_to(stacks, node).slice(1).reverse().map((at) => stacks.name[at]!)})), [moment, stacks]);
  const inside = range === null || (moment.time_ns >= range.from_ns && moment.time_ns <= range.to_ns);
  return (
    <section id="moment" aria-labelledby="live-title">
      <h2 id="live-title">
        Live at {duration(moment.time_ns)}{moment.time_ns === peak_ns && ', the peak'}: {estimated && '≈ '}{bytes(moment.bytes)} in {number(moment.blocks)} blocks
      </h2>
      {range !== null && (
        <p class="quiet">
          {inside ? 'The fullest moment of the brushed range that the page holds.' : 'The page holds no moment inside of the brushed range; this is the nearest.'}
          {' '}It holds {number(live.moments.length)} moments.
        </p>
      )}
      <div class="tabs" role="group" aria-label="How to split it">
        {WAYS.map((choice) => (
          <button key={choice.by} type="button" aria-pressed={by === choice.by} onClick={() => set_by(choice.by)}>{choice.label}</button>
        ))}
        <label>Search <input type="search" value={words} placeholder={way.search} onInput={(event) => set_words(event.currentTarget.value)} /></label>
      </div>
      <FlameGraph key={by} tree={tree} words={words} title={`What was live, by ${way.title}`}
        short_name={by === 'stack' ? short_function : (name) => name} />
      <h3>Places that held most</h3>
      <SortableTable label="Places that held most" rows={places} most={8} key_of={(row) => row.node} sorted={{column: 'Live', direction: 'descending'}}
        columns={[
          {name: 'Live', sort: (row) => row.held, cell: (row) => bytes(row.held)},
          {name: 'Share', sort: (row) => row.held, cell: (row) => percent(row.held / Math.max(1, moment.bytes))},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
        ]} />
    </section>
  );
}
