import {render} from 'preact';
import 'uplot/dist/uPlot.min.css';
import '../style.css';
import './recording.css';
import {prepare_printing} from '../printing';
import {read_recording} from './data';
import {Page} from './page';

const root = document.getElementById('page')!;
root.textContent = '';
try {
  const data = read_recording(document);
  document.title = `${data.recording.file.replace(/.*\//, '')} · Headroom`;
  render(<Page data={data} />, root);
  prepare_printing();
} catch (problem) {
  const reason = problem instanceof Error ? problem.message : String(problem);
  render(<p class="broken" role="alert">Cannot show this recording: {reason}. “headroom report FILE.hrec --json” prints the same data.</p>, root);
}
