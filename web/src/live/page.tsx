// The live page: alerts, what memory consists of now, memory over time, and the largest processes.
import {useEffect, useState} from 'preact/hooks';
import {Legend, StackedBar} from '../charts/stacked_bar';
import {type Line, TimeChart} from '../charts/time_chart';
import {ABSENT, bytes} from '../format';
import {type Alerts, type Column, empty_history, get, type History, joined, type Process, readings, type Sample} from './data';

const INTERVAL_MS = 1000;

interface Live {
  sample: Sample | undefined;
  history: History;
  alerts: Alerts;
  problem: string | undefined;  // why the last request failed
}

function use_live(): Live {
  const [live, set_live] = useState<Live>({sample: undefined, history: empty_history(), alerts: {active: [], events: []}, problem: undefined});
  useEffect(() => {
    let history = empty_history();
    let timer = 0;
    const step = async () => {
      try {
        if (!document.hidden || history.unix_ms.length === 0) {
          const since = history.unix_ms.at(-1) ?? -1;
          const [sample, more, alerts] = await Promise.all([
            get<Sample>('/api/v1/sample'), get<History>(`/api/v1/history?since=${since}`), get<Alerts>('/api/v1/alerts'),
          ]);
          history = joined(history, more);
          set_live({sample, history, alerts, problem: undefined});
        }
      } catch (problem) {
        set_live((before) => ({...before, problem: problem instanceof Error ? problem.message : String(problem)}));
      }
      timer = window.setTimeout(step, INTERVAL_MS);
    };
    void step();
    return () => clearTimeout(timer);
  }, []);
  return live;
}

export function Page({host}: {host: string}) {
  const {sample, history, alerts, problem} = use_live();
  return (
    <>
      <header>
        <p class="wordmark">Headroom <span>live</span></p>
        <h1>{host}</h1>
        {problem !== undefined && <p class="banner" role="status">No new data: {problem}. The figures below are old; retrying.</p>}
        <AlertList alerts={alerts} has_sample={sample !== undefined} />
      </header>
      <main>
        {sample === undefined ? <p class="quiet">Waiting for the first sample.</p> : (
          <>
            <Memory sample={sample} history={history} />
            <OverTime history={history} />
            <Processes processes={sample.process_table ?? []} />
            <Board sample={sample} />
          </>
        )}
        {alerts.events.length > 0 && (
          <section>
            <h2>Past alerts</h2>
            <ul class="events">{[...alerts.events].reverse().map((event) => <li class={event.state === 'fired' ? event.severity : 'over'}>{event.text}</li>)}</ul>
          </section>
        )}
      </main>
    </>
  );
}

function AlertList({alerts, has_sample}: {alerts: Alerts; has_sample: boolean}) {
  if (!has_sample) return null;
  const worst = alerts.active.some((alert) => alert.severity !== 'info');
  return (
    <div class={`verdict ${worst ? 'bad' : 'good'}`} role="status">
      <p>{alerts.active.length === 0 ? 'No alert.' : alerts.active.length === 1 ? 'One alert:' : `${alerts.active.length} alerts:`}</p>
      {alerts.active.length > 0 && <ul>{alerts.active.map((alert) => <li>{alert.text}</li>)}</ul>}
    </div>
  );
}

const PARTS: [Column, string, string][] = [
  ['system_bytes', 'system', '--series-7'],
  ['processes_bytes', 'processes', '--series-1'],
  ['gpu_bytes', 'GPU', '--series-4'],
  ['cache_bytes', 'cache', '--series-5'],
  ['free_bytes', 'free', '--quiet-ground'],
];

function Memory({sample, history}: {sample: Sample; history: History}) {
  const total = sample.ram_total_bytes;
  const latest = (column: Column) => history[column].at(-1) ?? undefined;
  const parts = PARTS.map(([column, label, color]) => ({label, color, value: latest(column) ?? 0}));
  const has_parts = latest('processes_bytes') !== undefined;
  const figures: [string, string][] = [
    ['used', bytes(sample.ram_used_bytes)],
    ['available', bytes(sample.ram_available_bytes)],
    ['total', bytes(total)],
    ['swap', sample.swap_total_bytes ? `${bytes(sample.swap_used_bytes)} of ${bytes(sample.swap_total_bytes)}` : 'none'],
    ['largest free block', bytes(sample.largest_free_block_bytes)],
    ['waiting for memory', sample.psi_some_percent === undefined ? ABSENT : `${sample.psi_some_percent.toFixed(1)} %`],
  ];
  return (
    <section>
      <h2>Memory now</h2>
      {total !== undefined && has_parts && (
        <>
          <StackedBar label={parts.map((part) => `${part.label} ${bytes(part.value)}`).join(', ')} parts={parts} scale={total} />
          <Legend items={parts.filter((part) => part.value > 0).map((part) => ({label: `${part.label} ${bytes(part.value)}`, color: part.color}))} />
        </>
      )}
      <dl class="facts figures">{figures.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  );
}

const clock = (seconds: number, exact: boolean) =>
  new Date(1000 * seconds).toLocaleTimeString(undefined, exact ? {hour12: false} : {hour12: false, hour: '2-digit', minute: '2-digit', second: '2-digit'});

function OverTime({history}: {history: History}) {
  const seconds = history.unix_ms.map((time) => time / 1000);
  const known = (column: Column) => history[column].some((value) => value !== null && value !== undefined);
  const line = (column: Column, label: string, color: string, fill = false): Line => ({label, color, values: history[column], fill});
  const memory = ([['used_bytes', 'used', '--series-1', true], ['gpu_bytes', 'GPU', '--series-4'], ['gpu_memory_bytes', 'GPU memory', '--series-4'],
    ['swap_bytes', 'swap', '--series-3']] as [Column, string, string, boolean?][]).filter(([column]) => known(column) && !is_zero(history, column)).map(([column, label, color, fill]) => line(column, label, color, fill));
  const load = ([['cpu_percent', 'CPU', '--series-1'], ['gpu_percent', 'GPU', '--series-4']] as [Column, string, string][])
    .filter(([column]) => known(column)).map(([column, label, color]) => line(column, label, color));
  const total = history.total_bytes.at(-1) ?? undefined;
  if (seconds.length < 2) return null;
  return (
    <section>
      <h2>Over time</h2>
      <TimeChart key={`memory${memory.length}`} title="Memory used" summary={`${bytes(history.used_bytes.at(-1) ?? undefined)} used now.`} seconds={seconds} x_words={clock}
        lines={memory} format={bytes} byte_axis limit={is_near(history, total) ? total : undefined} limit_words="total" sync="live" />
      {load.length > 0 && <TimeChart key={`load${load.length}`} title={load.length === 1 ? `${load[0]!.label} load` : 'Load'} summary="CPU and GPU, percent." seconds={seconds} x_words={clock} lines={load}
        format={(value) => `${value.toFixed(0)} %`} height={150} sync="live" />}
      {known('hottest_celsius') && <TimeChart title="Hottest sensor" summary="Degrees Celsius." seconds={seconds} x_words={clock}
        lines={[line('hottest_celsius', 'hottest', '--series-8')]} format={(value) => `${value.toFixed(0)} °C`} height={150} from_zero={false} sync="live" />}
    </section>
  );
}

// Whether the chart can show the line of total memory. If the total is more than three times the curve's highest point,
// the line would flatten the curve; then only the bar above shows the total.
function is_near(history: History, total: number | undefined): boolean {
  return total !== undefined && history.used_bytes.some((value) => value !== null && value !== undefined && 3 * value > total);
}

function is_zero(history: History, column: Column): boolean {
  return !history[column].some((value) => value);
}

function Processes({processes}: {processes: Process[]}) {
  if (processes.length === 0) return null;
  const has_gpu = processes.some((process) => process.gpu_bytes !== undefined);
  return (
    <section>
      <h2>Largest processes</h2>
      <div class="scroll">
        <table>
          <thead><tr><th scope="col" class="text">process</th><th scope="col" class="number">PID</th><th scope="col" class="number">CPU</th>
            <th scope="col" class="number">resident</th>{has_gpu && <th scope="col" class="number">GPU</th>}<th scope="col" class="number">swapped</th></tr></thead>
          <tbody>{processes.map((process) => (
            <tr key={process.pid}>
              <th scope="row" class="text">{process.name}</th><td class="number">{process.pid}</td>
              <td class="number">{process.cpu_percent === undefined ? ABSENT : `${process.cpu_percent.toFixed(0)} %`}</td>
              <td class="number">{bytes(process.rss_bytes)}</td>
              {has_gpu && <td class="number">{bytes(process.gpu_bytes)}</td>}
              <td class="number">{bytes(process.swapped_bytes)}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}

function Board({sample}: {sample: Sample}) {
  const groups: [string, string[]][] = [
    ['Temperature', readings(sample.temperature_celsius).map(({name, value}) => `${name} ${value.toFixed(1)} °C`)],
    ['Power', readings(sample.power_watts).map(({name, value}) => `${name} ${value.toFixed(2)} W`)],
    ['Clocks', readings(sample.clock_hz).map(({name, value}) => `${name} ${(value / 1e6).toFixed(0)} MHz`)],
    ['GPUs', (sample.gpus ?? []).map((gpu) => `${gpu.name ?? 'GPU'} ${bytes(gpu.memory_used_bytes)} of ${bytes(gpu.memory_total_bytes)}${gpu.gpu_percent === undefined ? '' : `, ${gpu.gpu_percent.toFixed(0)} %`}`)],
    ['Power mode', sample.power_mode ? [sample.power_mode] : []],
  ];
  const known = groups.filter(([, values]) => values.length > 0);
  if (known.length === 0) return null;
  return (
    <section>
      <h2>Board</h2>
      <dl class="facts">{known.map(([name, values]) => <div><dt>{name}</dt><dd>{values.map((value) => <span class="reading">{value}</span>)}</dd></div>)}</dl>
    </section>
  );
}
