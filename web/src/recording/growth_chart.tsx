// Live memory per cycle or per window. The axis starts at the lowest value, because the growth is what matters.
import {useRef} from 'preact/hooks';
import {use_width} from '../charts/use_width';
import {bytes} from '../format';

const WIDEST = 640;
const HEIGHT = 120;
const LEFT = 78;

interface Props {
  title: string;
  unit: string;  // "cycle"
  at: number[];  // their numbers
  live: number[];
}

export function GrowthChart({title, unit, at, live}: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const width = Math.min(WIDEST, use_width(frame));
  const low = Math.min(...live);
  const high = Math.max(...live);
  const first = at[0]!;
  const last = at[at.length - 1]!;
  const x_of = (number: number) => LEFT + ((number - first) / Math.max(1, last - first)) * (width - LEFT - 8);
  const y_of = (held: number) => 8 + (1 - (held - low) / Math.max(1, high - low)) * (HEIGHT - 36);
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={frame} style={{minHeight: `${HEIGHT}px`}}>
        {width > LEFT && (
          <svg class="spark chart-svg" width={width} height={HEIGHT} role="img"
            aria-label={`${title}, ${unit} ${first} to ${last}: from ${bytes(live[0])} to ${bytes(live[live.length - 1])}.`}>
            <line x1={LEFT} x2={width} y1={HEIGHT - 22} y2={HEIGHT - 22} />
            <path d={live.map((held, i) => `${i === 0 ? 'M' : 'L'}${x_of(at[i]!).toFixed(1)} ${y_of(held).toFixed(1)}`).join('')} />
            {live.map((held, i) => <circle cx={x_of(at[i]!)} cy={y_of(held)} r={2.5}><title>{`${unit} ${at[i]}: ${bytes(held)}`}</title></circle>)}
            <text x={LEFT - 8} y={y_of(high) + 4} text-anchor="end">{bytes(high)}</text>
            {high > low && <text x={LEFT - 8} y={y_of(low) + 4} text-anchor="end">{bytes(low)}</text>}
            <text x={LEFT} y={HEIGHT - 6}>{unit} {first}</text>
            <text x={width} y={HEIGHT - 6} text-anchor="end">{last}</text>
          </svg>
        )}
      </div>
    </figure>
  );
}
