import {render} from 'preact';
import '../style.css';
import './plan.css';
import {prepare_printing} from '../printing';
import {read_plan} from './data';
import {Page} from './page';

const root = document.getElementById('page')!;
root.textContent = '';
try {
  const plan = read_plan(document);
  document.title = `${plan.title ?? plan.budget.replace(/.*\//, '')} · Headroom`;
  render(<Page plan={plan} />, root);
  prepare_printing();
} catch (problem) {
  const reason = problem instanceof Error ? problem.message : String(problem);
  render(<p class="broken" role="alert">Cannot show this plan: {reason}. “headroom plan BUDGET.toml --json” prints the same data.</p>, root);
}
