// Tests the data of charts and tables: formatted figures, distributions, memory parts, series and sorting.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {load} from './load.mjs';

const format = await load('format.ts');
const histogram = await load('histogram.ts');
const {memory_parts} = await load('memory_parts.ts');
const metrics = await load('metrics.ts');
const {sorted_by} = await load('sorting.ts');
const settings = await load('settings_words.ts');
const words = await load('words.ts');
const MIB = 1024 * 1024;

test('formats sizes and times as the command line does', () => {
  assert.equal(format.bytes(0), '0 B');
  assert.equal(format.bytes(812), '812 B');
  assert.equal(format.bytes(1536), '1.5 KiB');
  assert.equal(format.bytes(-3 * MIB), '-3.0 MiB');
  assert.equal(format.bytes(1.21 * 1024 * MIB), '1.21 GiB');
  assert.equal(format.bytes(undefined), '–');
  assert.equal(format.duration(812), '812 ns');
  assert.equal(format.duration(12_300), '12.3 µs');
  assert.equal(format.duration(4_560_000), '4.56 ms');
  assert.equal(format.duration(1_234_000_000), '1.234 s');
  assert.equal(format.duration(125_000_000_000), '2 min 05 s');
  assert.equal(format.duration(undefined), '–');
  for (const [seconds, words] of [[0, '0'], [0.5, '500 ms'], [0.0125, '12.5 ms'], [30, '30 s'], [100, '1 min 40 s'], [120, '2 min']])
    assert.equal(format.short_duration(seconds * 1e9), words);
});

test('ticks of a time axis differ, also in a short recording', () => {
  assert.deepEqual(format.time_ticks([0, 0.00005, 0.0001]), ['0 µs', '50 µs', '100 µs']);
  assert.deepEqual(format.time_ticks([0, 0.0005, 0.001]), ['0 ms', '0.5 ms', '1 ms']);
  assert.deepEqual(format.time_ticks([0, 0.25, 0.5]), ['0 ms', '250 ms', '500 ms']);
  assert.deepEqual(format.time_ticks([0, 2.5, 5]), ['0 s', '2.5 s', '5 s']);
  assert.deepEqual(format.time_ticks([12, 12.00002, 12.00004]), ['12 s', '12.00002 s', '12.00004 s']);
  assert.deepEqual(format.time_ticks([]), []);
});

test('formats numbers with about three digits and no exponent', () => {
  assert.equal(format.number(0), '0');
  assert.equal(format.number(0.0421), '0.042');
  assert.equal(format.number(3.14159), '3.14');
  assert.equal(format.number(69.93), '69.9');
  assert.equal(format.number(900), '900');
  assert.equal(format.number(1234567.8), '1,234,568');
  assert.equal(format.percent(0.031), '3.1 %');
  assert.equal(format.percent(1.08), '108 %');
});

test('buckets of a distribution cover min to max in equal ratios', () => {
  const buckets = histogram.buckets_of({n: 10, min: 100, max: 1600, histogram: [4, 3, 2, 1]});
  assert.deepEqual(buckets.map((bucket) => Math.round(bucket.from_ns)), [100, 200, 400, 800]);
  assert.equal(Math.round(buckets[3].to_ns), 1600);
  assert.deepEqual(buckets.map((bucket) => bucket.count), [4, 3, 2, 1]);
  assert.deepEqual(histogram.buckets_of({n: 0, min: 0, max: 0, histogram: [1]}), []);
  assert.equal(histogram.position_of(400, 100, 1600), 0.5);
  assert.equal(histogram.position_of(7, 7, 7), 0.5);
});

test('a logarithmic axis has at least three ticks inside its range', () => {
  assert.deepEqual(histogram.log_ticks(1e6, 1e7), [1e6, 2e6, 5e6, 1e7]);
  for (const [low, high] of [[13e6, 14e6], [9e5, 1.1e8], [1, 2]]) {
    const ticks = histogram.log_ticks(low, high);
    assert.ok(ticks.length >= 3);
    assert.ok(ticks.every((tick) => tick >= low && tick <= high));
  }
});

test('labels that would touch go to another row', () => {
  const rows = histogram.stack_labels([{x: 50, width: 80}, {x: 60, width: 80}, {x: 300, width: 80}]).map((label) => label.row);
  assert.deepEqual(rows, [0, 1, 0]);
});

test('memory parts add up to the run peak and count each byte once', () => {
  const parts = memory_parts({runtime_bytes: 30 * MIB, loaded_bytes: 40 * MIB, load_peak_bytes: 55 * MIB, run_peak_bytes: 70 * MIB});
  assert.deepEqual(parts, [{kind: 'runtime', bytes: 30 * MIB}, {kind: 'model', bytes: 10 * MIB}, {kind: 'working set', bytes: 30 * MIB}]);
  assert.equal(parts.reduce((sum, part) => sum + part.bytes, 0), 70 * MIB);
});

test('does not estimate memory parts that were not measured', () => {
  assert.deepEqual(memory_parts({runtime_bytes: 30, loaded_bytes: 40, run_peak_bytes: 70, frames_bytes: 20}).slice(2),
    [{kind: 'working set', bytes: 10}, {kind: 'frames', bytes: 20}]);
  assert.deepEqual(memory_parts({}), []);
  assert.deepEqual(memory_parts({run_peak_bytes: 5}), [{kind: 'whole', bytes: 5}]);
  assert.deepEqual(memory_parts({runtime_bytes: 30, load_peak_bytes: 256}), [{kind: 'runtime', bytes: 30}, {kind: 'model', bytes: 226}]);
  // A peak below the loaded size (pages were released) gives no negative part.
  assert.deepEqual(memory_parts({runtime_bytes: 30, loaded_bytes: 40, run_peak_bytes: 35}).map((part) => part.kind), ['runtime', 'model']);
});

test('the peak is the larger of loading and running, and absent when neither was measured', () => {
  assert.equal(words.peak_of({memory: {load_peak_bytes: 5, run_peak_bytes: 3}}), 5);
  assert.equal(words.peak_of({memory: {run_peak_bytes: 3}}), 3);
  assert.equal(words.peak_of({}), undefined);
});

test('classifies the outcome of a model', () => {
  assert.equal(words.outcome_of({status: 'ok', frames: 3}), 'ok');
  assert.equal(words.outcome_of({status: 'ok', frames: 0, memory: {violations: 0}}), 'prepared');
  assert.equal(words.outcome_of({status: 'ok', frames: 0, memory: {violations: 0, run_peak_bytes: 5}}), 'prepared', 'the memory of its warm-up');
  assert.equal(words.outcome_of({status: 'ok', frames: 3, memory: {violations: 2}}), 'over');
  assert.ok(words.is_cut_short({status: 'failed', error: 'the run ended while it was being measured'}));
  assert.ok(!words.is_cut_short({status: 'failed', error: 'it ended early'}));
  assert.equal(words.outcome_of({status: 'failed', error: 'the run ended while it was being measured'}), 'cut_short');
  assert.equal(words.outcome_of({status: 'skipped', error: 'the run ended before it was measured'}), 'not_reached');
  assert.equal(words.outcome_of({status: 'skipped', error: 'no path was given for this slot'}), 'skipped');
  assert.deepEqual(words.in_reading_order([{status: 'skipped', name: 's'}, {status: 'oom', name: 'o'}]).map((model) => model.name), ['o', 's']);
});

test('explains resident memory above the limit only if the limit applies to another figure', () => {
  const model = {memory: {run_peak_bytes: 120, limit_peak_bytes: 80}};
  assert.ok(words.resident_is_above(model, {bytes: 100, mechanism: 'cgroup_v1'}));
  assert.ok(words.resident_is_above(model, {bytes: 100, mechanism: 'rlimit_data'}));
  assert.ok(!words.resident_is_above(model, {bytes: 130, mechanism: 'cgroup_v1'}));
  assert.ok(!words.resident_is_above(model, {bytes: 100, mechanism: 'watchdog'}));
  assert.ok(!words.resident_is_above(model, undefined));
});

test('drops the variation warning if there are few frames', () => {
  const warnings = ['inference latency varies by 9.0 %', 'the clock was throttled'];
  assert.deepEqual(words.warnings_of({latency_ns: {n: 9}, warnings}), ['the clock was throttled']);
  assert.deepEqual(words.warnings_of({latency_ns: {n: 10}, warnings}), warnings);
});

test('means of counts have as many digits as they need', () => {
  assert.deepEqual([0, 0.04, 0.5, 5.375, 120.4].map(format.average), ['0', '0.04', '0.5', '5.4', '120']);
});

test('finds series by key in any form of line', () => {
  const lines = [
    {time_ns: 5e9, cpu_percent: 10, ram_used_bytes: 100, swap_used_bytes: 0, temperature_celsius: {cpu: 40}, power_watts: [{name: 'VDD_IN', value: 7}]},
    {time_ns: 6e9, cpu_percent: 20, ram_used_bytes: 120, swap_used_bytes: 0, temperature_celsius: {cpu: 41}, power_watts: [{name: 'VDD_IN', value: 8}]},
  ];
  const found = metrics.parse_metrics(lines.map((line) => JSON.stringify(line)).join('\n'));
  assert.deepEqual(found.charts.map((chart) => [chart.unit, chart.series[0].key]), [
    ['percent', 'cpu_percent'], ['bytes', 'ram_used_bytes'], ['celsius', 'temperature_celsius.cpu'], ['watts', 'power_watts.VDD_IN']]);
  assert.deepEqual(found.charts[0].seconds, [0, 1]);
  assert.deepEqual(found.constant, [{key: 'swap_used_bytes', value: 0, unit: 'bytes'}]);
});

test('draws only the percentages of memory pressure', () => {
  const line = (ns) => JSON.stringify({time_ns: ns, psi_some_percent: 1 + ns, psi_some_stalled_ns: 10_000_000 * ns, psi_full_stalled_ns: 0});
  const found = metrics.parse_metrics([line(0), line(1)].join('\n'));
  assert.deepEqual(found.charts.map((chart) => [chart.title, chart.unit, chart.series.map((series) => series.key)]),
    [['Memory pressure (PSI)', 'percent', ['psi_some_percent']]]);
  assert.deepEqual(found.constant, []);
});

test('titles of figures are those of report.md', () => {
  const words = readFileSync(new URL('../../src/report/words.cpp', import.meta.url), 'utf8');
  const table = words.slice(words.indexOf('kMetrics[]'), words.indexOf('};', words.indexOf('kMetrics[]')));
  const titles = [...table.matchAll(/\{"([a-z_]+)",\s*"([^"]+)"/g)];
  assert.ok(titles.length > 30);
  for (const [, name, title] of titles) assert.equal(metrics.TITLES[name], title);
  assert.equal(metrics.title_of('slab_unreclaimable_bytes'), 'Kernel slab, unreclaimable');
  assert.equal(metrics.title_of('temperature_celsius.cpu'), 'Temperature cpu');
  assert.equal(metrics.title_of('oom_kills'), 'OOM kills');
  assert.equal(metrics.title_of('cgroup.oom_kills'), 'Control group, OOM kills');
  const line = (ns) => JSON.stringify({time_ns: ns, slab_unreclaimable_bytes: ns, major_faults: ns});
  assert.deepEqual(metrics.parse_metrics([line(0), line(1)].join('\n')).charts.map((chart) => chart.title),
    ['Kernel slab, unreclaimable', 'Major page faults, events per sample']);
});

test('creates one series per worker for resident memory and PSS', () => {
  const line = (ns, rss) => JSON.stringify({since_start_ns: ns, phase: 'parallel', processes: [
    {label: 'yolo', pid: 7, phase: 'warm', rss_bytes: rss, anonymous_bytes: rss - 1}, {label: 'text', pid: 8, rss_bytes: 5 - ns}]});
  const found = metrics.parse_metrics([line(0, 10), line(1, 20)].join('\n'));
  assert.deepEqual(found.charts.map((chart) => chart.series.map((series) => [series.key, series.label, series.values])), [[
    ['processes.yolo.rss_bytes', 'yolo', [10, 20]], ['processes.text.rss_bytes', 'text', [5, 4]]]]);
  assert.deepEqual(found.bands.map((band) => band.label), ['parallel']);
});

test('separates GPUs of the same name, and shows the load of a single GPU once', () => {
  const gpu = (index, used) => ({index, name: 'NVIDIA H200', uuid: `GPU-${index}`, gpu_percent: 10 + used, memory_total_bytes: 90 + used,
    memory_used_bytes: used, memory_free_bytes: 90 - used, sm_clock_hz: 1e9 + used, temperature_celsius: 30 + used,
    mig_instances: [{index: 3, name: 'MIG 1g', uuid: 'MIG-1', gpu_instance: used, memory_used_bytes: used / 2}], processes: [{pid: 5 + used, used_bytes: used}]});
  const keys_of = (...lines) => metrics.parse_metrics(lines.map((line) => JSON.stringify(line)).join('\n')).charts
    .map((chart) => chart.series.map((series) => series.key));
  assert.deepEqual(keys_of({time_ns: 0, gpu_percent: 12, gpus: [gpu(0, 2)]}, {time_ns: 1e9, gpu_percent: 13, gpus: [gpu(0, 3)]}), [
    ['gpu_percent'], ['gpus.GPU 0.memory_used_bytes', 'gpus.GPU 0.mig_instances.MIG 3.memory_used_bytes'],
    ['gpus.GPU 0.temperature_celsius'], ['gpus.GPU 0.sm_clock_hz']]);
  assert.deepEqual(keys_of({time_ns: 0, gpus: [gpu(0, 2), gpu(1, 4)]}, {time_ns: 1e9, gpus: [gpu(0, 3), gpu(1, 5)]})[0],
    ['gpus.GPU 0.gpu_percent', 'gpus.GPU 1.gpu_percent']);
  assert.equal(metrics.label_of('cgroup.file_backed_bytes'), 'file backed');
  assert.equal(metrics.label_of('gpus.GPU 0.sm_clock_hz'), 'GPU 0 sm clock');
  assert.equal(metrics.label_of('gpus.GPU 0.mig_instances.MIG 3.memory_used_bytes'), 'GPU 0 MIG 3 memory used');
});

test('draws no memory while a worker has no process', () => {
  const line = (seconds, ...processes) => JSON.stringify({time_ns: seconds * 1e9, cpu_percent: seconds,
    processes: processes.map(([model, pid, rss_bytes, pss_bytes]) => ({model, pid, rss_bytes, pss_bytes}))});
  const found = metrics.parse_metrics([
    line(0, ['a', 1, 10, 5]), line(1, ['a', 1, 11]), line(2, ['a', 1, 12, 6]),  // a alone; its PSS is missing once
    line(3, ['b', 2, 20, 8]), line(4, ['b', 2, 21]),                            // b alone; it ends before its PSS is read
    line(6, ['a', 3, 13, 7], ['b', 4, 22, 9]), line(7, ['a', 3, 14, 8], ['b', 4, 23, 9.5]),  // both at once
    line(8), line(9, ['a', 3, 15, 9]),                                          // no process, then a again
  ].join('\n'));
  assert.equal(found.charts.length, 3);  // process ids are not drawn
  const [cpu, resident, share] = found.charts;
  assert.deepEqual(cpu.seconds, [0, 1, 2, 3, 4, 6, 7, 8, 9]);
  // Between b's second and third sample the process changes, so a line without processes is inserted.
  assert.deepEqual(resident.seconds, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(resident.series.map((series) => series.values), [
    [10, 11, 12, null, null, null, 13, 14, null, 15], [null, null, null, 20, 21, null, 22, 23, null, null]]);
  assert.deepEqual(share.series.map((series) => series.values), [
    [5, undefined, 6, null, null, null, 7, 8, null, 9], [null, null, null, 8, null, null, 9, 9.5, null, null]]);
});

test('keeps the line of a process unbroken when another process changes', () => {
  const line = (seconds, pid) => JSON.stringify({time_ns: seconds * 1e9, processes: [
    {model: 'restarted', pid, rss_bytes: 10 + seconds}, {model: 'steady', pid: 9, rss_bytes: 20 + seconds}]});
  const [chart] = metrics.parse_metrics([line(0, 1), line(2, 2)].join('\n')).charts;
  assert.deepEqual(chart.series.map((series) => series.values), [[10, null, 12], [20, undefined, 22]]);
});

test('treats a value between gaps as a point, and an unmeasured value not as a gap', () => {
  assert.deepEqual(metrics.alone_in([1, null, 2, 3, null, 4, undefined, null, 5, undefined, 6]), [0, 5]);
  assert.deepEqual(metrics.alone_in([null, 7, null]), [1]);
  assert.deepEqual(metrics.alone_in([1, undefined, 2]), []);
  assert.deepEqual(metrics.alone_in([]), []);
});

test('skips invalid lines and keeps gaps', () => {
  const text = '{"time_ns":0,"cpu_percent":1}\nnot json\n[1]\n{"no_time":1}\n{"time_ns":1000000000,"other_percent":5}\n' +
    '{"time_ns":2000000000,"cpu_percent":3,"other_percent":6}\n{"time_ns":3';
  const found = metrics.parse_metrics(text);
  assert.equal(found.lines, 3);
  assert.deepEqual(found.charts[0].series[0].values, [1, 3]);
  assert.deepEqual(metrics.parse_metrics('').charts, []);
});

test('makes bands from lines that name a model', () => {
  const line = (seconds, model) => JSON.stringify({time_ns: seconds * 1e9, model, cpu_percent: seconds});
  const {bands} = metrics.parse_metrics([line(0, 'a'), line(1, 'a'), line(2, 'b'), line(4, 'b')].join('\n'));
  assert.deepEqual(bands, [{from: 0, to: 2, label: 'a'}, {from: 2, to: 4, label: 'b'}]);
});

test('limits a chart to the largest series, as many as the palette has colours', () => {
  const clocks = (base) => Object.fromEntries(Array.from({length: 12}, (_, i) => [`cpu${i}`, base + i]));
  const text = [0, 1].map((i) => JSON.stringify({time_ns: i, clocks_hz: clocks(1e9 + i)})).join('\n');
  const [chart] = metrics.parse_metrics(text).charts;
  assert.equal(chart.series.length, 8);
  assert.equal(chart.left_out, 4);
  assert.ok(chart.series.some((series) => series.label === 'cpu11'));
});

test('sorts rows without the figure last in both directions', () => {
  const rows = [{v: 2}, {}, {v: 1}, {v: 3}];
  assert.deepEqual(sorted_by(rows, (row) => row.v, 'ascending'), [{v: 1}, {v: 2}, {v: 3}, {}]);
  assert.deepEqual(sorted_by(rows, (row) => row.v, 'descending'), [{v: 3}, {v: 2}, {v: 1}, {}]);
  assert.deepEqual(sorted_by([{v: 'm10'}, {v: 'm2'}], (row) => row.v, 'ascending'), [{v: 'm2'}, {v: 'm10'}]);
});

test('lists the flags of --task vos, and none that it does not use', () => {
  const vos = {dataset: '/data', prompt: 'box', reference_point: true, profile: 'predictor', objects: 'alone'};
  assert.deepEqual(settings.flags_of({backend: '', task: 'vos', imgsz: 640, conf: 0.25, iou: 0.45, warmup: 10, vos}), [
    ['task', 'vos'], ['warmup', 10], ['dataset', '/data'], ['prompt', 'box'], ['point-rule', 'reference'],
    ['vos-profile', 'predictor'], ['vos-objects', 'alone']]);
  assert.deepEqual(settings.flags_of({task: '', imgsz: 640}), [['imgsz', 640]]);
});

test('shows only settings that differ', () => {
  const base = {threads: 0, arena: true, graph_level: 99};
  assert.equal(settings.settings_words(base, {}), 'threads auto, arena on, graph level all');
  assert.equal(settings.settings_words({...base, arena: false}, base), 'arena off');
  assert.equal(settings.settings_words(base, base), 'same as the first');
  assert.ok(settings.same_settings(base, {...base}));
  assert.ok(!settings.same_settings(base, {...base, device: 'cpu'}));
});
