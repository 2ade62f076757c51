// A model's memory by kind: legend, bar and table. Shared by the pages of runs and of recordings.
import {Legend, StackedBar} from './charts/stacked_bar';
import {bytes, percent} from './format';

export type MemoryKind = 'weights' | 'graph' | 'tensors' | 'arena_rounding' | 'arena_unused' | 'arena_later' | 'workspace' | 'run_later' | 'run' | 'tracing' | 'module' | 'unnamed';

export interface MemoryShare {
  kind: MemoryKind;
  name?: string;  // of a module
  bytes: number;
}

const KINDS: Record<MemoryKind, {words: string; color: string}> = {
  weights: {words: 'weights, as the runtime reports', color: '--model'},
  graph: {words: 'other memory left by loading: graph, kernels, prepacked weights', color: '--runtime'},
  tensors: {words: 'tensors in the arena at its peak in the profiled runs', color: '--working'},
  arena_rounding: {words: 'rounding of tensors by the arena', color: '--frames'},
  arena_unused: {words: 'unused memory of the arena at that time', color: '--frames'},
  arena_later: {words: 'growth of the arena after the profiled runs, in use or not', color: '--stage-post'},
  workspace: {words: 'allocated in runs outside the arena', color: '--charged'},
  run_later: {words: 'allocated after the profiled runs, inside or outside the arena', color: '--stage-post'},
  run: {words: 'allocated in runs; the runtime\u2019s profile shows no arena', color: '--stage-post'},
  tracing: {words: 'the runtime\u2019s own profiler, which only tracing turns on', color: '--line-strong'},
  module: {words: 'outside the model', color: '--line-strong'},
  unnamed: {words: 'unknown', color: '--line-strong'},
};
const LEGEND: {kinds: MemoryKind[]; label: string}[] = [
  {kinds: ['weights'], label: 'weights'},
  {kinds: ['graph'], label: 'graph and kernels'},
  {kinds: ['tensors'], label: 'tensors'},
  {kinds: ['arena_rounding', 'arena_unused'], label: 'arena slack'},
  {kinds: ['workspace'], label: 'workspace'},
  {kinds: ['arena_later', 'run_later', 'run'], label: 'runs, not split'},
  {kinds: ['tracing', 'module', 'unnamed'], label: 'outside the model'},
];

interface Props {
  shares: MemoryShare[];
  whole: number;  // bytes of the whole that is divided
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
          <thead><tr><th class="text" scope="col">Kind</th><th scope="col">Bytes</th><th scope="col">Share</th></tr></thead>
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
