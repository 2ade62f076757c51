// The data of a run that src/report/run/html.cpp puts into the page.
import {check_version, embedded} from './embedded';
import {type Metrics, parse_metrics} from './metrics';
import type {Report} from './report';

// The answer to "does it fit?", in the same words as report.md and the terminal (src/report/run/run_words.cpp).
export interface Verdict {
  tone: 'good' | 'bad' | 'neutral';
  sentence: string;
  details: string[];  // one line for each failure
  runtimes?: string[];  // the own memory of each runtime
}

// Texts about the limit, as in report.md (src/report/run/run_words.cpp). Absent without a limit.
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

export function read_run(page: Document): RunData {
  const report = embedded<Report>(page, 'report');
  check_version('run', report.schema_version, 1);
  const verdict = embedded<Verdict & {limit?: LimitWords; gpu_limit?: LimitWords}>(page, 'verdict', {tone: 'neutral', sentence: '', details: []});
  const metrics = page.getElementById('metrics');
  return {
    report,
    verdict,
    limit_words: verdict.limit,
    gpu_limit_words: verdict.gpu_limit,
    images: embedded<Record<string, string>>(page, 'images', {}),
    metrics: parse_metrics(metrics?.textContent ?? ''),
    metrics_every: Number(metrics?.dataset.every ?? 1),
  };
}
