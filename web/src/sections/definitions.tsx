// How the figures are defined, for the reader who has to trust them.
export function Definitions() {
  return (
    <footer>
      <details>
        <summary>How the figures are defined</summary>
        <dl class="definitions">
          <dt>Percentiles</dt>
          <dd>Nearest rank: P50, P90 and P99 are measured values, <code>sorted[ceil(p · n) − 1]</code>, never interpolated. Warm-up frames are left out.</dd>
          <dt>P90 and P99 at most</dt>
          <dd>Upper bound of the percentile at 99 % confidence (early stopping as in MLPerf LoadGen). It needs 64 frames for P90 and 662 for P99; below that the page says “n too small”, or marks the percentile with an asterisk.</dd>
          <dt>sd, CV</dt>
          <dd>Standard deviation, and standard deviation over mean. A CV over 2.5 % is warned about (from 10 frames on): such a run was not quiet.</dd>
          <dt>FPS</dt>
          <dd>Inference: one over the mean inference latency. Whole pipeline: frames over the sum of their end-to-end latencies.</dd>
          <dt>Load peak, run peak</dt>
          <dd>The kernel’s own high-water mark of resident memory while loading and while running, reset in between. The other figures are resident bytes at the end of their phase.</dd>
          <dt>Charged to the limit</dt>
          <dd>
            What the kernel charged the control group that enforces the limit, at its peak. Pages that another group touched first, such
            as those of shared libraries, are resident and not charged, so it can lie below the resident peak. Other limits are held
            against resident memory.
          </dd>
          <dt>Runtime, model, working set, frames</dt>
          <dd>Runtime: resident once the runtime is loaded. Model: loaded − runtime. Frames: decoded frames that the bench holds for the model. Working set: run peak − loaded − frames.</dd>
          <dt>Hard, soft, unavailable</dt>
          <dd>What was proved about the limit on this machine in this run, not what was intended.</dd>
          <dt>Units</dt>
          <dd>1 MiB is 1,048,576 bytes. A dash is a figure that was not measured; it is not zero.</dd>
        </dl>
      </details>
      <p class="quiet">This file is complete in itself: it loads nothing and sends nothing.</p>
    </footer>
  );
}
