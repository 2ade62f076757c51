// A place of a snapshot: a node of the call tree.
import {PlaceOf} from '../recording/place';
import type {Calls, Placed} from './data';
import {frames_of} from './frames';

export function Place({calls, at}: {calls: Calls; at: Placed}) {
  if (at.place === undefined) return <span class="quiet">(no stack)</span>;
  const {frames, telling} = frames_of(calls, at.place);
  return <PlaceOf telling={telling} frames={frames} />;
}
