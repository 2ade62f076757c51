// headroom_model_process runs one model for another process (isolated_messages.h). It exits when the other
// process closes its end of the socket.
#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#include "inference/backend.h"
#include "inference/isolated/isolated_messages.h"

namespace headroom::inference {
namespace {

// Loading and the first runs leave free blocks in the heap: 14 of the 38 MiB of a text recognition model.
// After these runs, malloc_trim() returns them.
constexpr int kFirstRunsOfModel = 2;

// A separate thread watches the socket, because a runtime that hangs would never read it.
void exit_when_peer_closes(int fd) {
  std::thread([fd] {
    pollfd other{fd, POLLRDHUP, 0};
    while (::poll(&other, 1, -1) < 0 || (other.revents & (POLLRDHUP | POLLHUP | POLLERR)) == 0) {
    }
    ::_exit(0);
  }).detach();
}

class ModelServer {
 public:
  ModelServer(MessageChannel channel, SharedTensors in, SharedTensors out)
      : channel_(std::move(channel)), in_(std::move(in)), out_(std::move(out)) {}

  void serve() {
    for (;;) {
      auto request = channel_.receive();
      if (!request || !*request) return;
      Json answer = Json::object();
      Status done;
      try {
        done = handle(**request, answer);
      } catch (const std::bad_alloc&) {
        done = failure("an allocation was refused", "out of memory");
      }
      if (!done) {
        answer = Json::object();
        answer["why"] = done.error().why.empty() ? done.error().what : done.error().why;
        answer["out_of_memory"] = is_out_of_memory(done.error());
      }
      if (!channel_.send(answer)) return;
    }
  }

 private:
  Status handle(const Json& request, Json& answer) {
    const std::string what = get_text(request, "do");
    if (what == "load") return load(request, answer);
    if (!session_) return internal_error("no model is loaded");
    if (what == "run") return run(request, answer);
    if (what == "trim") return session_->trim();
    return internal_error("unknown request", what);
  }

  Status load(const Json& request, Json& answer) {
    auto backend = Backend::open({get_text(request, "backend"), get_text(request, "plugin")});
    if (!backend) return forward_error(backend);
    if (auto started = backend->start(); !started) return started;
    const RuntimeSettings settings = settings_from_json(get_member(request, "settings"));
    if (settings.device != "cpu")
      if (auto ready = backend->prepare_device(settings.device); !ready) return forward_error(ready);
    auto session = backend->load(get_text(request, "path"), settings);
    if (!session) return forward_error(session);
    session_.emplace(std::move(*session));
    ::malloc_trim(0);
    describe(answer);
    return {};
  }

  void describe(Json& answer) const {
    answer["description"] = to_json(session_->description());
    answer["outputs_known"] = session_->knows_outputs();
  }

  Status run(const Json& request, Json& answer) {
    if (request.contains("inputs"))
      if (auto bound = bind(get_member(request, "inputs")); !bound) return bound;
    if (auto ran = session_->run(); !ran) return ran;
    if (!session_->knows_outputs()) {
      if (auto learnt = session_->learn_outputs(); !learnt) return learnt;
      describe(answer);
    }
    if (runs_ < kFirstRunsOfModel && ++runs_ == kFirstRunsOfModel) ::malloc_trim(0);
    return place_outputs(answer);
  }

  // The model reads its inputs directly from the shared memory.
  Status bind(const Json& inputs) {
    std::size_t size = 0;
    for (const Json& entry : inputs) {
      const auto at = get_integer(entry, "at"), bytes = get_integer(entry, "bytes");
      if (!at || !bytes || *at < 0 || *bytes < 0)
        return internal_error("an input has no place in the shared memory");
      size = std::max(size, static_cast<std::size_t>(*at) + static_cast<std::size_t>(*bytes));
    }
    if (auto mapped = in_.follow(size); !mapped) return mapped;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      auto placed = placed_tensor_from_json(inputs[i], in_.size());
      if (!placed) return forward_error(placed);
      // An empty input also needs a valid address.
      std::byte* const data = in_.data() == nullptr ? &empty_input_ : in_.data() + placed->at;
      if (auto bound = session_->bind_input(i, data, placed->bytes, placed->type, placed->dims); !bound)
        return bound;
    }
    return {};
  }

  Status place_outputs(Json& answer) {
    if (auto read = session_->outputs(views_); !read) return read;
    std::vector<PlacedTensor> placed;
    std::size_t end = 0;
    for (const TensorView& view : views_) {
      PlacedTensor tensor{view.type, {view.dims, view.dims + view.rank}, 0, 0};
      if (view.data != nullptr) tensor.bytes = static_cast<std::size_t>(view.count()) * size_of(view.type);
      tensor.at = place_tensor(end, tensor.bytes);
      placed.push_back(std::move(tensor));
    }
    if (auto grown = out_.grow(end); !grown) return grown;
    answer["outputs"] = Json::array();
    for (std::size_t i = 0; i < placed.size(); ++i) {
      if (placed[i].bytes > 0) std::memcpy(out_.data() + placed[i].at, views_[i].data, placed[i].bytes);
      answer["outputs"].push_back(to_json(placed[i]));
    }
    answer["bytes"] = end;
    return {};
  }

  MessageChannel channel_;
  SharedTensors in_, out_;
  std::byte empty_input_{};
  std::optional<Session> session_;  // destroyed before the memory that it reads
  std::vector<TensorView> views_;
  int runs_ = 0;
};

}  // namespace
}  // namespace headroom::inference

int main() {
  using namespace headroom;
  using namespace headroom::inference;
  auto in = SharedTensors::attach(UniqueFd(kInputsFd)), out = SharedTensors::attach(UniqueFd(kOutputsFd));
  if (!in || !out) return 2;              // started by hand, without the inherited descriptors
  ::mallopt(M_MMAP_THRESHOLD, 64 << 10);  // return freed blocks of 64 KiB and more to the system
  ::mallopt(M_ARENA_MAX, 2);
  exit_when_peer_closes(kChannelFd);
  ModelServer(MessageChannel(UniqueFd(kChannelFd)), std::move(*in), std::move(*out)).serve();
  ::_exit(0);  // skip the runtime's own teardown; the kernel frees everything
}
