// Definitions of the figures.
export function Definitions() {
  return (
    <footer>
      <details>
        <summary>Definitions of the figures</summary>
        <dl class="definitions">
          <dt>Percentiles</dt>
          <dd>Nearest rank: P50, P90 and P99 are measured values, <code>sorted[ceil(p · n) − 1]</code>, never interpolated. Warm-up runs are excluded.</dd>
          <dt>P90 and P99 at most</dt>
          <dd>Upper bound of the percentile at 99 % confidence (early stopping as in MLPerf LoadGen). It needs 64 frames for P90 and 662 for P99. With fewer, the page shows “too few frames” or marks the percentile with an asterisk.</dd>
          <dt>sd, CV</dt>
          <dd>Standard deviation, and standard deviation over mean. A CV over 2.5 % causes a warning (from 10 frames): the latency is noisy.</dd>
          <dt>FPS</dt>
          <dd>Inference: 1 / mean inference latency. Whole pipeline: frames / sum of their end-to-end latencies.</dd>
          <dt>Load peak, run peak</dt>
          <dd>The kernel’s high-water mark of resident memory while loading and while running; it is reset in between. The other figures are resident bytes at the end of their phase.</dd>
          <dt>Charged to the limit</dt>
          <dd>
            Peak of the memory that the kernel charges to the control group of the limit. A page is charged to the group that touches it
            first, for example a page of a shared library, so the charged peak can be below the resident peak. Other limits apply to
            resident memory.
          </dd>
          <dt>Runtime, model, working set, frames</dt>
          <dd>Runtime: resident once the runtime is loaded. Model: loaded − runtime. Frames: decoded frames that the bench holds for the model. Working set: run peak − loaded − frames.</dd>
          <dt>Hard, soft, unavailable</dt>
          <dd>The result of the probe on this machine before this run, not the intention.</dd>
          <dt>Units</dt>
          <dd>1 MiB is 1,048,576 bytes. A dash means not measured; it does not mean zero.</dd>
        </dl>
      </details>
      <p class="quiet">This file is self-contained: it loads nothing and sends nothing.</p>
    </footer>
  );
}
