// The runtime settings of a model, and the trials of --tune.
import {bytes, duration} from '../format';
import type {Settings, Trial} from '../report';
import {same_settings, setting_words, settings_words} from '../settings_words';
import {StatusBadge} from './status_badge';

interface Props {
  settings: Settings;
  smallest: Settings | undefined;
  thresholds: [string, number][];
}

export function SettingsTable({settings, smallest, thresholds}: Props) {
  return (
    <div>
      <h3>Settings</h3>
      <dl class="settings">
        {Object.entries(settings).map(([key, value]) => <div><dt>{key.replace(/_/g, ' ')}</dt><dd>{value_words(key, value)}</dd></div>)}
        {thresholds.map(([name, value]) => <div><dt>{name}</dt><dd>{value}</dd></div>)}
      </dl>
      {smallest && !same_settings(smallest, settings) && (
        <p class="quiet">Smallest within 5 % of the fastest: {settings_words(smallest, settings)}.</p>
      )}
    </div>
  );
}

function value_words(key: string, value: string | number | boolean): string {
  if (key === 'threads' && value === 0) return 'runtime\u2019s choice';
  return setting_words(key, value);
}

export function TrialsTable({trials, chosen, smallest}: {trials: Trial[]; chosen: Settings | undefined; smallest: Settings | undefined}) {
  const base = trials[0]!.settings;
  return (
    <div>
      <h3>Tuning trials</h3>
      <p class="quiet">The first trial: {settings_words(base, {})}. The others show only what they change.</p>
      <div class="scroll" role="region" tabIndex={0} aria-label="Tuning trials">
        <table>
          <thead>
            <tr>
              <th class="text" scope="col">Settings</th><th scope="col">P50</th><th scope="col">Peak</th>
              <th class="text" scope="col">Kept as</th><th class="text" scope="col">Status</th>
            </tr>
          </thead>
          <tbody>
            {trials.map((trial, i) => (
              <tr>
                <th class="text wrap" scope="row">{i === 0 ? 'the first' : settings_words(trial.settings, base)}</th>
                <td>{duration(trial.p50_ns)}</td>
                <td>{bytes(trial.peak_bytes)}</td>
                <td class="text">
                  {[chosen && same_settings(trial.settings, chosen) && 'fastest that fits',
                    smallest && same_settings(trial.settings, smallest) && 'smallest within 5 %'].filter(Boolean).join(', ')}
                </td>
                <td class="text"><StatusBadge status={trial.status} />{trial.error && <small class="cell-note">{trial.error}</small>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
