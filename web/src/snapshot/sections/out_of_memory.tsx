// Allocations that failed: the request, what held the memory, and what would have freed enough memory.
import {bytes, counted, number} from '../../format';
import type {Calls, Device, OutOfMemory as Failure} from '../data';
import {Place} from '../place';
import {moment_words} from '../time_axis';

export function OutOfMemory({device, calls}: {device: Device; calls: Calls}) {
  if (device.oom_count === 0) return null;
  return (
    <section id="oom" aria-labelledby="oom-title">
      <h2 id="oom-title">Out of memory {device.oom_count === 1 ? 'once' : `${number(device.oom_count)} times`}</h2>
      {device.ooms.map((failure, i) => i === 0 ? <Autopsy failure={failure} device={device} calls={calls} /> : (
        <details class="autopsy">
          <summary>{bytes(failure.requested_bytes)} {moment_words(device, failure)}</summary>
          <Autopsy failure={failure} device={device} calls={calls} />
        </details>
      ))}
      {device.oom_count > device.ooms.length && <p class="quiet">The first {number(device.ooms.length)} are shown.</p>}
    </section>
  );
}

function Autopsy({failure, device, calls}: {failure: Failure; device: Device; calls: Calls}) {
  const holders = failure.holders;
  return (
    <>
      <div class="verdict bad">
        <p>{bytes(failure.requested_bytes)} requested {moment_words(device, failure)}, with {bytes(failure.allocated_bytes)} allocated, {bytes(failure.reserved_bytes)} reserved and {bytes(failure.device_free_bytes)} free on the device.</p>
      </div>
      {failure.place !== undefined && <p>Requested by <Place calls={calls} at={failure} /></p>}
      <p>
        {bytes(failure.free_in_segments_bytes)} was free in segments, {bytes(failure.fitting_free_bytes)} of it usable for this request; the
        largest piece was {bytes(failure.largest_fitting_free_bytes)}.
      </p>
      <h3>How to free enough memory</h3>
      {failure.room.length === 0 && <p>Not possible: this process held too little memory.</p>}
      <ul class="room">
        {failure.room.map((option) => (
          <li>
            {option.words}
            {option.by !== 'defragmenting' && option.places.length > 0 && <ul class="holders">{option.places.map((share) => <li>{bytes(share.bytes)} <Place calls={calls} at={share} /></li>)}</ul>}
          </li>
        ))}
      </ul>
      <h3>Places that held the memory</h3>
      <div class="scroll" role="region" tabIndex={0} aria-label="Places that held the memory">
        <table class="sortable">
          <thead><tr><th scope="col">Held</th><th scope="col">In</th><th class="text" scope="col">Place</th></tr></thead>
          <tbody>
            {holders.map((share) => (
              <tr><th scope="row">{bytes(share.bytes)}</th><td>{counted(share.blocks, 'block')}</td><td class="text place"><Place calls={calls} at={share} /></td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
