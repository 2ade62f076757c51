// The configuration of the run, merged from file, environment and command line.
import {bytes, duration} from '../format';
import type {Options} from '../report';
import {flags_of, setting_words} from '../settings_words';

export function RunOptions({options, command}: {options: Options; command: string | undefined}) {
  const known = flags_of(options);
  return (
    <section aria-labelledby="options-title">
      <h2 id="options-title">Options of the run</h2>
      <details>
        <summary>{known.length} options, merged from file, environment and command line</summary>
        {command && <p class="path">{command}</p>}
        <dl class="settings">
          {known.map(([key, value]) => <div><dt>{name_of(key)}</dt><dd>{value_words(key, value)}</dd></div>)}
        </dl>
      </details>
    </section>
  );
}

// The key "mem_limit_bytes" is the flag --mem-limit with its unit.
function name_of(key: string): string {
  return key.replace(/_(bytes|ns)$/, '').replace(/_/g, '-');
}

function value_words(key: string, value: string | number | boolean): string {
  if (typeof value === 'number' && key.endsWith('_bytes')) return bytes(value);
  if (typeof value === 'number' && key.endsWith('_ns')) return duration(value);
  return typeof value === 'string' ? value : setting_words(key, value);
}
