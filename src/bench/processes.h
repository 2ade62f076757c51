// Headroom's child processes, each behind a hidden verb. They return exit codes.
#pragma once

#include <string>

namespace headroom::bench {

// `_worker`: loads models, runs frames through them, and reports the results. It links no image library, and
// holds only the model, its buffers and the shared frames. Reads the job from standard input and answers on
// descriptor 3 (bench/protocol.h). Exit codes: 0 when the job was done, 1 when the model failed (an "error"
// event gives the reason), 3 when the job was invalid.
int run_worker();
// `_decode METADATA`: the decoder, which fills the worker's frame ring.
int run_decode_process(const std::string& metadata);
// `_setup`, and its children `_scan` and `_fingerprint`.
int run_setup_process();
int run_scan_process();
int run_fingerprint_process();
// `_layers`: reads a recording. The analysis needs more memory than the conductor may use.
int run_layers_process();
// `_annotate`: draws annotated samples.
int run_annotate_process();
// `_score`: scores the masks of --task vos against the ground truth.
int run_score_process();
// `_gpu_probe`: tries to allocate more than a limit allows.
int run_gpu_probe_process();
// `_gpu_metrics`: reads the GPUs for a run or a monitor (conductor/metrics.h).
int run_gpu_metrics_process(bool is_spared);
// `_build_engine`
int run_build_engine_process();

}  // namespace headroom::bench
