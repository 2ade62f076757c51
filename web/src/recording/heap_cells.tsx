// Map of the heap: each extent is a grid of cells, darker where more is live. The blocks at one end of the largest
// hole are marked.
import {useEffect, useRef} from 'preact/hooks';
import {Legend} from '../charts/stacked_bar';
import {use_width} from '../charts/use_width';
import {bytes, counted} from '../format';
import {css_color} from '../theme';
import type {HeapMap} from './data';

const CELL = 7;
const LEVELS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const BETWEEN = 6;  // pixels between two extents

export function HeapCells({map}: {map: HeapMap}) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = use_width(frame);
  const draw = () => { if (canvas.current && width > 0) paint(canvas.current, width, map); };
  useEffect(draw);
  const latest = useRef(draw);
  latest.current = draw;
  useEffect(() => {
    const redraw = () => latest.current();
    const scheme = matchMedia('(prefers-color-scheme: dark)');
    scheme.addEventListener('change', redraw);
    addEventListener('headroom:relayout', redraw);
    return () => {
      scheme.removeEventListener('change', redraw);
      removeEventListener('headroom:relayout', redraw);
    };
  }, []);
  return (
    <figure class="chart heap-map">
      <Legend items={[
        {label: 'live', color: '--live'}, {label: 'hole', color: '--hole'},
        ...(map.blocker?.extent !== undefined ? [{label: 'splits the free memory', color: '--blocker'}] : []),
      ]} />
      <div ref={frame} role="img" aria-label={`Map of the heap: ${counted(map.extents.length, 'extent')} with ${bytes(map.free_bytes)} in ${counted(map.holes, 'hole')}.`}>
        <canvas ref={canvas} />
      </div>
    </figure>
  );
}

function paint(canvas: HTMLCanvasElement, width: number, map: HeapMap): void {
  const columns = Math.max(1, Math.floor(width / CELL));
  const rows_of = (cells: string) => Math.ceil(cells.length / columns);
  const height = map.extents.reduce((sum, extent) => sum + rows_of(extent.cells) * CELL + BETWEEN, 0);
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext('2d')!;
  ctx.scale(scale, scale);
  const [live, hole, blocker] = ['--live', '--hole', '--blocker'].map(css_color) as [string, string, string];
  let above = 0;
  map.extents.forEach((extent, number) => {
    const place = (cell: number) => [(cell % columns) * CELL, above + Math.floor(cell / columns) * CELL] as const;
    for (let cell = 0; cell < extent.cells.length; cell++) {
      const [x, y] = place(cell);
      ctx.fillStyle = hole;
      ctx.fillRect(x, y, CELL - 1, CELL - 1);
      const level = LEVELS.indexOf(extent.cells[cell]!) / (LEVELS.length - 1);
      if (level === 0) continue;
      ctx.globalAlpha = level === 1 ? 1 : 0.12 + 0.7 * level;
      ctx.fillStyle = live;
      ctx.fillRect(x, y, CELL - 1, CELL - 1);
      ctx.globalAlpha = 1;
    }
    if (map.blocker?.extent === number) {
      const first = Math.floor(map.blocker.offset_bytes! / map.cell_bytes);
      const last = Math.min(extent.cells.length - 1, Math.floor((map.blocker.offset_bytes! + map.blocker.span_bytes - 1) / map.cell_bytes));
      ctx.fillStyle = blocker;
      for (let cell = first; cell <= last; cell++) {
        if (extent.cells[cell] === LEVELS[0]) continue;  // a small hole between its blocks
        const [x, y] = place(cell);
        ctx.fillRect(x, y, CELL - 1, CELL - 1);
      }
    }
    above += rows_of(extent.cells) * CELL + BETWEEN;
  });
}
