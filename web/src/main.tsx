import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style.css';
import {read_run} from './data';
import {Page} from './page';
import {prepare_printing} from './printing';

const root = document.getElementById('page')!;
root.textContent = '';
try {
  const run = read_run(document);
  document.title = `${run.report.run_name} · Headroom`;
  render(<Page run={run} />, root);
  prepare_printing();
} catch (problem) {
  const reason = problem instanceof Error ? problem.message : String(problem);
  render(<p class="broken" role="alert">Cannot show this report: {reason}. report.json in the run folder contains the same data.</p>, root);
}
