// What each model of ONNX Runtime holds at the peak, by kind.
import {bytes} from '../../format';
import {MemoryKinds} from '../../memory_kinds';
import type {Session} from '../data';

export function Sessions({sessions, peak_bytes}: {sessions: Session[]; peak_bytes: number}) {
  const known = sessions.filter((session) => session.at_peak.length > 0);
  if (known.length === 0) return null;
  return (
    <section id="sessions" aria-labelledby="sessions-title">
      <h2 id="sessions-title">What the models hold at the peak</h2>
      <p class="quiet">Of the {bytes(peak_bytes)} that are live then. The arena is told as it was when it had the most in use in the profiled runs.</p>
      {known.map((session) => (
        <div>
          <h3>{session.name}{session.loads !== undefined && ` (load ${session.load} of ${session.loads})`}</h3>
          <MemoryKinds name={session.name} whole={peak_bytes} peak_node={session.peak_node}
            shares={[...session.at_peak, ...(session.tracing_bytes ? [{kind: 'tracing' as const, bytes: session.tracing_bytes}] : [])]} />
        </div>
      ))}
    </section>
  );
}
