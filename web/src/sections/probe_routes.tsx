// The routes that the probe tried before the run, and the results: the evidence for "hard" or "soft".
import type {LimitWords} from '../data';
import type {Limit} from '../report';
import {MECHANISM_WORDS, refuses_memory, ROUTE_WORDS} from '../words';

export function ProbeRoutes({limit, words}: {limit: Limit; words: LimitWords | undefined}) {
  const routes = limit.routes ?? [];
  return (
    <section aria-labelledby="probe-title">
      <h2 id="probe-title">Routes that the probe tried</h2>
      <p>
        The limit is enforced by {MECHANISM_WORDS[limit.mechanism] ?? limit.mechanism}. It
        is <b>{words?.type ?? limit.type}</b>{words ? `: ${words.meaning}` : ''}.
      </p>
      {refuses_memory(limit) || routes.some((route) => route.outcome !== 'not_tried')
        ? <RoutesTable routes={routes} label="Routes that the probe tried" />
        : <p class="quiet">No route was tried: this mechanism does not refuse memory.</p>}
    </section>
  );
}

export function RoutesTable({routes, label}: {routes: NonNullable<Limit['routes']>; label: string}) {
  if (routes.length === 0) return <p class="quiet">No route was tried.</p>;
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={label}>
      <table>
        <thead><tr><th class="text" scope="col">Route</th><th class="text" scope="col">Result</th><th class="text" scope="col">Detail</th></tr></thead>
        <tbody>
          {routes.map((route) => (
            <tr>
              <th class="text" scope="row"><code>{route.name}</code></th>
              <td class={`text route ${route.outcome}`}>{ROUTE_WORDS[route.outcome] ?? route.outcome}</td>
              <td class="text">{route.detail ?? ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
