// The run, the verdict, the limit, the source and the machine.
import type {LimitWords, Verdict} from '../data';
import {bytes, counted, duration} from '../format';
import type {Host, Report, Source} from '../report';
import {MECHANISM_WORDS} from '../words';

interface Props {
  report: Report;
  verdict: Verdict;
  limit_words: LimitWords | undefined;
}

export function Header({report, verdict, limit_words}: Props) {
  const {limit, host} = report;
  return (
    <header>
      <p class="wordmark">Headroom <span>benchmark report</span></p>
      <h1>{report.run_name || 'Unnamed run'}</h1>
      {!report.complete && (
        <p class="banner" role="status">
          <b>Incomplete.</b> The run was interrupted or is still running. The results so far are shown.
        </p>
      )}
      <div class={`verdict ${verdict.tone}`}>
        <p>{verdict.sentence}.</p>
        {verdict.details.length > 0 && <ul>{verdict.details.map((detail) => <li>{detail}</li>)}</ul>}
      </div>
      <dl class="facts">
        <Fact name="Limit">
          {limit ? (
            <>
              <b>{bytes(limit.bytes)}</b>, {limit.type}, by {MECHANISM_WORDS[limit.mechanism] ?? limit.mechanism}
              {limit_words && <small>{limit_words.type}: {limit_words.meaning}</small>}
              {limit_words?.notes && <small>{limit_words.notes}</small>}
            </>
          ) : 'none'}
        </Fact>
        {report.gpu_limit && (
          <Fact name="GPU limit">
            <b>{gpu_limits(report)}</b>, {report.gpu_limit.type}, by {MECHANISM_WORDS[report.gpu_limit.mechanism] ?? report.gpu_limit.mechanism}
          </Fact>
        )}
        <Fact name="Source">{source_words(report)}</Fact>
        <Fact name={host.board ? 'Board' : 'Host'}>{host_words(host)}</Fact>
        <Fact name="Run">
          {report.started_at ? readable_time(report.started_at) : report.run_name}
          <small>
            {[report.setup_time_ns && `setup ${duration(report.setup_time_ns)}`, report.inference_time_ns && `inference ${duration(report.inference_time_ns)}`]
              .filter(Boolean).join(' · ')}
          </small>
          {host.headroom_version && <small>Headroom {host.headroom_version}</small>}
        </Fact>
      </dl>
      {report.command && (
        <p class="command"><code>{report.command.split(' ').map((word) => <><span>{word}</span>{' '}</>)}</code></p>
      )}
      {(report.warnings ?? []).length > 0 && (
        <ul class="warnings" aria-label="Warnings">{report.warnings!.map((warning) => <li>{warning}</li>)}</ul>
      )}
      {(report.source?.skipped ?? []).length > 0 && (
        <details>
          <summary>{counted(report.source!.skipped!.length, 'item')} of the source skipped</summary>
          <ul>{report.source!.skipped!.map((item) => <li><b>{item.name}</b>: {item.reason}</li>)}</ul>
        </details>
      )}
    </header>
  );
}

function Fact({name, children}: {name: string; children: preact.ComponentChildren}) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}

// "600.0 MiB", or one limit per device if they differ.
function gpu_limits({gpu_limit, models}: Report): string {
  const limits = new Map<string, number>();
  for (const {device, limit_bytes} of models.flatMap((model) => model.gpu_memory ?? []))
    if (limit_bytes !== undefined) limits.set(device, limit_bytes);
  if (new Set(limits.values()).size < 2) return bytes(gpu_limit?.bytes);
  return [...limits].sort().map(([device, limit]) => `${device} ${bytes(limit)}`).join(', ');
}

function source_words({source, models}: Report) {
  if (!source?.kind) {
    const has_run = (models ?? []).some((model) => (model.frames ?? 0) > 0);
    return has_run ? 'none; inputs were generated from the models\u2019 signatures' : 'none';
  }
  const place = source.kind === 'camera' || source.kind === 'csi' ? `${source.kind} ${source.camera_index ?? 0}` : `${source.kind?.replace('_dir', 's') ?? ''} ${source.path ?? ''}`;
  const sequences = source.sequences ?? [];
  const size = size_words(source);
  return (
    <>
      <span class="path">{place}</span>
      <small>
        {[source.total_frames ? counted(source.total_frames, 'frame') : '', sequences.length > 1 ? counted(sequences.length, 'sequence') : '',
          size].filter(Boolean).join(' · ')}
      </small>
    </>
  );
}

// The scan stores the largest picture size of a folder, so "up to" is added unless there is only one frame.
export function size_words({kind, sequences = [], total_frames}: Source): string {
  const area = (sequence: {width?: number; height?: number}) => (sequence.width ?? 0) * (sequence.height ?? 0);
  const largest = sequences.reduce((most, sequence) => (area(sequence) > area(most) ? sequence : most), {} as (typeof sequences)[number]);
  if (area(largest) === 0) return '';
  const mixed = (kind === 'image_dir' && total_frames !== 1) || sequences.some((sequence) => sequence.width !== largest.width || sequence.height !== largest.height);
  return `${mixed ? 'up to ' : ''}${largest.width} × ${largest.height}`;
}

function host_words(host: Host) {
  return (
    <>
      {host.board || host.cpu_model || host.machine}
      <small>
        {[host.hostname, host.cpus ? counted(host.cpus, 'CPU') : '', host.ram_total_bytes ? `${bytes(host.ram_total_bytes)} RAM` : '',
          host.board && host.cpu_model, gpu_words(host), host.os, host.kernel && `Linux ${host.kernel}`].filter(Boolean).join(' · ')}
      </small>
    </>
  );
}

// "2 × NVIDIA H200, 140.4 GiB"; GPUs of the same kind are counted.
function gpu_words(host: Host): string {
  const kinds = new Map<string, number>();
  for (const {name, memory_total_bytes} of host.gpus ?? []) {
    const kind = memory_total_bytes ? `${name}, ${bytes(memory_total_bytes)}` : name;
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  }
  return [...kinds].map(([kind, count]) => (count > 1 ? `${count} × ${kind}` : kind)).join(' · ');
}

// "2026-11-21T10:30:00+01:00" → "2026-11-21 10:30:00 +01:00": the device's time zone, not the reader's.
function readable_time(iso: string): string {
  return iso.replace('T', ' ').replace(/(\.\d+)?(Z|[+-]\d\d:?\d\d)$/, ' $2').replace(' Z', ' UTC');
}
