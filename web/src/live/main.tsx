import './live.css';
import {show} from '../show';
import {host_name} from './data';
import {Page} from './page';

show({
  name: 'live page',
  same_data: '/metrics and /api/v1/sample serve the same figures.',
  read: host_name,
  title: (host) => host,
  view: (host) => <Page host={host} />,
});
