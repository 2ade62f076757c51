// The page of a plan: the verdict, one stacked bar per moment on the scale of the device, the components, the advice.
import {Legend, StackedBar} from '../charts/stacked_bar';
import {bytes, percent} from '../format';
import {SERIES_COLORS} from '../theme';
import type {Advice, Component, Moment, Origin, Part, Plan} from './data';

const VERDICTS = {healthy: 'Healthy', tight: 'Tight but viable', risky: 'Risky', does_not_fit: 'Does not fit'};
const WORDS: Record<string, string> = {healthy: 'healthy', tight: 'tight but viable', risky: 'risky', does_not_fit: 'does not fit'};
const TONES = {healthy: 'good', tight: 'fair', risky: 'bad', does_not_fit: 'bad'};
const MOST_MOMENTS = 60;

type Size = (count: number) => string;

// Uses the units of the budget: decimal (MB) or binary (MiB).
function sizes(plan: Plan): Size {
  return plan.is_decimal ? (count) => (Math.abs(count) < 1e9 ? `${+(count / 1e6).toFixed(1)} MB` : `${(count / 1e9).toFixed(1)} GB`) : bytes;
}

// The six largest components get distinct colours, smaller ones reuse them; the system is grey.
function colors(plan: Plan): Map<string, string> {
  const found = new Map<string, string>();
  const largest = plan.components.filter((component) => !component.is_system).sort((a, b) => b.memory_bytes - a.memory_bytes);
  largest.forEach((component, i) => found.set(component.name, SERIES_COLORS[i % 6]!));
  for (const component of plan.components) if (component.is_system) found.set(component.name, '--series-7');
  return found;
}

export function Page({plan}: {plan: Plan}) {
  const size = sizes(plan);
  const scale = Math.max(plan.device.total_bytes, plan.peak_bytes);
  const color_of = colors(plan);
  const moments = plan.moments.slice(0, MOST_MOMENTS);
  const worst = plan.moments[plan.worst_moment]!;
  const figures: [string, string][] = [
    ['peak', size(plan.peak_bytes)], ['total', size(plan.device.total_bytes)], ['used', percent(plan.used)],
    ['available', size(plan.available_bytes)], ['on average', size(plan.run_mean_bytes)], ['allowed by the rules', size(plan.rules.allowed_bytes)],
  ];
  if (plan.device.is_control_group && plan.machine_peak_bytes > plan.peak_bytes) figures.push(['machine, with code', size(plan.machine_peak_bytes)]);
  if (!plan.device.is_control_group && worst.parts.some((part) => part.is_shared)) figures.push(['charged to a control group', size(plan.charged_peak_bytes)]);
  const is_system = new Set(plan.components.filter((component) => component.is_system).map((component) => component.name));
  return (
    <>
      <header>
        <p class="wordmark">Headroom <span>plan</span></p>
        <h1>{plan.title ?? plan.budget}</h1>
        <p class="quiet">{plan.device.name}, {size(plan.device.total_bytes)}{plan.device.source && ` (${plan.device.source})`}</p>
        {plan.baseline && <p class="quiet">{plan.baseline}</p>}
        {plan.what_ifs && <p class="banner">What if: {plan.what_ifs.join(', ')}</p>}
        <div class={`verdict ${TONES[plan.verdict]}`}>
          <p>{VERDICTS[plan.verdict]}</p>
          <ul>{plan.reasons.map((reason) => <li>{reason}</li>)}</ul>
        </div>
      </header>
      <main>
        <section>
          <h2>At the peak</h2>
          <Bar moment={worst} scale={scale} plan={plan} color_of={color_of} size={size} is_worst />
          <Legend items={[...worst.parts.map((part) => ({label: `${part.name} ${size(part.bytes)}`, color: color_of_part(part, color_of)})),
            {label: `the rules' limit ${size(plan.rules.allowed_bytes)}`, shape: 'limit' as const}]} />
          <dl class="facts figures">{figures.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
        </section>
        <section>
          <h2>Moment by moment</h2>
          {moments.map((moment, i) => <Bar moment={moment} scale={scale} plan={plan} color_of={color_of} size={size} is_worst={i === plan.worst_moment} />)}
          {plan.moments.length > moments.length && <p class="quiet">{plan.moments.length - moments.length} more in “headroom plan --json”.</p>}
          {plan.best_peak_bytes < plan.peak_bytes && <p class="order">With the start order {plan.best_start_order.filter((name) => !is_system.has(name)).join(', ')} the peak would be {size(plan.best_peak_bytes)}.</p>}
        </section>
        <Components plan={plan} size={size} />
        {plan.fitting && <section><h2>Components that fit</h2>
          {plan.fitting.required_fit && plan.fitting.members.length === 0 ? <p class="order">No component fits the rules, not even alone.</p> : plan.fitting.required_fit
            ? <p class="order">The most valuable set that fits the rules ({size(plan.fitting.peak_bytes)}{plan.fitting.is_proven ? '' : '; the search stopped early, so a better set may exist'}): {plan.fitting.members.join(', ')}. {plan.fitting.left_out.length === 0 ? 'These are all components, in the start order with the lowest peak.' : `Left out: ${plan.fitting.left_out.join(', ')}.`}</p>
            : <p>The required components alone do not fit the rules.</p>}
        </section>}
        {plan.advice.length > 0 && <Changes advice={plan.advice} size={size} />}
      </main>
    </>
  );
}

function color_of_part(part: Part, color_of: Map<string, string>): string {
  return part.is_shared ? '--series-8' : (color_of.get(part.name) ?? '--series-7');
}

function Bar({moment, scale, plan, color_of, size, is_worst}: {moment: Moment; scale: number; plan: Plan; color_of: Map<string, string>; size: Size; is_worst: boolean}) {
  const parts = moment.parts.map((part) => ({label: `${part.name} ${size(part.bytes)}${part.is_loading ? ', load peak' : ''}`, value: part.bytes, color: color_of_part(part, color_of)}));
  return (
    <div class="moment">
      <div class={is_worst ? 'bar-head worst' : 'bar-head'}><span>{moment.words}</span><span>{size(moment.bytes)}</span></div>
      <StackedBar label={`${moment.words}: ${parts.map((part) => part.label).join(', ')}`} parts={parts} scale={scale} limit={plan.rules.allowed_bytes} />
    </div>
  );
}

// A measured source contains the word "measured" and the date.
function origin_words({kind, source}: Origin): string {
  return kind === 'estimate' ? `estimate: ${source ?? ''}` : source ?? kind;
}

function notes_of(component: Component, size: Size): string {
  const notes = [component.notes ?? ''];
  if (component.frames_bytes > 0) notes.push(`frames ${size(component.frames_bytes)}`);
  if (component.transient_bytes > 0) notes.push(`transient ${size(component.transient_bytes)}`);
  if (component.load_peak_bytes !== undefined && component.load_peak_bytes !== component.run_peak_bytes) notes.push(`load peak ${size(component.load_peak_bytes)}`);
  if (component.gpu_apart_bytes) notes.push(`GPU memory ${size(component.gpu_apart_bytes)} not counted`);
  if (component.group) notes.push(`one at a time: ${component.group}`);
  if (component.is_lazy) notes.push('on demand');
  if (component.origin.kind !== 'stated') notes.push(origin_words(component.origin));
  return notes.filter((note) => note !== '').join('; ');
}

function Components({plan, size}: {plan: Plan; size: Size}) {
  return (
    <section>
      <h2>Components</h2>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col" class="text">component</th><th scope="col">memory</th><th scope="col" class="text">notes</th></tr></thead>
          <tbody>
            {plan.components.map((component) => (
              <tr><th scope="row" class="text">{component.name}</th><td>{size(component.memory_bytes)}</td><td class="text note">{notes_of(component, size)}</td></tr>
            ))}
            {(plan.moments.find((moment) => moment.kind === 'running')?.parts ?? []).filter((part) => part.is_shared).map((part) => (
              <tr><th scope="row" class="text">Shared pages: {part.name}</th><td>{size(part.bytes)}</td><td class="text note">runtime code, counted once for all its processes</td></tr>
            ))}
            <tr class="sum"><th scope="row" class="text">Total, all running</th><td>{size(plan.running_bytes)}</td><td class="text note">{percent(plan.running_bytes / plan.device.total_bytes)} utilisation</td></tr>
          </tbody>
        </table>
      </div>
    </section>
  );
}

function Changes({advice, size}: {advice: Advice[]; size: Size}) {
  return (
    <section>
      <h2>What to change first</h2>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col" class="text">change</th><th scope="col">saved at the peak</th><th scope="col" class="text">then</th><th scope="col" class="text">source of the figure</th></tr></thead>
          <tbody>{advice.map((each) => (
            <tr>
              <th scope="row" class="text wrap">{each.words}</th><td>{size(each.saved_bytes)}</td><td class="text">{WORDS[each.verdict]}</td>
              <td class="text note">{origin_words(each.origin)}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}
