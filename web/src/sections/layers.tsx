// What a model's heap consists of (--layers): by kind, and the nodes that are largest.
import {Legend, StackedBar} from '../charts/stacked_bar';
import {bytes, counted, duration, percent} from '../format';
import type {LayerMemory, MemoryShare, NodeMemory} from '../report';

const KINDS: Record<MemoryShare['kind'], {words: string; color: string}> = {
  weights: {words: 'weights, by the runtime\u2019s word', color: '--model'},
  graph: {words: 'left by loading besides: graph, kernels, prepacked weights', color: '--runtime'},
  tensors: {words: 'tensors in the arena, at its fullest', color: '--working'},
  arena_rounding: {words: 'rounding of tensors by the arena', color: '--frames'},
  arena_unused: {words: 'held by the arena and unused then', color: '--frames'},
  workspace: {words: 'allocated in runs beside the arena', color: '--charged'},
  tracing: {words: 'the runtime\u2019s profile of itself, which only tracing switches on', color: '--line-strong'},
  module: {words: 'outside of the model', color: '--line-strong'},
  unnamed: {words: 'not known', color: '--line-strong'},
};
const LEGEND: {kinds: MemoryShare['kind'][]; label: string}[] = [
  {kinds: ['weights'], label: 'weights'},
  {kinds: ['graph'], label: 'graph and kernels'},
  {kinds: ['tensors'], label: 'tensors'},
  {kinds: ['arena_rounding', 'arena_unused'], label: 'arena slack'},
  {kinds: ['workspace'], label: 'workspace'},
  {kinds: ['tracing', 'module', 'unnamed'], label: 'outside of the model'},
];
const NODES_SHOWN = 12;

export function Layers({layers, name}: {layers: LayerMemory; name: string}) {
  const shares = layers.shares ?? [];
  const words = (share: MemoryShare) =>
    share.kind === 'module' ? `${share.name}, outside of the model`
    : share.kind === 'tensors' && layers.peak_node ? `${KINDS.tensors.words} after ${layers.peak_node}` : KINDS[share.kind].words;
  const shown = LEGEND.filter((entry) => shares.some((share) => entry.kinds.includes(share.kind)));
  const ordered = LEGEND.flatMap((entry) => shares.filter((share) => entry.kinds.includes(share.kind)));
  return (
    <div>
      <h3>Where the memory goes</h3>
      <p class="quiet">
        {bytes(layers.peak_bytes)} at the heap{'\u2019'}s peak, in a traced run of {counted(layers.frames, 'frame')} apart from the measured one.
        The recording is <code>{layers.recording}</code>.
      </p>
      <Legend items={shown.map((entry) => ({label: entry.label, color: KINDS[entry.kinds[0]!].color}))} />
      <StackedBar scale={layers.peak_bytes} label={`${name}: ${shares.map((share) => `${words(share)} ${bytes(share.bytes)}`).join(', ')}`}
        parts={ordered.map((share) => ({label: `${words(share)}: ${bytes(share.bytes)}`, value: share.bytes, color: KINDS[share.kind].color}))} />
      <div class="scroll" role="region" tabIndex={0} aria-label={`Memory by kind, ${name}`}>
        <table>
          <thead><tr><th class="text" scope="col">What</th><th scope="col">Bytes</th><th scope="col">Share</th></tr></thead>
          <tbody>
            {shares.map((share) => (
              <tr><th class="text wrap" scope="row">{words(share)}</th><td>{bytes(share.bytes)}</td><td>{percent(share.bytes / layers.peak_bytes)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
      <Nodes nodes={layers.nodes ?? []} name={name} />
    </div>
  );
}

function Nodes({nodes, name}: {nodes: NodeMemory[]; name: string}) {
  const own = (node: NodeMemory) => (node.output_bytes ?? 0) + (node.parameter_bytes ?? 0);
  const leading = [...nodes].sort((a, b) => own(b) - own(a)).filter((node) => own(node) > 0).slice(0, NODES_SHOWN);
  if (leading.length === 0) return null;
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={`Largest nodes, ${name}`}>
      <table>
        <thead>
          <tr>
            <th class="text" scope="col">Largest of {nodes.length} nodes</th><th class="text" scope="col">Operation</th>
            <th scope="col">Output</th><th scope="col">Parameters</th><th scope="col">Arena in use</th><th scope="col">Time</th>
          </tr>
        </thead>
        <tbody>
          {leading.map((node) => (
            <tr>
              <th class="text wrap" scope="row">{node.name}</th><td class="text">{node.operation}</td><td>{bytes(node.output_bytes)}</td>
              <td>{bytes(node.parameter_bytes)}</td><td>{bytes(node.arena_in_use_bytes)}</td>
              <td>{node.runs > 0 ? duration(node.duration_ns / node.runs) : '\u2013'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
