// Live memory at the selected moment, by call stack, layer, module, thread or size: as a flame graph and as a table.
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
interface Split {
  by: By;
  label: string;
  title: string;
  head: string;
  search: string;
}
const SPLITS: Split[] = [
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
  const split = SPLITS.find((candidate) => candidate.by === by)!;
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
          {unchanged ? 'Nothing was allocated or released in this time.' : inside ? 'The stored moment with the most live memory in the selected range.' : 'The page stores no moment in the selected range; this is the nearest.'}
          {' '}The page stores {number(live.moments.length)} moments.
        </p>
      )}
      <div class="tabs" role="group" aria-label="Split by">
        {SPLITS.map((choice) => (
          <button key={choice.by} type="button" aria-pressed={by === choice.by} onClick={() => set_by(choice.by)}>{choice.label}</button>
        ))}
        <label>Search <input type="search" value={words} placeholder={split.search} onInput={(event) => set_words(event.currentTarget.value)} /></label>
      </div>
      <FlameGraph key={by} tree={tree} words={words} title={`Live memory by ${split.title}`}
        short_name={by === 'stack' ? short_function : (name) => name} />
      {by === 'stack' || by === 'layer' ? <Places places={places} whole={moment.bytes} /> : <Rows split={split} tree={tree} whole={moment.bytes} />}
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
      <h3>Largest places</h3>
      <SortableTable label="Largest places" rows={places} most={8} key_of={(row) => row.node} sorted={{column: 'Live', direction: 'descending'}}
        columns={[
          {name: 'Live', sort: (row) => row.held, cell: (row) => bytes(row.held)},
          {name: 'Share', sort: (row) => row.held, cell: (row) => percent(row.held / Math.max(1, whole))},
          {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
        ]} />
    </>
  );
}

// Table for a split with one level: module, thread or size.
function Rows({split, tree, whole}: {split: Split; tree: Tree; whole: number}) {
  return (
    <SortableTable key={split.by} label={`Live memory by ${split.title}`} rows={tree.children[0]!} most={12} key_of={(node) => node} sorted={{column: 'Live', direction: 'descending'}}
      columns={[
        {name: 'Live', sort: (node) => tree.bytes[node], cell: (node) => bytes(tree.bytes[node]!)},
        {name: 'Share', sort: (node) => tree.bytes[node], cell: (node) => percent(tree.bytes[node]! / Math.max(1, whole))},
        {name: split.head, place: true, first: 'ascending', sort: (node) => split.by === 'module' ? tree.name[node] : node, cell: (node) => tree.name[node]},
      ]} />
  );
}
