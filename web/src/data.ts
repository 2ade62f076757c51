// Reads the run's data from the inert script elements that src/report/html.cpp writes into the page.
import {type Metrics, parse_metrics} from './metrics';
import type {Report} from './report';

// The answer to "does it fit?", in the same words as report.md and the terminal (src/report/verdict.cpp).
export interface Verdict {
  tone: 'good' | 'bad' | 'neutral';
  sentence: string;
  details: string[];  // one line for each failure
}

// Texts about the limit, as in report.md (src/report/limit_words.cpp). Absent without a limit.
export interface LimitWords {
  type: string;     // "hard", "soft", or "soft (with the reason)"
  meaning: string;  // what the probe proved, and at which size
  notes: string;    // may be empty
}

export interface RunData {
  report: Report;
  verdict: Verdict;
  limit_words: LimitWords | undefined;
  gpu_limit_words: LimitWords | undefined;
  images: Record<string, string>;  // path in the run folder → data URI
  metrics: Metrics;
  metrics_every: number;  // the page contains every n-th line of metrics.jsonl
}

// A newer schema version may use the same keys with other meanings, so the page rejects it.
const SCHEMA_VERSION = 1;

export function read_run(page: Document): RunData {
  const element = page.getElementById('report');
  if (!element) throw new Error('the page contains no run: it is the empty template');
  const report = JSON.parse(element.textContent ?? '') as Report;
  if (report.schema_version > SCHEMA_VERSION)
    throw new Error(`the run has schema version ${report.schema_version}, but this page supports version ${SCHEMA_VERSION}`);
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
