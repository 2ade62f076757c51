// A status by shape, word and colour: none of the three alone carries the meaning.
import type {Status} from '../report';
import {STATUS_WORDS} from '../words';

const SHAPES: Record<'good' | 'bad' | 'quiet', string> = {
  good: 'M2.5 6.5 5 9l4.5-6',
  bad: 'M3 3l6 6M9 3l-6 6',
  quiet: 'M2.5 6h7',
};

export function StatusBadge({status, over = false}: {status: Status; over?: boolean}) {
  const tone = status === 'skipped' ? 'quiet' : status === 'ok' && !over ? 'good' : 'bad';
  return (
    <span class={`badge ${tone}`}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><path d={SHAPES[tone]} /></svg>
      {status === 'ok' && over ? 'over limit' : STATUS_WORDS[status]}
    </span>
  );
}
