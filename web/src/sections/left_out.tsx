// Models that were not measured, with the reason, below the other models.
import type {Model} from '../report';
import {ModelBadge} from './status_badge';

export function LeftOut({models, anchors}: {models: Model[]; anchors: Map<Model, string>}) {
  if (models.length === 0) return null;
  return (
    <section aria-labelledby="left-out-title">
      <h2 id="left-out-title">Not measured</h2>
      <ul class="left-out">
        {models.map((model) => (
          <li id={anchors.get(model)}><b>{model.name}</b> <ModelBadge model={model} /> <span class="quiet">{model.error}</span></li>
        ))}
      </ul>
    </section>
  );
}
