import {embedded} from '../embedded';
import {show} from '../show';
import type {History} from './data';
import {Page} from './page';

show({
  name: 'history',
  same_data: '“headroom history show METRIC --json” prints the same data.',
  read: (page) => embedded<History>(page, 'history'),
  title: (history) => history.metric,
  view: (history) => <Page history={history} />,
});
