// Results of video object segmentation (--task vos): accuracy, leaks, and memory by clip.
import type {ComponentChildren} from 'preact';
import {bytes, counted, number, percent} from '../format';
import type {Model, Source, VosGrowth, VosResult} from '../report';

const share = (value: number | undefined) => value === undefined ? '–' : percent(value);
const mebibytes = (count: number) => `${count > 0 ? '+' : ''}${(count / 2 ** 20).toFixed(3)}`;

function growth_words(growth: VosGrowth | undefined, step: string): string {
  if (!growth) return '–';
  return `${mebibytes(growth.bytes)} MiB per ${step} (${mebibytes(growth.low_bytes)} to ${mebibytes(growth.high_bytes)})`;
}

function Table({label, text, heads, children}: {label: string; text: number; heads: string[]; children: ComponentChildren}) {
  return (
    <div class="scroll" role="region" tabIndex={0} aria-label={label}>
      <table>
        <thead><tr>{heads.map((head, i) => <th class={i < text ? 'text' : ''} scope="col">{head}</th>)}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

// "points", "prompts file", or "points for 6 objects, prompts file for 3".
function prompt_words(vos: VosResult, source: Source | undefined): string {
  const by_mask = source?.prompted_by_mask ?? 0, by_file = source?.prompted_by_file ?? 0;
  if (by_file === 0) return vos.prompt;
  return by_mask === 0 ? 'prompts file' : `${vos.prompt} for ${counted(by_mask, 'object')}, prompts file for ${by_file}`;
}

export function Vos({model, source}: {model: Model; source: Source | undefined}) {
  const vos = model.vos;
  if (!vos || vos.clips.length === 0) return null;
  return (
    <>
      <div>
        <h3>Objects tracked through {counted(vos.clips.length, 'clip')}</h3>
        <p class="quiet">
          Prompt: {prompt_words(vos, source)}; profile: {vos.profile}; objects {vos.objects}. Memory
          bank: {bytes(vos.bank_bytes)}. Growth of host memory: {growth_words(vos.growth_per_frame, 'frame')}.
          {vos.gpu_growth_per_frame && ` Growth of GPU memory: ${growth_words(vos.gpu_growth_per_frame, 'frame')}.`}
        </p>
        {(vos.label || vos.leaks.length + (vos.left_out ?? []).length > 0) && (
          <ul class="warnings" aria-label="Label, leaks, and videos left out">
            {vos.label && <li>{vos.label}. Such files run for time and memory only: J and F of their masks would not be the model's</li>}
            {vos.leaks.map((leak) => (
              <li>{leak.memory === 'gpu' ? 'GPU memory' : 'Host memory'} leaks: {growth_words(leak.growth, leak.level === 'model' ? 'load of the model' : leak.level)}</li>
            ))}
            {(vos.left_out ?? []).map((item) => <li>{item.video} was left out: {item.why}</li>)}
          </ul>
        )}
      </div>
      <Scores vos={vos} name={model.name} />
      <Clips vos={vos} name={model.name} />
      <Objects vos={vos} name={model.name} />
    </>
  );
}

function Scores({vos, name}: {vos: VosResult; name: string}) {
  if (vos.scores.length === 0) return null;
  const figures = (score: {j_and_f?: number; j_mean?: number; f_mean?: number; reference_j_and_f?: number}) =>
    [score.j_and_f, score.j_mean, score.f_mean, score.reference_j_and_f].map((value) => <td>{share(value)}</td>);
  return (
    <div>
      <h3>Accuracy of the masks</h3>
      <Table label={`Accuracy of the masks, ${name}`} text={2} heads={['Video', 'Object', 'J&F', 'J', 'F', 'Reference J&F']}>
        <tr><td class="text"><b>Mean</b></td><td class="text" />{figures(vos.mean ?? {})}</tr>
        {vos.scores.map((score) => (
          <tr><td class="text">{score.video}</td><td class="text">{score.object}</td>{figures(score)}</tr>
        ))}
      </Table>
    </div>
  );
}

function Clips({vos, name}: {vos: VosResult; name: string}) {
  const on_gpu = vos.clips.some((clip) => clip.gpu_peak_bytes !== undefined);
  return (
    <div>
      <h3>Memory by clip</h3>
      <Table label={`Memory by clip, ${name}`} text={2}
        heads={['Video', 'Object', 'Size', 'Objects', 'Frames', 'FPS', 'Peak', 'After cleanup', 'Growth', ...on_gpu ? ['GPU peak', 'GPU after'] : []]}>
        {vos.clips.map((clip) => (
          <tr>
            <td class="text">{clip.video}</td><td class="text">{clip.object ?? 'all'}</td>
            <td>{clip.width} × {clip.height}</td><td>{clip.objects}</td><td>{clip.frames}</td><td>{number(clip.fps)}</td>
            <td>{bytes(clip.peak_bytes)}</td><td>{bytes(clip.after_bytes)}</td><td>{growth_words(clip.growth_per_frame, 'frame')}</td>
            {on_gpu && <td>{bytes(clip.gpu_peak_bytes)}</td>}{on_gpu && <td>{bytes(clip.gpu_after_bytes)}</td>}
          </tr>
        ))}
      </Table>
    </div>
  );
}

function Objects({vos, name}: {vos: VosResult; name: string}) {
  const ends = vos.object_ends ?? [];
  if (ends.length === 0) return null;
  const on_gpu = ends.some((end) => end.gpu_after_bytes !== undefined);
  return (
    <div>
      <h3>Memory after each object</h3>
      <p class="quiet">Each object ran alone for two frames after its clip, and was cleaned up.</p>
      <Table label={`Memory after each object, ${name}`} text={2} heads={['Video', 'Object', 'After cleanup', ...on_gpu ? ['GPU after'] : []]}>
        {ends.map((end) => (
          <tr>
            <td class="text">{end.video}</td><td class="text">{end.object}</td><td>{bytes(end.after_bytes)}</td>
            {on_gpu && <td>{bytes(end.gpu_after_bytes)}</td>}
          </tr>
        ))}
      </Table>
    </div>
  );
}
