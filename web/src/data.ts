// The run's data, from the inert script elements that src/report/html.cpp wrote into the page.
import {type Metrics, parse_metrics} from './metrics';
import type {Report} from './report';

// The answer to "does it fit?", in the same words as report.md and the terminal (src/report/verdict.cpp).
export interface Verdict {
  tone: 'good' | 'bad' | 'neutral';
  sentence: string;
  details: string[];  // a line for each thing that did not go well
}

// The words about the limit, as in report.md (src/report/limit_words.cpp). Absent without a limit.
export interface LimitWords {
  type: string;     // "hard", "soft", or "soft (with the reason)"
  meaning: string;  // what its type was proved to mean, and with what size that was tried
  notes: string;    // may be empty
}

export interface RunData {
  report: Report;
  verdict: Verdict;
  limit_words: LimitWords | undefined;
  gpu_limit_words: LimitWords | undefined;
  images: Record<string, string>;  // path in the run folder → data URI
  metrics: Metrics;
  metrics_every: number;  // 1 of this many lines of metrics.jsonl is in the page
}

// The sections that this schema version names; a newer major version may mean other things by the same keys.
const SCHEMA_VERSION = 1;

export function read_run(page: Document): RunData {
  const element = page.getElementById('report');
  if (!element) throw new Error('this page holds no run: it is the empty page that headroom fills in');
  const report = JSON.parse(element.textContent ?? '') as Report;
  if (report.schema_version > SCHEMA_VERSION)
    throw new Error(`the run has schema version ${report.schema_version}, and this page reads version ${SCHEMA_VERSION}`);
  const data_of = <Data,>(id: string, otherwise: Data): Data => {
    const text = page.getElementById(id)?.textContent;
    return text ? (JSON.parse(text) as Data) : otherwise;
  };
  const verdict = data_of<Verdict & {limit?: LimitWords; gpu_limit?: LimitWords}>('verdict', {tone: 'neutral', sentence: '', details: []});
  const metrics = page.getElementById('metrics');
  return {
    report,
    verdict,
    limit_words: verdict.limit,
    gpu_limit_words: verdict.gpu_limit,
    images: data_of<Record<string, string>>('images', {}),
    metrics: parse_metrics(metrics?.textContent ?? ''),
    metrics_every: Number(metrics?.dataset.every ?? 1),
  };
}
