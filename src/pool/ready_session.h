// A warmed-up session with its own synthetic inputs. This is the type of session in a pool of inference
// sessions.
#pragma once

#include <memory>
#include <vector>

#include "inference/backend.h"
#include "inference/synthetic_input.h"

namespace headroom::pool {

struct ReadySession {
  std::vector<inference::SyntheticInput> inputs;  // declared before the session, which reads them
  inference::Session session;
  explicit ReadySession(inference::Session loaded) : session(std::move(loaded)) {}
  // Binds the session's own inputs again, in place of a user's.
  Status bind_own_inputs();
};

// Binds synthetic inputs and runs twice. In the first run ONNX Runtime learns how much memory a run needs; in
// the second it allocates that as one block. `image_size` (pixels) replaces dynamic dimensions.
Result<std::shared_ptr<ReadySession>> make_ready(Result<inference::Session> session, int image_size);

}  // namespace headroom::pool
