// The page of `headroom watch --plot FILE.html`: memory over time, one chart per figure.
import {TimeChart} from '../charts/time_chart';
import {bytes, duration, percent, short_duration} from '../format';
import {SERIES_COLORS} from '../theme';

// At most 1024 points (src/watch/watch_summary.cpp): each covers one or several samples, and has their extremes.
export interface Curve {
  title: string;
  is_of_ram?: boolean;  // a part of the machine's memory
  seconds: number[];
  min_bytes: number[];
  mean_bytes: number[];
  max_bytes: number[];
}

export interface Watch {
  title: string;
  ram_total_bytes?: number;
  curves: Curve[];
}

const time_words = (seconds: number, exact: boolean) => exact ? duration(seconds * 1e9) : short_duration(seconds * 1e9);
const TIME_STEPS = [0.001, 0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400, 604800];

export function Page({watch}: {watch: Watch}) {
  const end = Math.max(0, ...watch.curves.map((curve) => curve.seconds[curve.seconds.length - 1] ?? 0));
  return (
    <>
      <header>
        <p class="wordmark">Headroom <span>watch</span></p>
        <h1>{watch.title}</h1>
        <dl class="figures">
          <Figure name="Time" value={duration(end * 1e9)} />
          {watch.ram_total_bytes !== undefined && <Figure name="RAM of the machine" value={bytes(watch.ram_total_bytes)} />}
        </dl>
      </header>
      <main>
        {watch.curves.length === 0 && <p class="quiet">No sample had a figure of memory.</p>}
        {watch.curves.map((curve, i) => <CurveSection curve={curve} color={SERIES_COLORS[i % SERIES_COLORS.length]!} total={curve.title === 'RAM used' ? watch.ram_total_bytes : undefined}
          board={curve.is_of_ram ? watch.ram_total_bytes : undefined} />)}
      </main>
    </>
  );
}

function Figure({name, value}: {name: string; value: string}) {
  return <div><dt>{name}</dt><dd>{value}</dd></div>;
}

function largest(curve: Curve): number {
  return curve.max_bytes.reduce((most, value) => Math.max(most, value), 0);
}

// `board`: the machine's memory, if the curve is a part of it.
function CurveSection({curve, color, total, board}: {curve: Curve; color: string; total: number | undefined; board: number | undefined}) {
  const lowest = curve.min_bytes.reduce((least, value) => Math.min(least, value), Infinity);
  const last = curve.mean_bytes[curve.mean_bytes.length - 1]!;
  const has_band = curve.min_bytes.some((value, i) => value < curve.max_bytes[i]!);
  const line = {label: 'mean', color, values: curve.mean_bytes, low: curve.min_bytes, high: curve.max_bytes};
  const figures: [string, string][] = [['first', bytes(curve.mean_bytes[0])], ['lowest', bytes(lowest)], ['highest', bytes(largest(curve))], ['last', bytes(last)]];
  if (board) figures.push(['highest, of the board', percent(largest(curve) / board)]);
  return (
    <section>
      <h2>{curve.title}</h2>
      <dl class="figures">{figures.map(([name, value]) => <Figure name={name} value={value} />)}</dl>
      <TimeChart title={has_band ? 'The line is the mean, the band goes from minimum to maximum' : 'Over time'} summary={`Highest ${bytes(largest(curve))}, last ${bytes(last)}.`}
        seconds={curve.seconds} x_words={time_words} x_steps={TIME_STEPS} lines={[line]} format={bytes} byte_axis limit={total} limit_words="total" sync="watch" />
    </section>
  );
}
