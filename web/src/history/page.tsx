// The page of a metric over commits: one chart per model, with a dot per run and a line through the medians.
import {TimeChart} from '../charts/time_chart';
import {counted} from '../format';
import {change_words, highest, type History, lowest, type Model, short_commit, start_words, value_words} from './data';

export function Page({history}: {history: History}) {
  const runs = history.models.reduce((sum, {points}) => sum + points.reduce((all, {values}) => all + values.length, 0), 0);
  return (
    <>
      <header>
        <p class="wordmark">Headroom <span>history</span></p>
        <h1>{history.metric}</h1>
        <p>{history.help}</p>
        <p class="quiet">{counted(history.models.length, 'model')}, {counted(runs, 'run')}</p>
      </header>
      <main>
        {history.models.length > 1 && <Summary history={history} />}
        {history.models.map((model, i) => <ModelSection history={history} model={model} anchor={`model-${i + 1}`} />)}
      </main>
    </>
  );
}

function Summary({history: {models, unit}}: {history: History}) {
  return (
    <section>
      <h2>From the first to the last commit</h2>
      <div class="scroll" role="region" tabIndex={0} aria-label="All models">
        <table>
          <thead><tr><th scope="col" class="text">model</th>{['commits', 'first', 'last', 'change'].map((name) => <th scope="col">{name}</th>)}</tr></thead>
          <tbody>{models.map(({name, points}, i) => {
            const first = points[0]!, last = points[points.length - 1]!;
            return (
              <tr>
                <th scope="row" class="text wrap"><a href={`#model-${i + 1}`}>{name}</a></th><td>{points.length}</td>
                <td>{value_words(unit, first.median)}</td><td>{value_words(unit, last.median)}</td>
                <td>{points.length > 1 ? change_words(first, last) : ''}</td>
              </tr>
            );
          })}</tbody>
        </table>
      </div>
    </section>
  );
}

function ModelSection({history: {metric, unit}, model: {name, points}, anchor}: {history: History; model: Model; anchor: string}) {
  const words = (value: number) => value_words(unit, value);
  const line = {
    label: 'median', color: '--series-1', values: points.map((point) => point.median), low: points.map(lowest), high: points.map(highest),
    dots: points.map((point) => point.values),
  };
  const last = points[points.length - 1]!;
  return (
    <section id={anchor}>
      <h2>{name}</h2>
      <TimeChart title="Each dot is a run; the line goes through the medians" summary={`${metric} of ${name}: ${words(last.median)} at the last commit.`}
        seconds={points.map((_, i) => i)} x_names={points.map((point) => short_commit(point.commit))} lines={[line]} format={words}
        byte_axis={unit === 'bytes'} from_zero={false} />
      <div class="scroll" role="region" tabIndex={0} aria-label={`Commits of ${name}`}>
        <table>
          <thead><tr><th scope="col" class="text">commit</th>
            {['median', 'change', 'runs', 'lowest', 'highest', 'started'].map((title) => <th scope="col">{title}</th>)}</tr></thead>
          <tbody>{points.map((point, i) => (
            <tr>
              <th scope="row" class="text" title={point.commit ?? ''}><code>{short_commit(point.commit)}</code></th>
              <td>{words(point.median)}</td><td>{change_words(points[i - 1], point)}</td><td>{point.values.length}</td>
              <td>{words(lowest(point))}</td><td>{words(highest(point))}</td><td title={point.started_at}>{start_words(point.started_at)}</td>
            </tr>
          ))}</tbody>
        </table>
      </div>
    </section>
  );
}
