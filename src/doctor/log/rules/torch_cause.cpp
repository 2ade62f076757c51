#include "doctor/log/rules/torch_cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/log/finding_text.h"
#include "doctor/log/message_text.h"

namespace headroom::doctor {
namespace {

// Zero stands for what the message does not say, where that makes no difference.
struct TorchFigures {
  // No machine has more: sums of the others do not overflow.
  std::optional<Bytes> possible(std::string_view name) const {
    const auto bytes = message.bytes(name);
    return bytes && is_impossible(*bytes) ? std::nullopt : bytes;
  }
  std::optional<Bytes> own() const { return allocated ? allocated : process; }
  // What the program kept from others, idle blocks included.
  Bytes held() const { return process.value_or(allocated.value_or(Bytes{}) + idle); }
  Bytes own_at_most() const {
    return std::max(Bytes{0}, *total - free.value_or(Bytes{0}) - others.value_or(Bytes{0}));
  }
  // What is neither free nor the program's.
  Bytes of_the_rest() const { return *total - *free - held(); }

  const LogMessage& message;
  std::optional<Bytes> requested = message.bytes("requested_bytes"), total = possible("total_bytes"),
                       free = possible("free_bytes"), allocated = possible("allocated_bytes"),
                       others = possible("other_processes_bytes"), allowed = possible("allowed_bytes"),
                       process = possible("process_bytes");
  Bytes idle = possible("unallocated_bytes").value_or(Bytes{});  // reserved and not allocated
};

// PyTorch asks the driver for 2 MiB for requests up to 1 MiB, 20 MiB below 10 MiB, then whole 2 MiB.
Bytes block_for(Bytes requested) {
  constexpr Bytes kSmall = mebibytes(1), kSmallBlock = mebibytes(2), kLarge = mebibytes(10),
                  kLargeBlock = mebibytes(20);
  if (requested <= kSmall) return kSmallBlock;
  if (requested < kLarge) return kLargeBlock;
  return Bytes{(requested.count + kSmallBlock.count - 1) / kSmallBlock.count * kSmallBlock.count};
}

// Twice the request may be gone to what the driver needs beside it, and the last thirtieth of a GPU, up to
// 512 MiB, to what it rounds up. The kernel keeps some tens of MiB (vm.min_free_kbytes) that a Jetson calls
// free.
bool is_far_more_free(const TorchFigures& figures) {
  constexpr Bytes kReserve = mebibytes(64);
  constexpr std::int64_t kPartOfAll = 30;
  if (!figures.requested || !figures.free) return false;
  const Bytes block = block_for(*figures.requested),
              part = std::min(Bytes{figures.total->count / kPartOfAll}, mebibytes(512));
  return *figures.free - block >= std::max({block, kReserve, part});
}

// Whether no more than nine tenths would be full with the request: the rest is the driver's.
bool leaves_much(const TorchFigures& figures) {
  constexpr double kMost = 0.9;
  if (figures.free || !figures.total || !figures.requested) return false;
  const Bytes used = figures.held() + figures.others.value_or(Bytes{}) + block_for(*figures.requested);
  return static_cast<double>(used.count) <= kMost * static_cast<double>(figures.total->count);
}

// A pool is never used to its last block: idle blocks must be a fair share of it.
bool is_fragmented(const TorchFigures& figures) {
  constexpr double kFairShare = 0.05;
  return figures.requested && figures.allocated && figures.idle >= *figures.requested &&
         static_cast<double>(figures.idle.count) >=
             kFairShare * static_cast<double>((*figures.allocated + figures.idle).count);
}

std::string_view cause_of(const TorchFigures& figures) {
  const auto &requested = figures.requested, &total = figures.total, &free = figures.free;
  if (requested && total && *requested > *total) return "too_large";
  if (requested && figures.allowed && free && *free >= *requested &&
      *figures.allowed - *requested < figures.allocated.value_or(Bytes{}) + figures.idle)
    return "own_share";
  if (!total) return "unknown";
  const auto own = figures.own();
  const bool is_spilled = own && *own > *total;
  if (!is_spilled && is_far_more_free(figures)) return "refused";
  if (!own && figures.others) return *figures.others > figures.own_at_most() ? "other_processes" : "cut_off";
  if (!own) return "unknown";
  if (is_spilled) return "spilled";
  if (figures.others && *figures.others > figures.held()) return "other_processes";
  if (free && figures.of_the_rest() > figures.held()) return "rest_of_system";
  if (is_fragmented(figures)) return "fragmentation";
  return leaves_much(figures) ? "not_its_own" : "own_tensors";
}

// The share of the GPU that set_per_process_memory_fraction() has to give. Reserved blocks count against it.
void derive_share(const TorchFigures& figures, LogMessage& message) {
  if (!figures.total || figures.total->count <= 0 || !figures.allocated) return;
  // Four figures of hundredths of a GiB, each up to 5 MiB too small.
  constexpr Bytes kRounded = mebibytes(20);
  constexpr double kHundredths = 100;
  const auto hundredths = [&](Bytes size) {
    return kHundredths * static_cast<double>(size.count) / static_cast<double>(figures.total->count);
  };
  const Bytes reserved = *figures.allocated + figures.idle;
  const double needed =
      std::ceil(hundredths(reserved + block_for(*figures.requested) + kRounded)) / kHundredths;
  const double most = std::floor(hundredths(reserved + *figures.free)) / kHundredths;
  message.add("share_now", fmt::format("{:.2f}", hundredths(*figures.allowed) / kHundredths));
  message.add("share_most", fmt::format("{:.2f}", most));
  if (needed <= most) message.add("share_needed", fmt::format("{:.2f}", needed));
}

// What is there for a request.
std::optional<Bytes> room_of(const TorchFigures& figures, std::string_view cause) {
  if (!figures.free)
    return cause == "too_large" ? std::optional(*figures.total - figures.others.value_or(Bytes{}))
                                : std::nullopt;
  Bytes room = *figures.free;
  if (figures.allowed && figures.allocated)
    room = std::clamp(*figures.allowed - *figures.allocated - figures.idle, Bytes{0}, room);
  return room + figures.idle;
}

// The size of one of these frames: the roundest one that the printed request, which is rounded, allows.
Bytes frame_of(Bytes request, std::int64_t frames) {
  constexpr std::int64_t kHalfOfHundredths = 200;
  const Bytes unit = request < gibibytes(1) ? mebibytes(1) : gibibytes(1);
  const std::int64_t rounding = unit.count / kHalfOfHundredths;
  const std::int64_t most = (request.count + rounding) / frames, least = (request.count - rounding) / frames;
  std::int64_t step = gibibytes(1).count;
  while (step > 1 && most / step * step < least) step /= 2;
  return Bytes{most / step * step};
}

// The log says before that a program moves a video, and this request is an eighth of the GPU or more.
void derive_video(const TorchFigures& figures, LogMessage& message) {
  constexpr std::int64_t kPartOfAll = 8, kMostAtOnce = 64;
  if (message.text("moved") != "video" || !figures.requested || !figures.total) return;
  if (figures.requested->count < figures.total->count / kPartOfAll) return;
  message.add("whole_video", "yes");
  const auto frames = message.number("frames");
  if (!frames || *frames <= 1 || *frames > figures.requested->count) return;
  const Bytes frame = frame_of(*figures.requested, *frames);
  message.add("frame_bytes", frame);
  if (!figures.free || frame.count <= 0 || *figures.free < frame) return;
  const std::int64_t fit = figures.free->count / frame.count;
  message.add("frames_that_fit", fit);
  message.add("frames_at_once", std::min(fit, kMostAtOnce));
}

// How much smaller a request has to be that grows with the batch.
void derive_batch(const TorchFigures& figures, std::string_view cause, LogMessage& message) {
  const auto room = room_of(figures, cause);
  const bool is_known = room && figures.requested && figures.requested->count > 0 && room->count > 0;
  const double part =
      is_known ? static_cast<double>(room->count) / static_cast<double>(figures.requested->count) : 1;
  const double percent = std::floor(100 * part);
  message.add("batch", part >= 1     ? "half"
                       : percent < 1 ? "one"
                       // A message that is cut off does not say what is idle, which would serve, too.
                       : figures.free && !figures.allocated ? "free"
                                                            : "part");
  message.add("batch_times", fmt::format("{:.0f}", 1 / part));
  message.add("batch_percent", fmt::format("{:.0f}", percent));
  message.add("batch_part", fmt::format("{:.2f}", percent / 100));
}

// What keeps PyTorch from splitting blocks. PyTorch up to 2.0, which prints what is "reserved in total",
// stops at a setting that it does not know. Segments that expand are reported to fail on a Jetson, and builds
// for AMD ignore the setting.
void derive_splitting(const TorchFigures& figures, LogMessage& message) {
  // Blocks above the size are not split, so a request of twice the size finds them whole. PyTorch takes 21
  // and more.
  constexpr std::int64_t kLeast = 21, kMost = 512;
  const std::int64_t half = figures.requested.value_or(Bytes{}).count / 2 / mebibytes(1).count;
  message.add("max_split", std::clamp(half, kLeast, kMost));
}

// Servers of language models, which run PyTorch and have settings of their own: what helps a training script,
// half precision or a smaller batch, cannot be done there.
constexpr std::size_t kOfServer = 6;
constexpr std::string_view kServerFigures[kOfServer] = {"server",        "share_flag", "context_flag",
                                                        "requests_flag", "fewer_bits", "more_gpus"};
constexpr std::string_view kServers[][kOfServer] = {
    {"vLLM", "--gpu-memory-utilization", "--max-model-len", "--max-num-seqs", "--quantization fp8",
     "--tensor-parallel-size 2"},
    {"SGLang", "--mem-fraction-static", "--context-length", "--max-running-requests", "--quantization fp8",
     "--tp-size 2"},
    {"TGI", "--cuda-memory-fraction", "--max-total-tokens", "--max-batch-prefill-tokens", "--quantize fp8",
     "--num-shard 2"}};

}  // namespace

std::string_view torch_cause_of(const LogMessage& message) {
  return has_wrong_size(message) ? "wrong_size" : cause_of({message});
}

void derive_torch(std::string_view, LogMessage& message) {
  const TorchFigures figures{message};
  const std::string_view cause = torch_cause_of(message);
  message.add("cause", cause);
  derive_server({}, message);
  const bool has_server = !message.text("server").empty();
  message.add("torch_device", message.text("library") == "XPU" ? "xpu" : "cuda");
  message.add("own_bytes", figures.own());
  if (!figures.process) message.add("process_bytes", figures.own());
  message.add("held_bytes", figures.held());
  if (figures.total) message.add("own_at_most_bytes", figures.own_at_most());
  if (figures.total && figures.free) message.add("rest_bytes", figures.of_the_rest());
  if (cause == "wrong_size") return;
  if (cause == "own_share") derive_share(figures, message);
  derive_video(figures, message);
  if (!has_server || cause == "not_its_own") derive_batch(figures, cause, message);
  const bool is_refused = cause == "refused" || cause == "not_its_own";
  const bool may_split = figures.idle.count > 0 && !has_server && !is_refused && cause != "too_large";
  if (cause == "fragmentation" || may_split) derive_splitting(figures, message);
  if (!has_server && !is_refused) message.add("is_program", "yes");
}

void derive_server(std::string_view, LogMessage& message) {
  const std::string runtime = message.text("runtime");
  for (const auto& server : kServers)
    for (std::size_t i = 0; server[0] == runtime && i < kOfServer; ++i)
      message.add(kServerFigures[i], server[i]);
}

}  // namespace headroom::doctor
