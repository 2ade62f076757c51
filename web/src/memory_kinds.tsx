// What a model's memory consists of, by kind: legend, bar and table, the same on the pages of runs and of recordings.
import {Legend, StackedBar} from './charts/stacked_bar';
import {bytes, percent} from './format';

export type MemoryKind = 'weights' | 'graph' | 'tensors' | 'arena_rounding' | 'arena_unused' | 'arena_later' | 'workspace' | 'run_later' | 'run' | 'tracing' | 'module' | 'unnamed';

export interface MemoryShare {
  kind: MemoryKind;
  name?: string;  // of a module
  bytes: number;
}

const KINDS: Record<MemoryKind, {words: string; color: string}> = {
  weights: {words: 'weights, by the runtime\u2019s word', color: '--model'},
  graph: {words: 'left by loading besides: graph, kernels, prepacked weights', color: '--runtime'},
  tensors: {words: 'tensors in the arena, at its fullest in the profiled runs', color: '--working'},
  arena_rounding: {words: 'rounding of tensors by the arena', color: '--frames'},
  arena_unused: {words: 'held by the arena and unused then', color: '--frames'},
  arena_later: {words: 'taken by the arena after the profiled runs, in use or not', color: '--stage-post'},
  workspace: {words: 'allocated in runs beside the arena', color: '--charged'},
  run_later: {words: 'allocated in runs after the profiled ones, by the arena or beside it', color: '--stage-post'},
  run: {words: 'allocated in runs; the runtime\u2019s profile tells of no arena', color: '--stage-post'},
  tracing: {words: 'the runtime\u2019s profile of itself, which only tracing switches on', color: '--line-strong'},
  module: {words: 'outside of the model', color: '--line-strong'},
  unnamed: {words: 'not known', color: '--line-strong'},
};
const LEGEND: {kinds: MemoryKind[]; label: string}[] = [
  {kinds: ['weights'], label: 'weights'},
  {kinds: ['graph'], label: 'graph and kernels'},
  {kinds: ['tensors'], label: 'tensors'},
  {kinds: ['arena_rounding', 'arena_unused'], label: 'arena slack'},
  {kinds: ['workspace'], label: 'workspace'},
  {kinds: ['arena_later', 'run_later', 'run'], label: 'runs, not told apart'},
  {kinds: ['tracing', 'module', 'unnamed'], label: 'outside of the model'},
];

interface Props {
  shares: MemoryShare[];
  whole: number;  // bytes that a share is a part of
  name: string;
  peak_node?: string | undefined;
}

export function MemoryKinds({shares, whole, name, peak_node}: Props) {
  const words = (share: MemoryShare) =>
    share.kind === 'module' ? `${share.name}, ${KINDS.module.words}`
    : share.kind === 'tensors' && peak_node ? `${KINDS.tensors.words}, after ${peak_node}` : KINDS[share.kind].words;
  const shown = LEGEND.filter((entry) => shares.some((share) => entry.kinds.includes(share.kind)));
  const ordered = LEGEND.flatMap((entry) => shares.filter((share) => entry.kinds.includes(share.kind)));
  return (
    <>
      <Legend items={shown.map((entry) => ({label: entry.label, color: KINDS[entry.kinds[0]!].color}))} />
      <StackedBar scale={whole} label={`${name}: ${shares.map((share) => `${words(share)} ${bytes(share.bytes)}`).join(', ')}`}
        parts={ordered.map((share) => ({label: `${words(share)}: ${bytes(share.bytes)}`, value: share.bytes, color: KINDS[share.kind].color}))} />
      <div class="scroll" role="region" tabIndex={0} aria-label={`Memory by kind, ${name}`}>
        <table>
          <thead><tr><th class="text" scope="col">What</th><th scope="col">Bytes</th><th scope="col">Share</th></tr></thead>
          <tbody>
            {shares.map((share) => (
              <tr><th class="text wrap" scope="row">{words(share)}</th><td>{bytes(share.bytes)}</td><td>{percent(share.bytes / whole)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
