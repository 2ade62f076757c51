// Line chart over time, drawn with uPlot, with shaded bands for phases and a dashed line for the limit. The chart can
// have the keyboard focus: the arrow keys move the cursor, and the values at the cursor are text below the title.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import uPlot from 'uplot';
import {bytes, time_ticks} from '../format';
import {alone_in, type Band, largest_of, type Value} from '../metrics';
import {css_color} from '../theme';
import {use_width} from './use_width';

export interface Line {
  label: string;
  color: string;  // a CSS variable, "--series-1"
  values: Value[];
  fill?: boolean;
  low?: Value[];   // with `high`: a band around the line
  high?: Value[];
  dots?: number[][];  // at each x
  own?: Value[];  // for a stacked line: `values` are the sums with the lines below, `own` its own values; the area is opaque
}

interface Props {
  title: string;
  summary: string;  // for screen readers
  seconds: number[];
  x_words?: (x: number, exact: boolean) => string;  // formats x values that are not seconds; exact is false for axis ticks
  x_steps?: number[];  // distances between ticks; default: decimal
  x_names?: string[];  // x values are places in this list, not times
  lines: Line[];
  format: (value: number) => string;
  byte_axis?: boolean;
  bands?: Band[];
  bands_note?: string;  // lists the bands as text, because narrow bands have no label
  limit?: number | undefined;
  limit_words?: string;  // label of the limit line; default "limit"
  limit_note?: string | undefined;  // explains a curve that is above the limit without violating it
  height?: number;
  sync?: string;
  from_zero?: boolean;  // false: the axis covers the values and at least a tenth of the largest, so a flat line does not look steep
  stepped?: boolean;  // a value is valid until the next point
}

const FONT = '12px system-ui, sans-serif';
// A limit far above the curve would flatten the curve. Above this ratio the limit is shown as text instead.
const LIMIT_ON_SCALE = 3;
const WHOLE_STEPS = [1, 2, 5].flatMap((step) => [1, 10, 100, 1000, 10_000].map((scale) => step * scale)).sort((a, b) => a - b);
const LABEL_STRIP = 20;  // above the plot, for the names of the bands
const BAND_ALPHA = '40', EDGE_ALPHA = '80';  // the edge keeps a peak of one sample visible
const FILL_ALPHA = '26';  // 15 % after a six-digit hex colour

// The number of decimals that distinguishes all of these values.
function digits_of(seconds: readonly number[]): number {
  const range = (seconds[seconds.length - 1] ?? 0) - (seconds[0] ?? 0);
  return range > 0 ? Math.min(9, Math.max(2, 2 - Math.floor(Math.log10(range)))) : 2;
}

export function TimeChart(props: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const width = use_width(frame);
  const [cursor, set_cursor] = useState<number | null>(null);
  const data = useMemo(
    () => [props.seconds, ...props.lines.map((line) => line.values), ...bands_of(props.lines).flatMap((line) => [line.low, line.high])] as uPlot.AlignedData,
    [props.seconds, props.lines],
  );

  useEffect(() => {
    if (width === 0 || !frame.current) return;
    if (chart.current) {
      if (chart.current.data !== data) chart.current.setData(data);
      if (chart.current.width !== width) chart.current.setSize({width, height: props.height ?? 220});
      return;
    }
    chart.current = new uPlot(options(props, width, set_cursor), data, frame.current);
  }, [width, data]);

  useEffect(() => {
    const redraw = () => chart.current?.redraw(false, true);
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', redraw);
    addEventListener('headroom:relayout', redraw);
    return () => {
      scheme.removeEventListener('change', redraw);
      removeEventListener('headroom:relayout', redraw);
      chart.current?.destroy();
    };
  }, []);

  const largest = useMemo(() => largest_in(props.lines), [props.lines]);
  const step = (event: KeyboardEvent) => {
    const count = props.seconds.length;
    const moves: Record<string, number> = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -count, End: count};
    const move = moves[event.key];
    if (move === undefined || !chart.current) return;
    event.preventDefault();
    const index = Math.min(count - 1, Math.max(0, (cursor ?? (move > 0 ? -1 : count)) + move));
    chart.current.setCursor({left: chart.current.valToPos(props.seconds[index]!, 'x'), top: 0});
  };

  return (
    <figure class="chart">
      <figcaption>{props.title}</figcaption>
      <div class="readout" aria-live="off">
        {cursor !== null && <span>{x_text(props, cursor)}</span>}
        {(props.lines.length > 1 || cursor !== null) && props.lines.map((line) => {
          const value = cursor === null ? null : (line.own ?? line.values)[cursor];
          return (
            <span class="key">
              <i style={{background: `var(${line.color})`}} />
              {line.label}
              {value !== null && value !== undefined && <b>{props.format(value)}</b>}
            </span>
          );
        })}
        {props.limit !== undefined && !is_on_scale(props.limit, largest) && (
          <span class="off-scale">limit {bytes(props.limit)}: {(props.limit / largest).toFixed(1)} times the curve’s maximum, outside this scale</span>
        )}
      </div>
      <div class="plot" ref={frame} tabIndex={0} role="img" onKeyDown={step} style={{minHeight: `${props.height ?? 220}px`}}
        aria-label={`${props.title}. ${props.summary} Arrow keys move the cursor.`} />
      {props.limit_note && <p class="bands-note">{props.limit_note}</p>}
      {props.bands_note && <p class="bands-note">{props.bands_note}</p>}
    </figure>
  );
}

function x_text({seconds, x_words, x_names}: Props, at: number): string {
  if (x_names) return x_names[at]!;
  return x_words ? x_words(seconds[at]!, true) : `${seconds[at]!.toFixed(digits_of(seconds))} s`;
}

function bands_of(lines: Line[]): Line[] {
  return lines.filter((line) => line.low && line.high);
}

function largest_in(lines: Line[]): number {
  return Math.max(...lines.map((line) => largest_of(line.high ?? line.values)));
}

// From zero, or around the values.
function y_range(low: number, high: number, from_zero: boolean): [number, number] {
  if (from_zero) {
    const bottom = Math.min(0, low);
    return [bottom, high > bottom ? bottom + (high - bottom) * 1.08 : bottom + 1];
  }
  const least = Math.max(Math.abs(high), Math.abs(low)) / 10 || 1;
  const missing = Math.max(0, least - (high - low)) / 2;
  const margin = (high - low + 2 * missing) * 0.1;
  return [low - missing - margin, high + missing + margin];
}

function is_on_scale(limit: number, largest: number): boolean {
  return limit <= LIMIT_ON_SCALE * largest;
}

function options(props: Props, width: number, set_cursor: (index: number | null) => void): uPlot.Options {
  const largest = largest_in(props.lines);
  const line_count = props.lines.length;
  const limit_on_scale = props.limit !== undefined && is_on_scale(props.limit, largest);
  const axis = (): uPlot.Axis => ({
    font: FONT,
    stroke: () => css_color('--ink-soft'),
    grid: {stroke: () => css_color('--line'), width: 1},
    ticks: {show: false},
  });
  return {
    width,
    height: props.height ?? 220,
    legend: {show: false},
    padding: [props.bands?.length ? LABEL_STRIP : 8, props.x_names ? 36 : 8, 0, 0],
    cursor: {
      y: false,
      drag: {x: false, y: false},
      points: {size: 7},
      ...(props.sync ? {sync: {key: props.sync}} : {}),
    },
    scales: {
      x: {time: false, ...(props.x_names ? {range: [-0.5, props.x_names.length - 0.5] as [number, number]} : {})},
      y: {range: (_plot, low, high) => y_range(low, limit_on_scale ? Math.max(high, props.limit!) : high, props.from_zero !== false)},
    },
    axes: [
      {
        ...axis(), space: props.x_names ? 90 : 70, size: 26,
        values: (_plot, splits) => props.x_names ? splits.map((x) => props.x_names![x] ?? '') : props.x_words ? splits.map((x) => props.x_words!(x, false)) : time_ticks(splits),
        ...(props.x_names ? {incrs: WHOLE_STEPS} : props.x_steps ? {incrs: props.x_steps} : {}),
      },
      {
        ...axis(),
        size: 76,
        values: (_plot, splits) => splits.map(props.format),
        ...(props.byte_axis ? {splits: (_plot: uPlot, _axis: number, low: number, high: number) => byte_splits(low, high)} : {}),
      },
    ],
    series: [
      {},
      ...props.lines.map((line): uPlot.Series => ({
        label: line.label,
        stroke: () => css_color(line.color),
        width: line.own ? 0 : 1.75,
        spanGaps: false,
        ...(props.stepped ? {paths: uPlot.paths.stepped!({align: 1})} : {}),
        points: {show: props.seconds.length < 3, filter: (_plot, _series, all) => (all ? null : alone_in(line.values))},
        ...(line.fill ? {fill: () => css_color(line.color) + (line.own ? '' : FILL_ALPHA)} : {}),
      })),
      ...bands_of(props.lines).flatMap((line): uPlot.Series[] => [0, 1].map(() => ({stroke: () => css_color(line.color) + EDGE_ALPHA, width: 1, points: {show: false}}))),
    ],
    bands: bands_of(props.lines).map((line, i) => ({
      series: [line_count + 2 + 2 * i, line_count + 1 + 2 * i] as [number, number],
      fill: () => css_color(line.color) + BAND_ALPHA,
    })),
    hooks: {
      drawClear: [(plot) => draw_bands(plot, props.bands ?? [])],
      draw: [(plot) => {
        for (const line of props.lines) if (line.dots) draw_dots(plot, line.dots, line.color);
        if (limit_on_scale) draw_limit(plot, props.limit!, props.limit_words ?? 'limit');
      }],
      setCursor: [(plot) => set_cursor(plot.cursor.idx ?? null)],
    },
  };
}

// Ticks at powers of two (64 MiB, 128 MiB, …), which are round numbers in binary units.
function byte_splits(low: number, high: number): number[] {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / 5)));
  const splits: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) splits.push(value);
  return splits;
}

function draw_dots(plot: uPlot, dots: number[][], color: string): void {
  const {ctx} = plot;
  ctx.save();
  ctx.fillStyle = css_color(color);
  dots.forEach((values, x) => values.forEach((value) => {
    ctx.beginPath();
    ctx.arc(plot.valToPos(x, 'x', true), plot.valToPos(value, 'y', true), 2.5 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.fill();
  }));
  ctx.restore();
}

// Shades every other band. A label that does not fit is omitted, because the bands are also listed as text.
function draw_bands(plot: uPlot, bands: Band[]): void {
  const {ctx, bbox} = plot;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * scale}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'bottom';
  bands.forEach((band, i) => {
    const left = Math.max(bbox.left, plot.valToPos(band.from, 'x', true));
    const right = Math.min(bbox.left + bbox.width, plot.valToPos(band.to, 'x', true));
    if (!(right > left)) return;
    ctx.fillStyle = css_color(i % 2 === 0 ? '--band-a' : '--band-b');
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.fillStyle = css_color('--ink-soft');
    if (ctx.measureText(band.label).width + 8 * scale < right - left)
      ctx.fillText(band.label, left + 4 * scale, bbox.top - 3 * scale);
  });
  ctx.restore();
}

function draw_limit(plot: uPlot, limit: number, words: string): void {
  const {ctx, bbox} = plot;
  const scale = devicePixelRatio;
  const y = plot.valToPos(limit, 'y', true);
  ctx.save();
  ctx.strokeStyle = css_color('--limit');
  ctx.lineWidth = 1.5 * scale;
  ctx.setLineDash([6 * scale, 4 * scale]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.font = `600 ${11 * scale}px system-ui, sans-serif`;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'bottom';  // at the left end, where the curve is usually low
  ctx.fillStyle = css_color('--limit-text');
  ctx.fillText(`${words} ${bytes(limit)}`, bbox.left + 4 * scale, y - 3 * scale);
  ctx.restore();
}
