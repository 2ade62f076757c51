// The snapshot page: out-of-memory failures, memory over time, live memory at the selected moment, then leaks,
// fragmentation and segments. It shows one device at a time.
import {useState} from 'preact/hooks';
import type {Device, SnapshotData} from './data';
import {Fragmentation} from './sections/fragmentation';
import {DeviceFigures, Header} from './sections/header';
import {Leaks} from './sections/leaks';
import {LiveAt} from './sections/live_at';
import {MemoryOverTime} from './sections/memory_over_time';
import {Notes} from './sections/notes';
import {OutOfMemory} from './sections/out_of_memory';
import {Segments} from './sections/segments';

export function Page({data}: {data: SnapshotData}) {
  const {snapshot} = data;
  const [chosen, set_chosen] = useState(0);
  const device = snapshot.devices[chosen];
  return (
    <>
      <a class="skip" href="#live">Skip to live memory</a>
      <Header snapshot={snapshot} chosen={chosen} choose={set_chosen} />
      {device ? <DevicePage key={device.device} device={device} data={data} /> : <main><p class="quiet">The allocator held no memory on any device.</p></main>}
      <Notes snapshot={snapshot} />
    </>
  );
}

function DevicePage({device, data: {calls}}: {device: Device; data: SnapshotData}) {
  const [moment, set_moment] = useState(device.fragmentation.peak);
  return (
    <main>
      <DeviceFigures device={device} />
      <OutOfMemory device={device} calls={calls} />
      <MemoryOverTime device={device} calls={calls} />
      <LiveAt device={device} calls={calls} chosen={moment} choose={set_moment} />
      <Leaks device={device} calls={calls} />
      <Fragmentation device={device} calls={calls} />
      <Segments device={device} />
    </main>
  );
}
