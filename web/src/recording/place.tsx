// A place in the program: the innermost relevant function and its callers. All frames can be unfolded.
import {telling_frames} from './places';

const CALLERS_IN_LINE = 3;

export function Place({frames}: {frames: string[]}) {
  return <PlaceOf telling={telling_frames(frames)} frames={frames} />;
}

// `telling`: the relevant frames, innermost first.
export function PlaceOf({telling, frames}: {telling: string[]; frames: string[]}) {
  const [first, ...callers] = telling;
  if (first === undefined) return <span class="quiet">(no stack was taken)</span>;
  return (
    <>
      <span class="place-first">{first}</span>
      {frames.length > 1 && (
        <details class="place-callers">
          <summary>{callers.length > 0 ? `← ${callers.slice(0, CALLERS_IN_LINE).join(' ← ')}${callers.length > CALLERS_IN_LINE ? ' ← …' : ''}` : 'all frames'}</summary>
          <ol>{frames.map((frame) => <li>{frame}</li>)}</ol>
        </details>
      )}
    </>
  );
}
