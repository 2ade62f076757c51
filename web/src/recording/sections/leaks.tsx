// The leak verdict, live memory at the ends of the cycles, and the places that grew.
import {bytes, duration, number} from '../../format';
import type {Leaks as LeakFigures, Recording, Stack} from '../data';
import {GrowthChart} from '../growth_chart';
import {Place} from '../place';
import {SortableTable} from '../sortable_table';

export function Leaks({recording}: {recording: Recording}) {
  const {leaks} = recording;
  const live = recording.stacks.filter((stack) => stack.at_end_bytes > 0);
  return (
    <section id="leaks" aria-labelledby="leaks-title">
      <h2 id="leaks-title">Leaks</h2>
      <Cycle leaks={leaks} />
      {(leaks.other_cycles ?? []).map((other) => <Cycle leaks={other} />)}
      {leaks.verdict !== 'unknown' && leaks.cycles_left_out !== undefined && <p class="quiet">{number(leaks.cycles_left_out)} more repeated {leaks.cycles_left_out === 1 ? 'layer was' : 'layers were'} not monitored: leaks there are unknown.</p>}
      {live.length > 0 && (
        <details>
          <summary>Live at the end, by place</summary>
          <SortableTable<Stack> label="Live at the end" rows={live} most={10} key_of={(row) => recording.stacks.indexOf(row)} sorted={{column: 'At end', direction: 'descending'}}
            columns={[
              {name: 'At end', sort: (row) => row.at_end_bytes, cell: (row) => bytes(row.at_end_bytes)},
              {name: 'Blocks', sort: (row) => row.at_end_blocks, cell: (row) => number(row.at_end_blocks)},
              {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
            ]} />
        </details>
      )}
    </section>
  );
}

// The verdict on one cycle, its curve and the places that grew.
function Cycle({leaks}: {leaks: LeakFigures}) {
  const suspects = leaks.same_places ? [] : (leaks.stacks ?? []).filter((stack) => stack.last_bytes > stack.first_bytes || stack.late_bytes > 0);
  return (
    <>
      <div class={`verdict ${leaks.verdict === 'leak' ? 'bad' : leaks.verdict === 'unknown' || leaks.verdict === 'grew_late' || leaks.verdict === 'grew_then_released' || leaks.smallest_visible_bytes_per_cycle ? 'neutral' : 'good'}`}>
        <p>{verdict_words(leaks)}</p>
      </div>
      {leaks.live_bytes && leaks.live_bytes.length > 1 && <GrowthChart title="Live at the ends of the cycles" unit="cycle" at={leaks.at_cycles!} live={leaks.live_bytes} />}
      {suspects.length > 0 && (
        <>
          <h3>{leaks.verdict === 'leak' ? 'Places that grow' : 'Places that grew'}</h3>
          <SortableTable label={`Places that grew over the cycles of ${leaks.cycle}`} rows={suspects} most={8} key_of={(row) => suspects.indexOf(row)} sorted={{column: 'Grown', direction: 'descending'}}
            columns={[
              {name: 'Grown', help: 'From the first examined cycle to the last', sort: (row) => row.last_bytes - row.first_bytes, cell: (row) => bytes(row.last_bytes - row.first_bytes)},
              {name: 'Late', help: 'After the warm-up', sort: (row) => row.late_bytes, cell: (row) => bytes(row.late_bytes)},
              {name: 'At end', help: 'Part of the growth that was still live at the end of the recording', sort: (row) => row.end_bytes, cell: (row) => bytes(row.end_bytes)},
              {name: 'Per cycle', sort: (row) => row.bytes_per_cycle, cell: (row) => slow_growth(row.bytes_per_cycle)},
              {name: 'Verdict', text: true, first: 'ascending', sort: (row) => row.verdict, cell: (row) => row.verdict.replaceAll('_', ' ')},
              {name: 'Place', place: true, first: 'ascending', sort: (row) => row.frames.join(), cell: (row) => <Place frames={row.frames} />},
            ]} />
        </>
      )}
    </>
  );
}

// Growth of less than a byte per cycle is still growth, so it is not rounded to zero.
const slow_growth = (growth: number) => growth > 0 && growth < 1 ? 'under 1 B' : bytes(Math.round(growth));

function verdict_words(leaks: LeakFigures): string {
  const cycles = `${number(leaks.cycles)} cycles of ${leaks.cycle}`;
  const blind = leaks.smallest_visible_bytes_per_cycle ? ` Samples cannot show a leak of less than ${slow_growth(leaks.smallest_visible_bytes_per_cycle)} per cycle.` : '';
  const end = `${leaks.released_bytes ? ` After the last cycle, ${bytes(leaks.released_bytes)} of the growth was released.` : ''}${leaks.cut_off ? ' The recording ends before the program did, so later releases are unknown.' : ''}`;
  switch (leaks.verdict) {
    case 'leak':
      if (leaks.same_places) return `The same places grow over the ${cycles}.`;
      if (leaks.last_step_cycle) return `Leak: ${slow_growth(leaks.bytes_per_cycle ?? 0)} per cycle on average, over ${cycles}. It grows in steps, like a container that is never emptied (last step at cycle ${number(leaks.last_step_cycle)}).${end}`;
      return `Leak: ${slow_growth(leaks.bytes_per_cycle ?? 0)} per cycle, over ${cycles}.${end}`;
    case 'grew_then_released':
      if (leaks.same_places) return `The same places grew over the ${cycles}.`;
      return `Memory grew and was released later: ${slow_growth(leaks.bytes_per_cycle ?? 0)} per cycle, over ${cycles}, and all of it was released by ${leaks.released_seconds === undefined ? 'the end' : duration(leaks.released_seconds * 1e9)}.${blind}`;
    case 'grew_late':
      return `Unclear: ${bytes(leaks.late_bytes ?? 0)} more is live than after the warm-up, and memory last grew at cycle ${number(leaks.last_step_cycle ?? 0)}, over ${cycles}. Record more cycles to see whether it stays.${blind}${end}`;
    case 'grew_then_stayed':
      if (leaks.last_step_cycle) return `No leak: memory grew until cycle ${number(leaks.last_step_cycle)} and then stayed the same, over ${cycles}.${blind}`;
      return `No leak: more memory is live than after the first cycles, but it no longer grows, over ${cycles}.${blind}`;
    case 'none':
      return `No leak over ${cycles}.${blind}`;
    default:
      return leaks.cycles_left_out ? 'No verdict: no repeated layer was monitored. Memory that is live at exit is not always a leak: caches stay on purpose.'
        : 'No verdict: no layer repeats often enough. Memory that is live at exit is not always a leak: caches stay on purpose.';
  }
}
