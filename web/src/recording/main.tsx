import './recording.css';
import {file_name, show} from '../show';
import {read_recording} from './data';
import {Page} from './page';

show({
  name: 'recording',
  same_data: '“headroom report FILE.hrec --json” prints the same data.',
  read: read_recording,
  title: (data) => file_name(data.recording.file),
  view: (data) => <Page data={data} />,
});
