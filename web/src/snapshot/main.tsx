import '../recording/recording.css';
import './snapshot.css';
import {file_name, show} from '../show';
import {read_snapshot} from './data';
import {Page} from './page';

show({
  name: 'snapshot',
  same_data: '“headroom report SNAPSHOT.pickle --json” prints the same data.',
  read: read_snapshot,
  title: (data) => file_name(data.snapshot.file),
  view: (data) => <Page data={data} />,
});
