// The worker process (hidden verb `_worker`): loads models, runs frames through them, and reports the
// results. It links no image library, and holds only the model, its buffers and the shared frames.
#pragma once

namespace headroom::bench {

// Reads the job from standard input and answers on descriptor 3 (bench/worker_protocol.h). Exit codes: 0 when
// the job was done, 1 when the model failed (an "error" event gives the reason), 3 when the job was invalid.
int run_worker();

}  // namespace headroom::bench
