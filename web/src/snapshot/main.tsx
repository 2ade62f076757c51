import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import '../style.css';
import '../recording/recording.css';
import './snapshot.css';
import {prepare_printing} from '../printing';
import {read_snapshot} from './data';
import {Page} from './page';

const root = document.getElementById('page')!;
root.textContent = '';
try {
  const data = read_snapshot(document);
  document.title = `${data.snapshot.file.replace(/.*\//, '')} · Headroom`;
  render(<Page data={data} />, root);
  prepare_printing();
} catch (problem) {
  const reason = problem instanceof Error ? problem.message : String(problem);
  render(<p class="broken" role="alert">Cannot show this snapshot: {reason}. “headroom report SNAPSHOT.pickle --json” prints the same data.</p>, root);
}
