// A session with inputs of its own, which has run: what a pool of inference sessions loads.
#pragma once

#include <memory>
#include <vector>

#include "base/result.h"
#include "inference/backend.h"
#include "inference/synthetic_input.h"

namespace headroom::pool {

struct ReadySession {
  std::vector<inference::SyntheticInput> inputs;  // before the session, which reads them
  inference::Session session;
  explicit ReadySession(inference::Session loaded) : session(std::move(loaded)) {}
  // Binds its own inputs, in place of those of whoever used it.
  Status bind_own_inputs();
};

// Binds made-up inputs and runs twice: the first run shows ONNX Runtime what a run needs, the second takes
// that as one block. `image_size` stands in for dimensions that the model leaves open.
Result<std::shared_ptr<ReadySession>> make_ready(Result<inference::Session> session, int image_size);

}  // namespace headroom::pool
