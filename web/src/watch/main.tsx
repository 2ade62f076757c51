import {embedded} from '../embedded';
import {show} from '../show';
import {Page, type Watch} from './page';

show({
  name: 'watch',
  same_data: '“headroom watch” prints the same figures.',
  read: (page) => embedded<Watch>(page, 'watch'),
  title: (watch) => watch.title,
  view: (watch) => <Page watch={watch} />,
});
