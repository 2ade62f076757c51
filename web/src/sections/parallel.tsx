// --parallel: each model alone and together with the others, and whether all fit at the same time.
import {Legend, StackedBar} from '../charts/stacked_bar';
import {ABSENT, bytes, duration, number, percent} from '../format';
import type {Limit, Model, Parallel} from '../report';
import {peak_of} from '../words';
import {ModelBadge} from './status_badge';

const JOINT_PEAK_WORDS: Record<string, string> = {
  cgroup_v1: 'the kernel\u2019s figure for the common control group (v1)',
  cgroup_v2: 'the kernel\u2019s figure for the common control group (v2)',
  pss_samples: 'the largest sample, a lower bound; shared pages counted once (PSS)',
};

export function ParallelSection({parallel, alone, limit}: {parallel: Parallel; alone: Model[]; limit: Limit | undefined}) {
  const totals = [
    {name: 'sum of individual peaks', value: parallel.sum_of_peaks_bytes, color: '--runtime'},
    {name: 'joint peak, all at once', value: parallel.joint_peak_bytes, color: '--model'},
  ].filter((total) => total.value !== undefined);
  const scale = 1.04 * Math.max(limit?.bytes ?? 0, 1, ...totals.map((total) => total.value!));
  return (
    <section aria-labelledby="parallel-title">
      <h2 id="parallel-title">All models at once</h2>
      {totals.length > 0 && (
        <>
          <div class="bars">
            {totals.map((total) => (
              <div class="bar-row">
                <div class="bar-name">{total.name}</div>
                <StackedBar scale={scale} limit={limit?.bytes} label={`${total.name}: ${bytes(total.value)}`}
                  parts={[{label: bytes(total.value), value: total.value!, color: total.color}]} />
                <div class="bar-value">{bytes(total.value)}</div>
              </div>
            ))}
          </div>
          {limit && <Legend items={[{label: `limit ${bytes(limit.bytes)}`, shape: 'limit'}]} />}
          {parallel.joint_peak_source && <p class="quiet">Joint peak: {JOINT_PEAK_WORDS[parallel.joint_peak_source] ?? parallel.joint_peak_source}.{parallel.together.some((model) => model.status !== 'ok') && ' Not all models ran to the end: all together would have used more.'}</p>}
        </>
      )}
      <div class="scroll" role="region" tabIndex={0} aria-label="Alone and together">
        <table>
          <thead>
            <tr>
              <th class="text" scope="col">Model</th><th class="text" scope="col">Together</th><th scope="col">FPS alone</th><th scope="col">FPS together</th>
              <th scope="col">FPS ratio</th><th scope="col">P50 alone</th><th scope="col">P50 together</th><th scope="col">Resident peak alone</th><th scope="col">Resident peak together</th>
            </tr>
          </thead>
          <tbody>
            {parallel.together.map((together) => {
              const single = alone.find((model) => model.name === together.name);
              const kept = single?.fps && together.fps !== undefined ? percent(together.fps / single.fps) : ABSENT;
              return (
                <tr>
                  <th class="text" scope="row">{together.name}</th>
                  <td class="text"><ModelBadge model={together} />{together.error && <small class="cell-note">{together.error}</small>}</td>
                  <td>{number(single?.fps)}</td><td>{number(together.fps)}</td><td>{kept}</td>
                  <td>{duration(single?.latency_ns?.p50)}</td><td>{duration(together.latency_ns?.p50)}</td>
                  <td>{bytes(single && peak_of(single))}</td><td>{bytes(peak_of(together))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}
