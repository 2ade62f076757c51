// Histogram of a latency in logarithmic buckets, with the percentiles marked. Drawn as SVG, which prints sharply.
import {useRef} from 'preact/hooks';
import {counted, duration} from '../format';
import {buckets_of, log_ticks, position_of, stack_labels} from '../histogram';
import type {Latency} from '../report';
import {use_width} from './use_width';

const PLOT_HEIGHT = 150;
const AXIS_HEIGHT = 24;
const ROW_HEIGHT = 16;
const CHARACTER = 7;  // maximum width of a character in a bold 11 px label

export function Histogram({title, latency}: {title: string; latency: Latency}) {
  const frame = useRef<HTMLDivElement>(null);
  const width = use_width(frame);
  const buckets = buckets_of(latency);
  const tallest = Math.max(1, ...buckets.map((bucket) => bucket.count));
  const x_of = (ns: number) => 6 + position_of(ns, latency.min, latency.max) * (width - 12);

  const percentiles = [
    {name: 'P50', ns: latency.p50},
    {name: 'P90', ns: latency.p90},
    {name: 'P99', ns: latency.p99},
  ].map((mark) => ({...mark, text: `${mark.name} ${duration(mark.ns)}`}));
  const inside = (x: number, text_width: number) => Math.min(width - text_width / 2, Math.max(text_width / 2, x));
  const labels = stack_labels(percentiles.map(({ns, text}) => {
    const text_width = text.length * CHARACTER;
    return {x: inside(x_of(ns), text_width), width: text_width};
  }));
  const top = (Math.max(...labels.map((label) => label.row)) + 1) * ROW_HEIGHT + 4;
  const bottom = top + PLOT_HEIGHT;

  let last_end = -Infinity;
  const ticks = log_ticks(latency.min, latency.max).flatMap((ns) => {
    const text = duration(ns).replace(/\.0+ /, ' ');
    const half = (text.length * CHARACTER) / 2;
    const x = inside(x_of(ns), 2 * half);
    if (x - half < last_end + 10) return [];
    last_end = x + half;
    return [{x, mark: x_of(ns), text}];
  });

  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <div ref={frame} class="histogram" style={{minHeight: `${PLOT_HEIGHT + AXIS_HEIGHT + ROW_HEIGHT}px`}}>
        {width > 0 && (
          <svg width={width} height={bottom + AXIS_HEIGHT} role="img"
            aria-label={`${title} of ${counted(latency.n, 'frame')}: from ${duration(latency.min)} to ` +
              `${duration(latency.max)}, ${percentiles.map((mark) => mark.text).join(', ')}.`}>
            {buckets.map((bucket) => {
              const left = x_of(bucket.from_ns);
              const right = x_of(bucket.to_ns);
              const height = Math.max(2, (bucket.count / tallest) * PLOT_HEIGHT);  // keeps a single slow frame visible
              return bucket.count > 0 && (
                <rect class="bucket" x={left} width={Math.max(1, right - left - 1)} y={bottom - height} height={height}>
                  <title>{`${duration(bucket.from_ns)} to ${duration(bucket.to_ns)}: ${counted(bucket.count, 'frame')}`}</title>
                </rect>
              );
            })}
            <line class="axis" x1={0} x2={width} y1={bottom} y2={bottom} />
            {ticks.map((tick) => (
              <g>
                <line class="axis" x1={tick.mark} x2={tick.mark} y1={bottom} y2={bottom + 4} />
                <text class="tick" x={tick.x} y={bottom + 16}>{tick.text}</text>
              </g>
            ))}
            {percentiles.map((mark, i) => (
              <g>
                <line class="percentile" x1={x_of(mark.ns)} x2={x_of(mark.ns)} y1={(labels[i]!.row + 1) * ROW_HEIGHT} y2={bottom} />
                <text class="percentile" x={labels[i]!.x} y={labels[i]!.row * ROW_HEIGHT + 12}>{mark.text}</text>
              </g>
            ))}
          </svg>
        )}
      </div>
    </figure>
  );
}
