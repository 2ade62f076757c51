#include "pool/ready_session.h"

namespace headroom::pool {
namespace {

constexpr std::uint32_t kInputSeed = 1;
constexpr int kWarmRuns = 2;

}  // namespace

Status ReadySession::bind_own_inputs() {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inference::SyntheticInput& input = inputs[i];
    auto bound = session.bind_input(i, input.data.data(), input.data.size(), input.type, input.dims);
    if (!bound) return bound;
  }
  return {};
}

Result<std::shared_ptr<ReadySession>> make_ready(Result<inference::Session> session, int image_size) {
  if (!session) return forward_error(session);
  auto ready = std::make_shared<ReadySession>(std::move(*session));
  auto inputs = inference::make_synthetic_inputs(ready->session.description(), image_size, kInputSeed);
  if (!inputs) return forward_error(inputs);
  ready->inputs = std::move(*inputs);
  if (auto bound = ready->bind_own_inputs(); !bound) return forward_error(bound);
  for (int run = 0; run < kWarmRuns; ++run)
    if (auto ran = ready->session.run(); !ran) return forward_error(ran);
  if (!ready->session.knows_outputs())
    if (auto learnt = ready->session.learn_outputs(); !learnt) return forward_error(learnt);
  return ready;
}

}  // namespace headroom::pool
