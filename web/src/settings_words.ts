// Formats runtime settings as text. For a trial, only the differences from the first trial are shown.
import type {Options, Settings} from './report';

export function same_settings(a: Settings, b: Settings): boolean {
  return [...new Set([...Object.keys(a), ...Object.keys(b)])].every((key) => a[key] === b[key]);
}

// ONNX Runtime's values.
const GRAPH_LEVELS: Record<number, string> = {0: 'none', 1: 'basic', 2: 'extended', 99: 'all'};

export function setting_words(key: string, value: string | number | boolean): string {
  if (typeof value === 'boolean') return value ? 'on' : 'off';
  if (key === 'graph_level') return GRAPH_LEVELS[Number(value)] ?? String(value);
  if (key === 'threads' && value === 0) return 'auto';
  return String(value).replace(/_/g, ' ');
}

// Of --task vos, by their keys in options.vos.
const VOS_FLAGS: Record<string, string> = {profile: 'vos-profile', objects: 'vos-objects'};
const UNUSED_WITH_VOS = ['imgsz', 'conf', 'iou'];

// Each flag of the run with its value. Those of --task vos are a separate group in the report.
export function flags_of(options: Options): [string, string | number | boolean][] {
  const flags: [string, string | number | boolean][] = [];
  for (const [key, value] of Object.entries(options)) {
    if (value === '' || (options.vos && UNUSED_WITH_VOS.includes(key))) continue;
    if (typeof value !== 'object')
      flags.push([key, value]);
    else
      for (const [name, one] of Object.entries(value))
        flags.push(name === 'reference_point' ? ['point-rule', 'reference'] : [VOS_FLAGS[name] ?? name, one]);
  }
  return flags;
}

// "threads 2, arena off": the settings that differ from `base`.
export function settings_words(settings: Settings, base: Settings): string {
  const words = Object.entries(settings)
    .filter(([key, value]) => base[key] !== value)
    .map(([key, value]) => `${key.replace(/_/g, ' ')} ${setting_words(key, value)}`);
  return words.length > 0 ? words.join(', ') : 'same as the first';
}
