// Memory of each ONNX Runtime model at the peak, by kind, and the tensors of its nodes.
import {bytes, duration} from '../../format';
import {MemoryKinds} from '../../memory_kinds';
import {has_arena, type Session, type SessionNode, tensors_of} from '../data';
import {SortableTable} from '../sortable_table';

export function Sessions({sessions, peak_bytes}: {sessions: Session[]; peak_bytes: number}) {
  const known = sessions.filter((session) => session.at_peak.length > 0);
  if (known.length === 0) return null;
  return (
    <section id="sessions" aria-labelledby="sessions-title">
      <h2 id="sessions-title">Models at the peak</h2>
      <p class="quiet">Shares of the {bytes(peak_bytes)} that are live at the peak. The arena is shown at its own peak in the profiled runs.</p>
      {known.map((session) => (
        <div>
          <h3>{name_of(session)}</h3>
          <MemoryKinds name={session.name} whole={peak_bytes} peak_node={session.peak_node}
            shares={[...session.at_peak, ...(session.tracing_bytes ? [{kind: 'tracing' as const, bytes: session.tracing_bytes}] : [])]} />
          <Nodes session={session} />
        </div>
      ))}
    </section>
  );
}

function name_of(session: Session): string {
  return session.loads === undefined ? session.name : `${session.name} (load ${session.load} of ${session.loads})`;
}

// An arena grows by at least a page; a smaller growth is not the arena's.
function growth_of(node: SessionNode): number | undefined {
  return (node.layer_at_peak_bytes ?? 0) >= 4096 ? node.layer_at_peak_bytes : undefined;
}

function Nodes({session}: {session: Session}) {
  const nodes = (session.nodes ?? []).map((node, number) => ({...node, number})).filter((node) => tensors_of(node) > 0);
  if (nodes.length === 0) return null;
  const with_arena = has_arena([session]);
  return (
    <>
      <h3>Tensors of the nodes of {name_of(session)}, in one run</h3>
      <p class="quiet">
        From the runtime’s own profile. {with_arena && 'Later nodes reuse the memory by which the arena grew during a node, so a smaller tensor does not always reduce the arena. '}
        {session.peak_node && <>The arena’s peak was after <b>{session.peak_node}</b>.</>}
      </p>
      <SortableTable label={`Tensors of the nodes of ${name_of(session)}`} rows={nodes} most={10} key_of={(node) => node.number} sorted={{column: 'Tensors', direction: 'descending'}}
        columns={[
          {name: 'Node', text: true, first: 'ascending', sort: (node) => node.number, cell: (node) => node.name},
          {name: 'Operation', text: true, first: 'ascending', sort: (node) => node.operation ?? '', cell: (node) => node.operation},
          {name: 'Tensors', help: 'Inputs and outputs of one run', sort: tensors_of, cell: (node) => bytes(tensors_of(node))},
          {name: 'Inputs', sort: (node) => node.activation_bytes, cell: (node) => bytes(node.activation_bytes)},
          {name: 'Outputs', sort: (node) => node.output_bytes, cell: (node) => bytes(node.output_bytes)},
          {name: 'Parameters', help: 'The node’s own weights', sort: (node) => node.parameter_bytes, cell: (node) => bytes(node.parameter_bytes)},
          {name: with_arena ? 'Arena grew' : 'Its layer', help: with_arena ? 'Growth of the arena while the node ran, live at the peak' : 'Live memory of its layer at the peak',
           sort: growth_of, cell: (node) => bytes(growth_of(node))},
          {name: 'Time', help: 'Of one run', sort: (node) => (node.runs > 0 ? node.duration_ns / node.runs : undefined), cell: (node) => (node.runs > 0 ? duration(node.duration_ns / node.runs) : '–')},
        ]} />
    </>
  );
}
