// A horizontal stacked bar on a common scale, with ticks and a limit line. It uses plain elements with widths in
// percent, which fit any screen and print unchanged.
import {bytes} from '../format';

export interface Part {
  label: string;
  value: number;
  color: string;  // a CSS variable
}

export interface Tick {
  label: string;
  value: number;
}

interface Props {
  label: string;  // text alternative for the whole bar
  parts: Part[];
  scale: number;  // the value at the right end
  ticks?: Tick[];
  limit?: number | undefined;
  thin?: boolean;
}

export function StackedBar({label, parts, scale, ticks = [], limit, thin = false}: Props) {
  const share = (value: number) => `${(100 * Math.min(value, scale)) / scale}%`;
  return (
    <div class={thin ? 'bar thin' : 'bar'} role="img" aria-label={label}>
      {parts.filter((part) => part.value > 0).map((part) => (
        <div class="part" style={{width: share(part.value), background: `var(${part.color})`}} title={part.label} />
      ))}
      {ticks.map((tick) => <div class="peak-tick" style={{left: share(tick.value)}} title={tick.label} />)}
      {limit !== undefined && <div class="limit-line" style={{left: share(limit)}} title={`limit ${bytes(limit)}`} />}
    </div>
  );
}

export function Legend({items}: {items: {label: string; color?: string; shape?: 'tick' | 'limit'}[]}) {
  return (
    <ul class="legend">
      {items.map((item) => (
        <li><i class={item.shape ?? 'square'} style={item.color ? {background: `var(${item.color})`} : {}} />{item.label}</li>
      ))}
    </ul>
  );
}
