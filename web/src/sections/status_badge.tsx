// Shows a status by shape, word and colour, so that the meaning does not depend on colour alone.
import type {Model, Pipeline, Status} from '../report';
import {is_cut_short, outcome_of, outcome_words, STATUS_WORDS} from '../words';

const SHAPES: Record<'good' | 'bad' | 'quiet', string> = {
  good: 'M2.5 6.5 5 9l4.5-6',
  bad: 'M3 3l6 6M9 3l-6 6',
  quiet: 'M2.5 6h7',
};

type Tone = keyof typeof SHAPES;

export function PipelineBadge({pipeline}: {pipeline: Pick<Pipeline, 'status' | 'error'>}) {
  if (is_cut_short(pipeline)) return <Badge tone="quiet" words="cut short" />;
  return <StatusBadge status={pipeline.status} />;
}

export function StatusBadge({status}: {status: Status}) {
  return <Badge tone={status === 'skipped' ? 'quiet' : status === 'ok' ? 'good' : 'bad'} words={STATUS_WORDS[status]} />;
}

export function ModelBadge({model}: {model: Model}) {
  const outcome = outcome_of(model);
  const tone = outcome === 'ok' ? 'good' : outcome === 'over' || outcome === 'fallen' ? 'bad' : 'quiet';
  return <Badge tone={tone} words={outcome_words(model)} />;
}

function Badge({tone, words}: {tone: Tone; words: string}) {
  return (
    <span class={`badge ${tone}`}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true"><path d={SHAPES[tone]} /></svg>
      {words}
    </span>
  );
}
