// The worker process (hidden verb `_worker`): loads models, runs frames through them, says what it saw. It
// links no image library and keeps nothing but the model, its buffers and the shared frames.
#pragma once

namespace headroom::bench {

// Reads the job from standard input, answers on descriptor 3 (bench/worker_protocol.h). The exit code is 0
// when the job was done, 1 when the model failed (an "error" event says why), 3 when the job was unusable.
int run_worker();

}  // namespace headroom::bench
