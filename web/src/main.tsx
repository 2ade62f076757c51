import {read_run} from './data';
import {Page} from './page';
import {show} from './show';

show({
  name: 'report',
  same_data: 'report.json in the run folder contains the same data.',
  read: read_run,
  title: (run) => run.report.run_name,
  view: (run) => <Page run={run} />,
});
