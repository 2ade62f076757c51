// Live memory over time, stacked by layer. Each pixel column shows the moment with the most live memory in its period,
// with the layers of that moment. So a peak of a microsecond is visible even on a phone, and no layer is drawn higher
// than it was. The mouse, a finger, or Shift with the arrow keys select a range; a click selects a moment.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import uPlot from 'uplot';
import {use_width} from '../charts/use_width';
import {bytes, duration, time_ticks} from '../format';
import {css_color} from '../theme';
import type {Timeline} from './data';
import {layer_color, points_in_columns, stack_points, type StackedPoints} from './stacked_points';

export interface Range {
  from_ns: number;
  to_ns: number;
  is_click?: boolean;  // the user clicked one moment, which is somewhere in the range
}

interface Props {
  timeline: Timeline;
  layer_names: string[];
  end_ns: number;
  peak_ns: number;
  peak_bytes: number;
  estimated: boolean;
  shown_ns: number;  // the moment shown below the chart
  range: Range | null;
  set_range: (range: Range | null) => void;
}

// Position of the mouse or keyboard cursor: the point drawn there, and the time.
interface Cursor {
  point: number;
  seconds: number;
}

const HEIGHT = 300;
const CLICK = 4;  // a movement of fewer pixels counts as a click
const FONT = '12px system-ui, sans-serif';

export function MemoryChart({timeline, layer_names, end_ns, peak_ns, peak_bytes, estimated, shown_ns, range, set_range}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const width = use_width(frame);
  const points = useMemo(() => stack_points(timeline, end_ns), [timeline, end_ns]);
  const [cursor, set_cursor] = useState<Cursor | null>(null);
  const [zoom, set_zoom] = useState<Range | null>(null);
  const anchor = useRef<number | null>(null);  // start of a range selected with the keyboard
  const shown = useRef(shown_ns);
  shown.current = shown_ns;
  const choose = useRef(set_range);
  choose.current = set_range;

  useEffect(() => {
    if (width === 0 || !frame.current) return;
    if (chart.current) {
      chart.current.setSize({width, height: HEIGHT});
      return;
    }
    chart.current = new uPlot(options(points, width, set_cursor, (plot) => draw_marks(plot, shown.current, peak_ns)), [points.seconds, ...points.sums] as uPlot.AlignedData, frame.current);
    return brush(chart.current, (chosen) => choose.current(chosen), (plot) => {
      const at = cursor_at(plot, points);
      if (at) choose.current(clicked(at, points, timeline.width_ns));
    });
  }, [width > 0]);
  useEffect(() => { if (width > 0) chart.current?.setSize({width, height: HEIGHT}); }, [width]);

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

  useEffect(() => {
    const plot = chart.current;
    if (!plot) return;
    plot.setScale('x', zoom ? {min: zoom.from_ns / 1e9, max: zoom.to_ns / 1e9} : {min: points.seconds[0]!, max: points.seconds[points.seconds.length - 1]!});
  }, [zoom, width > 0]);

  // uPlot applies a new scale or size at the end of the task, so the range is marked after that.
  useEffect(() => queueMicrotask(() => {
    const plot = chart.current;
    if (!plot) return;
    const left = range ? plot.valToPos(range.from_ns / 1e9, 'x') : 0;
    const right = range ? plot.valToPos(range.to_ns / 1e9, 'x') : 0;
    const whole = plot.over.clientWidth;
    const begin = Math.max(0, Math.min(whole, left));
    plot.setSelect({left: begin, width: Math.max(0, Math.min(whole, right) - begin), top: 0, height: range ? plot.over.clientHeight : 0}, false);
    plot.redraw(false, false);
  }), [range, shown_ns, zoom, width]);

  const on_key = (event: KeyboardEvent) => {
    const count = points.seconds.length;
    const moves: Record<string, number> = {ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -count, End: count};
    const plot = chart.current;
    if (!plot) return;
    const time_at = (index: number) => Math.round(points.seconds[index]! * 1e9);
    if (event.key === 'Enter' && cursor !== null) {
      set_range(clicked(cursor, points, timeline.width_ns));
    } else if (event.key === 'Escape') {
      anchor.current = null;
      set_range(null);
    } else if (moves[event.key] !== undefined) {
      const move = moves[event.key]!;
      const index = Math.min(count - 1, Math.max(0, (cursor?.point ?? (move > 0 ? -1 : count)) + move));
      if (event.shiftKey) {
        anchor.current ??= cursor?.point ?? index;
        const ends = [time_at(anchor.current), time_at(index)].sort((a, b) => a - b);
        set_range({from_ns: ends[0]!, to_ns: ends[1]!});
      } else {
        anchor.current = null;
      }
      plot.setCursor({left: plot.valToPos(points.seconds[index]!, 'x'), top: 0});
      set_cursor({point: index, seconds: points.seconds[index]!});
    } else {
      return;
    }
    event.preventDefault();
  };

  const is_stretch = range !== null && !range.is_click && range.to_ns > range.from_ns;
  return (
    <figure class="chart">
      <div class="readout" aria-live="off">
        {cursor === null ? `Each point is the maximum of its period. Quiet periods show the memory that stayed.${estimated ? ' All values are estimates from samples and can be above the peak by chance.' : ''}` : <>{end_ns < 1e9 ? duration(cursor.seconds * 1e9) : `${cursor.seconds.toFixed(3)} s`} <b>{bytes(points.totals[cursor.point])}</b></>}
      </div>
      <div class="plot brushable" ref={frame} tabIndex={0} role="img" onKeyDown={on_key} style={{minHeight: `${HEIGHT}px`}}
        aria-label={`Memory over time, stacked by layer; at the peak ${bytes(peak_bytes)} at ${duration(peak_ns)}. ` +
          'Arrow keys move the cursor, Shift with arrow keys selects a range, Enter selects the moment, Escape returns to the peak.'} />
      <ul class="layer-legend" aria-label="Layers">
        {layer_names.map((name, layer) => points.order.includes(layer) && (
          <li title={name}>
            <i style={{background: `var(${layer_color(layer, layer_names.length)})`}} />
            <span>{name}</span>
            <b>{cursor !== null && bytes(points.layers[layer]![cursor.point])}</b>
          </li>
        ))}
      </ul>
      <p class="chart-tools">
        <button type="button" disabled={!is_stretch} onClick={() => set_zoom(range)}>Zoom to range</button>
        <button type="button" disabled={!zoom} onClick={() => set_zoom(null)}>Whole recording</button>
        <button type="button" disabled={!range} onClick={() => set_range(null)}>Back to the peak</button>
        <span class="quiet">{is_stretch ? `Selected: ${duration(range.from_ns)} to ${duration(range.to_ns)}.` : 'Drag to select a range, or click a moment.'}</span>
      </p>
    </figure>
  );
}

function options(points: StackedPoints, width: number, set_cursor: (cursor: Cursor | null) => void, draw: (plot: uPlot) => void): uPlot.Options {
  const axis = (): uPlot.Axis => ({
    font: FONT,
    stroke: () => css_color('--ink-soft'),
    grid: {stroke: () => css_color('--grid-over'), width: 1},
    ticks: {show: false},
  });
  return {
    width,
    height: HEIGHT,
    legend: {show: false},
    padding: [18, 8, 0, 0],
    cursor: {y: false, drag: {x: false, y: false}, points: {show: false}},
    scales: {
      x: {time: false},
      y: {range: (_plot, _low, high) => [0, high > 0 ? high * 1.06 : 1]},
    },
    axes: [
      {...axis(), values: (_plot, splits) => time_ticks(splits), space: 80, size: 26},
      {...axis(), size: 76, values: (_plot, splits) => splits.map(bytes), splits: (_plot, _axis, low, high) => byte_splits(low, high)},
    ],
    drawOrder: ['series', 'axes'] as uPlot.DrawOrderKey[],  // the areas are opaque, so the grid is drawn on top
    series: [
      {},
      ...points.order.map((layer): uPlot.Series => ({
        paths: column_paths(points),
        points: {show: false},
        width: 0,
        fill: () => css_color(layer_color(layer, points.layers.length)),
      })),
    ],
    hooks: {draw: [draw], setCursor: [(plot) => set_cursor(cursor_at(plot, points))]},
  };
}

// The point shown in each column of the plot. A column is one page pixel wide.
function shown_points(plot: uPlot, points: StackedPoints): number[] {
  const {min, max} = plot.scales['x']!;
  return points_in_columns(points.seconds, points.totals, min!, max!, Math.max(1, Math.round(plot.bbox.width / devicePixelRatio)));
}

// The point under the mouse. In a quiet period the time is that of the mouse, because nothing changed.
function cursor_at(plot: uPlot, points: StackedPoints): Cursor | null {
  const left = plot.cursor.left ?? -1;
  if (left < 0) return null;
  const shown = shown_points(plot, points);
  const point = shown[Math.min(shown.length - 1, Math.floor(left))]!;
  if (point < 0) return null;
  return {point, seconds: points.is_quiet[point] ? Math.max(points.seconds[point]!, plot.posToVal(left, 'x')) : points.seconds[point]!};
}

// The range for a click: in a quiet period the clicked time, else the period of the point, which contains its maximum.
function clicked({point, seconds}: Cursor, points: StackedPoints, width_ns: number): Range {
  const from_ns = Math.round(seconds * 1e9);
  return {from_ns, to_ns: points.is_quiet[point] ? from_ns : from_ns + width_ns, is_click: true};
}

// Draws the areas as whole pixel columns, so that anti-aliasing does not blur narrow peaks.
function column_paths(points: StackedPoints): uPlot.Series.PathBuilder {
  return (plot, series) => {
    const {left, top, width, height} = plot.bbox;
    const shown = shown_points(plot, points);
    const sums = points.sums[series - 1]!;
    const fill = new Path2D();
    const edge = (column: number) => Math.round(left + (width * column) / shown.length);
    for (let column = 0, next = 0; column < shown.length; column = next) {
      const point = shown[column]!;
      for (next = column + 1; next < shown.length && shown[next] === point; next++);
      if (point < 0 || sums[point]! <= 0) continue;
      const y = Math.round(plot.valToPos(sums[point]!, 'y', true));
      fill.rect(edge(column), y, edge(next) - edge(column), top + height - y);
    }
    return {fill, stroke: null, flags: 0};
  };
}

// Ticks at powers of two, which are round numbers in binary units.
function byte_splits(low: number, high: number): number[] {
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / 5)));
  const splits: number[] = [];
  for (let value = Math.ceil(low / step) * step; value <= high; value += step) splits.push(value);
  return splits;
}

// Uses pointer events, because uPlot's own drag supports only the mouse.
function brush(plot: uPlot, choose: (range: Range) => void, click: (plot: uPlot) => void): () => void {
  const {over} = plot;
  let from: number | null = null;
  const position = (event: PointerEvent) => Math.min(over.clientWidth, Math.max(0, event.clientX - over.getBoundingClientRect().left));
  const ns_at = (left: number) => Math.round(plot.posToVal(left, 'x') * 1e9);
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    from = position(event);
    over.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    if (from === null) return;
    const to = position(event);
    plot.setSelect({left: Math.min(from, to), width: Math.abs(to - from), top: 0, height: over.clientHeight}, false);
  };
  const up = (event: PointerEvent) => {
    if (from === null) return;
    const to = position(event);
    const [left, right] = [Math.min(from, to), Math.max(from, to)];
    from = null;
    if (right - left >= CLICK) return choose({from_ns: ns_at(left), to_ns: ns_at(right)});
    plot.setCursor({left: to, top: 0});
    click(plot);
  };
  const cancel = () => { from = null; };
  const handlers: [string, (event: PointerEvent) => void][] = [['pointerdown', down], ['pointermove', move], ['pointerup', up], ['pointercancel', cancel]];
  for (const [name, handler] of handlers) over.addEventListener(name, handler as EventListener);
  return () => {
    for (const [name, handler] of handlers) over.removeEventListener(name, handler as EventListener);
  };
}

// Marks the moment shown below the chart, and the peak.
function draw_marks(plot: uPlot, shown_ns: number, peak_ns: number): void {
  const {ctx, bbox} = plot;
  const scale = devicePixelRatio;
  const mark = (ns: number, text: string, color: string, dash: number[]) => {
    const x = plot.valToPos(ns / 1e9, 'x', true);
    if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
    ctx.save();
    ctx.strokeStyle = color;
    ctx.fillStyle = color;
    ctx.lineWidth = 1.5 * scale;
    ctx.setLineDash(dash.map((length) => length * scale));
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.font = `600 ${11 * scale}px system-ui, sans-serif`;
    ctx.textBaseline = 'bottom';
    const half = ctx.measureText(text).width / 2;
    ctx.textAlign = 'center';
    ctx.fillText(text, Math.min(bbox.left + bbox.width - half, Math.max(bbox.left + half, x)), bbox.top - 2 * scale);
    ctx.restore();
  };
  if (Math.abs(shown_ns - peak_ns) > 0) mark(peak_ns, '', css_color('--ink-soft'), [2, 3]);
  mark(shown_ns, shown_ns === peak_ns ? 'peak' : 'shown below', css_color('--ink'), []);
}
