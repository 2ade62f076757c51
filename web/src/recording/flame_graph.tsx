// Flame graph (icicle layout) of live memory. It is drawn on a canvas, which draws thousands of boxes in a few
// milliseconds. A click or Enter zooms, the arrow keys move between boxes, and a text above describes the current box.
import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import {use_width} from '../charts/use_width';
import {bytes, percent} from '../format';
import {css_color} from '../theme';
import {is_place} from './places';
import {type Box, layout, path_to, search, type Tree} from './tree';

interface Props {
  tree: Tree;
  title: string;
  short_name: (name: string) => string;
  words: string;  // the search text
}

const ROW = 20;
const MOST_ROWS = 28;  // more rows scroll
const NARROWEST = 0.6;  // pixels

export function FlameGraph({tree, title, short_name, words}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = use_width(frame);
  const [wanted_top, set_top] = useState(0);
  const [chosen, set_chosen] = useState<number | null>(null);
  const top = wanted_top < tree.bytes.length && tree.bytes[wanted_top]! > 0 ? wanted_top : 0;
  const active = chosen !== null && chosen < tree.bytes.length && tree.bytes[chosen]! > 0 ? chosen : null;
  const {boxes, rows} = useMemo(() => layout(tree, top, NARROWEST / Math.max(1, width)), [tree, top, width]);
  const found = useMemo(() => search(tree, words), [tree, words]);

  const draw = () => {
    if (canvas.current && width > 0) paint(canvas.current, width, rows, boxes, tree, active, words.trim() ? found.nodes : null, short_name);
  };
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

  const box_at = (event: MouseEvent): Box | undefined => {
    const area = canvas.current!.getBoundingClientRect();
    const x = (event.clientX - area.left) / Math.max(1, area.width);
    const row = Math.floor((event.clientY - area.top) / ROW);
    return boxes.find((box) => box.row === row && x >= box.left && x < box.left + box.width);
  };
  const zoom = (node: number) => {
    set_top(node);
    set_chosen(node);
  };
  const on_key = (event: KeyboardEvent) => {
    const at = active ?? top;
    const siblings = tree.children[tree.parent[at]!]!;
    const place = siblings.indexOf(at);
    const next: Record<string, number | undefined> = {
      ArrowUp: tree.parent[at], ArrowDown: tree.children[at]![0],
      ArrowLeft: at > 0 ? siblings[place - 1] : undefined, ArrowRight: at > 0 ? siblings[place + 1] : undefined, Home: top,
    };
    if (event.key === 'Enter') zoom(at);
    else if (event.key === 'Escape') zoom(0);
    else if (event.key in next) {
      const node = next[event.key];
      if (node !== undefined) {
        if (!path_to(tree, node).includes(top)) set_top(tree.parent[node]!);
        set_chosen(node);
        scroll_into_view(frame.current!, tree.depth[node]!);
      }
    } else return;
    event.preventDefault();
  };

  const described = active ?? top;
  return (
    <figure class="chart flame">
      <p class="flame-words" aria-live="polite">
        <b>{tree.name[described]}</b>{' '}
        <span>{bytes(tree.bytes[described])}, {percent(tree.bytes[described]! / Math.max(1, tree.bytes[0]!))}</span>
        {words.trim() && <span class="found">{found.nodes.size === 0 ? 'not found' : `found in ${bytes(found.bytes)}, ${percent(found.bytes / Math.max(1, tree.bytes[0]!))}`}</span>}
        {top !== 0 && <button type="button" onClick={() => zoom(0)}>Zoom out</button>}
      </p>
      <div class="flame-frame" ref={frame} tabIndex={0} role="img" onKeyDown={on_key} style={{maxHeight: `${MOST_ROWS * ROW + 4}px`}}
        aria-label={`${title}: ${bytes(tree.bytes[0])}. The table below lists the largest. Arrow keys move between boxes, Enter zooms, Escape shows all.`}>
        <canvas ref={canvas}
          onPointerMove={(event) => { if (event.pointerType === 'mouse') set_chosen(box_at(event)?.node ?? null); }}
          onPointerLeave={() => set_chosen(null)}
          onClick={(event) => { const box = box_at(event); if (box) zoom(box.node); }} />
      </div>
    </figure>
  );
}

function scroll_into_view(frame: HTMLElement, row: number): void {
  const above = row * ROW;
  if (above < frame.scrollTop) frame.scrollTop = above;
  else if (above + ROW > frame.scrollTop + frame.clientHeight) frame.scrollTop = above + ROW - frame.clientHeight;
}

// A name has the same colour in every graph. The colour only separates neighbours; it has no other meaning.
function shade_of(name: string): number {
  let hash = 7;
  for (let i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return (hash >>> 3) % 6;
}

function paint(canvas: HTMLCanvasElement, width: number, rows: number, boxes: Box[], tree: Tree, active: number | null,
               found: Set<number> | null, short_name: (name: string) => string): void {
  const scale = devicePixelRatio || 1;
  const height = rows * ROW;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const ctx = canvas.getContext('2d')!;
  ctx.scale(scale, scale);
  ctx.font = '12px system-ui, sans-serif';
  ctx.textBaseline = 'middle';
  const shades = Array.from({length: 6}, (_, i) => css_color(`--flame-${i + 1}`));
  const [place, root, hit, ink, faint, edge] = ['--flame-place', '--flame-root', '--flame-found', '--flame-ink', '--flame-faint', '--ink'].map(css_color) as [string, string, string, string, string, string];
  const ellipsis = ctx.measureText('…').width;
  for (const box of boxes) {
    const name = tree.name[box.node]!;
    const left = box.left * width;
    const wide = box.width * width;
    const above = box.row * ROW;
    ctx.fillStyle = found ? (found.has(box.node) ? hit : faint) : box.node === 0 ? root : is_place(name) ? place : shades[shade_of(name)]!;
    ctx.fillRect(left, above, Math.max(0.5, wide - 0.75), ROW - 1);
    if (wide > 26) {
      ctx.fillStyle = ink;
      ctx.fillText(fitted(ctx, short_name(name), wide - 8, ellipsis), left + 4, above + ROW / 2);
    }
    if (box.node === active) {
      ctx.strokeStyle = edge;
      ctx.lineWidth = 2;
      ctx.strokeRect(left + 1, above + 1, Math.max(1, wide - 2.75), ROW - 3);
    }
  }
}

function fitted(ctx: CanvasRenderingContext2D, text: string, width: number, ellipsis: number): string {
  const whole = ctx.measureText(text).width;
  if (whole <= width) return text;
  // Estimates the length from the average letter width, then removes letters one by one.
  let count = Math.floor((text.length * (width - ellipsis)) / whole);
  while (count > 0 && ctx.measureText(text.slice(0, count)).width > width - ellipsis) count--;
  return count > 1 ? `${text.slice(0, count)}…` : '';
}
