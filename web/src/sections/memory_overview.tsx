// Memory of each model by part, on one scale with the limit.
import {Legend, StackedBar} from '../charts/stacked_bar';
import {bytes, percent} from '../format';
import {memory_parts, type MemoryPart} from '../memory_parts';
import type {Limit, Model} from '../report';
import {counts_by_group, peak_of} from '../words';

export const PART_COLORS: Record<MemoryPart['kind'], string> = {
  runtime: '--runtime',
  model: '--model',
  'working set': '--working',
  frames: '--frames',
  whole: '--model',
};

export function MemoryOverview({models, limit, runtimes}: {models: Model[]; limit: Limit | undefined; runtimes: string[]}) {
  const rows = models.filter((model) => peak_of(model) !== undefined || memory_parts(model.memory ?? {}).length > 0);
  if (rows.length === 0) return null;
  const by_group = limit !== undefined && counts_by_group(limit);
  const any_charged = by_group && rows.some((model) => model.memory?.limit_peak_bytes !== undefined);
  const scale = 1.04 * Math.max(limit?.bytes ?? 0, ...rows.map((model) => Math.max(peak_of(model) ?? 0, model.memory?.limit_peak_bytes ?? 0)),
    ...rows.map((model) => memory_parts(model.memory ?? {}).reduce((sum, part) => sum + part.bytes, 0)), 1);
  const kinds = new Set(rows.flatMap((model) => memory_parts(model.memory ?? {}).map((part) => part.kind)));
  return (
    <section aria-labelledby="memory-title">
      <h2 id="memory-title">{limit ? 'Memory and its limit' : 'Memory'}</h2>
      {any_charged && (
        <p class="quiet">
          The thin bar is the memory charged to the control group; only this counts for the limit. The thick bar is resident
          memory by part. It includes pages that are charged to another group, for example pages of shared libraries.
        </p>
      )}
      <Legend items={[
        {label: 'runtime, before the model', color: '--runtime'},
        {label: 'model, once loaded', color: '--model'},
        ...(kinds.has('working set') ? [{label: 'working set, at the run peak', color: '--working'}] : []),
        ...(kinds.has('frames') ? [{label: 'decoded frames that the bench holds', color: '--frames'}] : []),
        {label: 'peak while loading', shape: 'tick' as const},
        ...(any_charged ? [{label: 'charged to the limit, at its peak', color: '--charged'}] : []),
        ...(limit ? [{label: `limit ${bytes(limit.bytes)}`, shape: 'limit' as const}] : []),
      ]} />
      <div class="bars">
        {rows.map((model) => {
          const parts = memory_parts(model.memory ?? {});
          const load_peak = model.memory?.load_peak_bytes;
          const charged = by_group ? model.memory?.limit_peak_bytes : undefined;
          const counted = model.memory?.limit_peak_bytes;
          const words = parts.map((part) => `${part.kind} ${bytes(part.bytes)}`).join(', ');
          return (
            <div class="bar-row">
              <div class="bar-name">{model.name}</div>
              <div class="bar-pair">
              <StackedBar scale={scale} limit={by_group ? undefined : limit?.bytes}
                label={`${model.name}: ${words}${load_peak === undefined ? '' : `; peak while loading ${bytes(load_peak)}`}`}
                parts={parts.map((part) => ({label: `${part.kind} ${bytes(part.bytes)}`, value: part.bytes, color: PART_COLORS[part.kind]}))}
                ticks={load_peak === undefined ? [] : [{label: `peak while loading ${bytes(load_peak)}`, value: load_peak}]} />
              {charged !== undefined && limit && (
                <StackedBar thin scale={scale} limit={limit.bytes} label={`charged to the limit ${bytes(charged)} of ${bytes(limit.bytes)}`}
                  parts={[{label: `charged to the limit ${bytes(charged)}`, value: charged, color: '--charged'}]} />
              )}
              </div>
              <div class="bar-value">
                {bytes(peak_of(model))}
                {charged !== undefined && <small>{bytes(charged)} charged</small>}
                {model.memory?.board_percent !== undefined && <small>{percent(model.memory.board_percent / 100)} of the board</small>}
                {counted !== undefined && limit && <small>{percent(counted / limit.bytes)} of limit</small>}
              </div>
            </div>
          );
        })}
      </div>
      {runtimes.map((line) => <p class="quiet">{line}.</p>)}
    </section>
  );
}
