import './plan.css';
import {embedded} from '../embedded';
import {file_name, show} from '../show';
import type {Plan} from './data';
import {Page} from './page';

show({
  name: 'plan',
  same_data: '“headroom plan BUDGET.toml --json” prints the same data.',
  read: (page) => embedded<Plan>(page, 'plan'),
  title: (plan) => plan.title ?? file_name(plan.budget),
  view: (plan) => <Page plan={plan} />,
});
