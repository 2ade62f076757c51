// A model's heap (--layers): memory by kind, and the largest nodes.
import {bytes, counted, duration} from '../format';
import {MemoryKinds} from '../memory_kinds';
import type {LayerMemory, NodeMemory} from '../report';

const NODES_SHOWN = 12;

export function Layers({layers, name}: {layers: LayerMemory; name: string}) {
  return (
    <div>
      <h3>Where the memory goes</h3>
      <p class="quiet">
        {bytes(layers.peak_bytes)} at the heap{'\u2019'}s peak, in a separate traced run of {counted(layers.frames, 'frame')}.
        The recording is <code>{layers.recording}</code>.
      </p>
      <MemoryKinds shares={layers.shares ?? []} whole={layers.peak_bytes} name={name} peak_node={layers.peak_node} />
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
