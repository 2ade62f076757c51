// Who held the memory at the chosen moment: by call stack, layer, module, thread or size, as an icicle and as a table.
import {useMemo, useState} from 'preact/hooks';
import {bytes, duration, number, percent} from '../../format';
import {type LiveMoment, type LiveMoments, NO_LAYER, type ShareBy} from '../data';
import {FlameGraph} from '../flame_graph';
import type {Range} from '../memory_chart';
import {Place} from '../place';
import {short_function} from '../places';
import {SortableTable} from '../sortable_table';
import {end_of, layer_tree, path_to, share_tree, stack_tree, type Tree} from '../tree';

interface Props {
  live: LiveMoments;
  moment: LiveMoment;
  range: Range | null;
  peak_ns: number;
  estimated: boolean;
}

const MOST_PLACES = 50;

type By = 'stack' | 'layer' | ShareBy;
interface Way {
  by: By;
  label: string;
  title: string;
  head: string;
  search: string;
}
const WAYS: Way[] = [
  {by: 'stack', label: 'By call stack', title: 'call stack', head: 'Place', search: 'function'},
  {by: 'layer', label: 'By layer', title: 'layer', head: 'Layer', search: 'layer'},
  {by: 'module', label: 'By module', title: 'module', head: 'Module', search: 'module'},
  {by: 'thread', label: 'By thread', title: 'thread that allocated', head: 'Thread that allocated', search: 'thread'},
  {by: 'size', label: 'By size', title: 'size of the allocation', head: 'Size of the allocation', search: 'size'},
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
  const inside = range === null || (end_of(moment) >= range.from_ns && moment.time_ns <= range.to_ns);
  const unchanged = range !== null && moment.time_ns <= range.from_ns && end_of(moment) >= range.to_ns;
  const when = moment.until_ns === undefined ? `at ${duration(moment.time_ns)}` : `from ${duration(moment.time_ns)} to ${duration(moment.until_ns)}`;
  return (
    <section id="moment" aria-labelledby="live-title">
      <h2 id="live-title">
        Live {when}{moment.time_ns === peak_ns && ', the peak'}: {estimated && '≈ '}{bytes(moment.bytes)} in {number(moment.blocks)} blocks
      </h2>
      {range !== null && (
        <p class="quiet">
          {unchanged ? 'Nothing was allocated or released in this time.' : inside ? 'The fullest moment of the brushed range that the page holds.' : 'The page holds no moment inside of the brushed range; this is the nearest.'}
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
      {by === 'stack' || by === 'layer' ? <Places places={places} whole={moment.bytes} /> : <Rows way={way} tree={tree} whole={moment.bytes} />}
    </section>
  );
}

interface HeldAt {
  node: number;
  held: number;
  frames: string[];  // innermost first
}

function Places({places, whole}: {places: HeldAt[]; whole: number}) {
  return (
    <>
      <h3>Places that held most</h3>
      <SortableTable label="Places that held most" rows={places} most={8} key_of={(row) => row.node} sorted={{column: 'Live', direction: 'descending'}}
        columns={[
          {name: 'Live', sort: (row) => row.held, cell: (row) => bytes(row.held)},
          {name: 'Share', sort: (row) => row.held, cell: (row) => percent(row.held / Math.max(1, whole))},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
        ]} />
    </>
  );
}

// Of a share, which is one level of the tree.
function Rows({way, tree, whole}: {way: Way; tree: Tree; whole: number}) {
  return (
    <SortableTable key={way.by} label={`What was live, by ${way.title}`} rows={tree.children[0]!} most={12} key_of={(node) => node} sorted={{column: 'Live', direction: 'descending'}}
      columns={[
        {name: 'Live', sort: (node) => tree.bytes[node], cell: (node) => bytes(tree.bytes[node]!)},
        {name: 'Share', sort: (node) => tree.bytes[node], cell: (node) => percent(tree.bytes[node]! / Math.max(1, whole))},
        {name: way.head, place: true, first: 'ascending', sort: (node) => way.by === 'module' ? tree.name[node] : node, cell: (node) => tree.name[node]},
      ]} />
  );
}
