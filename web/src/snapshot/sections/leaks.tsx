// The leak verdict, the minimum of live memory in each window of the trace, and the places that grew.
import {bytes, number} from '../../format';
import {GrowthChart} from '../../recording/growth_chart';
import {SortableTable} from '../../recording/sortable_table';
import type {Calls, Device, PlaceGrowth} from '../data';
import {place_words} from '../frames';
import {Place} from '../place';

const TONES: Record<string, string> = {leak: 'bad', grew_late: 'neutral', unknown: 'neutral'};

export function Leaks({device, calls}: {device: Device; calls: Calls}) {
  const {leaks} = device;
  if (device.entries === 0) return null;
  const rows = leaks.stacks ?? [];
  const differ = rows.some((row) => row.verdict !== leaks.verdict);
  return (
    <section id="leaks" aria-labelledby="leaks-title">
      <h2 id="leaks-title">Leaks</h2>
      <div class={`verdict ${TONES[leaks.verdict] ?? 'good'}`}><p>{leaks.words}</p></div>
      {leaks.floor_bytes && leaks.floor_bytes.length > 1 && (
        <GrowthChart title={`Minimum of live memory in each window of ${number(leaks.entries_per_window)} entries`} unit="window"
          at={leaks.floor_bytes.map((_, i) => i + 1)} live={leaks.floor_bytes} />
      )}
      {rows.length > 0 && (
        <>
          <h3>{leaks.verdict === 'leak' ? 'Places that grow' : 'Places that grew'}</h3>
          {leaks.common && <p>All called from <b>{leaks.common}</b>.</p>}
          <SortableTable label="Places whose minimum grew" rows={rows} most={8} key_of={(row) => rows.indexOf(row)} sorted={{column: 'Late', direction: 'descending'}}
            columns={[
              {name: 'Late', help: 'Growth of the minimum after the first third', sort: (row) => row.late_bytes, cell: (row) => bytes(row.late_bytes)},
              {name: 'Per window', sort: (row) => row.bytes_per_window, cell: (row) => bytes(Math.round(row.bytes_per_window))},
              {name: 'Blocks', help: 'Live at the end, of those allocated in the trace', sort: (row) => row.live_blocks, cell: (row) => `${number(row.live_blocks)} of ${number(Math.max(row.allocations, row.live_blocks))}`},
              ...(differ ? [{name: 'Verdict', text: true, first: 'ascending' as const, sort: (row: PlaceGrowth) => row.verdict, cell: (row: PlaceGrowth) => row.verdict.replaceAll('_', ' ')}] : []),
              {name: 'Place', place: true, first: 'ascending', sort: (row) => place_words(calls, row), cell: (row) => <Place calls={calls} at={row} />},
            ]} />
        </>
      )}
    </section>
  );
}
