#include "doctor/log/torch_cures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/log/torch_servers.h"

namespace headroom::doctor {
namespace {

constexpr const char* kDropPageCache = "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches";
constexpr const char* kProcessesOfGpu = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv";

// The variable that the message names, as it changed with versions; AMD's builds read one of their own.
std::string allocator_variable(const LogMessage& message, const TorchFigures& figures) {
  std::string named = message.text("setting");
  if (!named.empty()) return named;
  return figures.library == "HIP" ? "PYTORCH_HIP_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

// PyTorch up to 2.0, which tells what is "reserved in total", stops at a setting that it does not know. On a
// Jetson allocations of growing segments are reported to fail at once; builds for AMD warn that the platform
// has none, and go on without; for Intel there is no such variable, and the message itself tells what helps.
Cure less_splitting(const LogMessage& message, const TorchFigures& figures) {
  if (message.bytes("cached_bytes"))
    return {"release idle blocks between steps; PyTorch 1.10 and later can also avoid splitting large blocks",
            "torch.cuda.empty_cache()", figures.idle};
  if (figures.library == "XPU")
    return {"release idle blocks between steps", "torch.xpu.empty_cache()", figures.idle};
  const std::string variable = allocator_variable(message, figures);
  const bool is_amd = figures.library == "HIP";
  if (!message.bytes("reserved_bytes") && !is_amd)
    return {"let PyTorch expand its segments (not on a Jetson)", variable + "=expandable_segments:True",
            figures.idle};
  // Blocks above the size are not split, so a request of twice the size finds them whole. PyTorch takes more
  // than 20.
  constexpr std::int64_t kLeast = 21, kMost = 512;
  const std::int64_t half = figures.requested.value_or(Bytes{}).count / 2 / mebibytes(1).count;
  return {is_amd ? "keep PyTorch from splitting large blocks (expandable_segments has no effect in most "
                   "builds for AMD)"
                 : "keep PyTorch from splitting large blocks (1.10 and later)",
          fmt::format("{}=max_split_size_mb:{}", variable, std::clamp(half, kLeast, kMost)), figures.idle};
}

// The fraction is of the whole GPU, and what is reserved counts against it, idle blocks included. In
// hundredths: what the request needs, up; what is there for the program, down.
Cure larger_share(const TorchFigures& figures) {
  const std::string_view what = "give the program a larger share";
  const auto command = [&](std::string_view share) {
    return fmt::format("torch.{}.set_per_process_memory_fraction({})",
                       figures.library == "XPU" ? "xpu" : "cuda", share);
  };
  if (!figures.total || figures.total->count <= 0 || !figures.allocated)
    return {std::string(what), command("SHARE"), {}};
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
  const double now = hundredths(*figures.allowed) / kHundredths;
  if (needed > most)
    return {
        fmt::format("{}: at most {:.2f} of the GPU, which is all that is free (now {:.2f})", what, most, now),
        command(fmt::format("{:.2f}", most)),
        {}};
  return {fmt::format("{}: this request needs {:.2f} of the GPU, up to {:.2f} are free (now {:.2f})", what,
                      needed, most, now),
          command(fmt::format("{:.2f}", needed)),
          {}};
}

// What is there for a request.
std::optional<Bytes> room_of(const TorchFigures& figures, TorchCause cause) {
  if (cause == TorchCause::limit_of_mac) return figures.left_on_mac();
  if (!figures.free) {
    if (cause != TorchCause::too_large) return std::nullopt;
    return *figures.total - figures.others.value_or(Bytes{});
  }
  Bytes room = *figures.free;
  // Of what is free only what the program still allows itself.
  if (figures.allowed && figures.allocated)
    room = std::clamp(*figures.allowed - *figures.allocated - figures.idle, Bytes{0}, room);
  return room + figures.idle;
}

// A request that grows with the batch may be as large as what is there for it.
Cure smaller_batch(const TorchFigures& figures, TorchCause cause) {
  const auto there = room_of(figures, cause);
  Cure half{"use a smaller batch or input", "batch_size = batch_size // 2", {}};
  if (!there || !figures.requested || figures.requested->count <= 0 || there->count <= 0) return half;
  const double part = static_cast<double>(there->count) / static_cast<double>(figures.requested->count);
  const double percent = std::floor(100 * part);
  if (part >= 1) return half;
  if (percent < 1)
    return {
        fmt::format("use a much smaller batch or input: this request is {:.0f} times the available memory",
                    1 / part),
        "batch_size = 1",
        {}};
  // A message that is cut off does not tell what lies idle, which would serve, too.
  const std::string fits =
      figures.free && !figures.allocated
          ? fmt::format("{:.0f} % of this request fits in the free memory, and it may grow with the batch",
                        percent)
          : fmt::format(
                "this request fits at {:.0f} % of the current size or less, if it grows with the batch",
                percent);
  return {"use a smaller batch or input: " + fits,
          fmt::format("batch_size = max(1, int({:.2f} * batch_size))", percent / 100),
          {}};
}

// PyTorch's limit on a Mac is 1.7 times what Metal recommends unless it is told otherwise; it takes up to
// twice as much, or 0 for no limit.
Cure higher_limit_of_mac(const TorchFigures& figures) {
  constexpr double kUsual = 1.7, kMost = 2.0, kHundredths = 100;
  const Bytes needed = *figures.allocated + figures.of_metal.value_or(Bytes{}) + *figures.requested;
  const double ratio = std::ceil(kHundredths * kUsual * static_cast<double>(needed.count) /
                                 static_cast<double>(std::max<std::int64_t>(1, figures.allowed->count))) /
                       kHundredths;
  if (ratio > kMost)
    return {
        "remove the limit (the Mac then swaps, and may hang)", "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", {}};
  return {fmt::format("raise the limit to {:.2f} (default: {}; the Mac then swaps; 0.0 means no limit)",
                      ratio, kUsual),
          fmt::format("PYTORCH_MPS_HIGH_WATERMARK_RATIO={:.2f}", ratio),
          {}};
}

// At most half of what is allocated; nothing of a model that is in half precision already.
void add_half_precision(const LogMessage& message, const TorchFigures& figures, std::vector<Cure>& cures) {
  if (!figures.allocated || figures.allocated->count <= 1 || !message.text("precision").empty()) return;
  cures.push_back({"load the model in half precision (saves at most half of the allocated memory)",
                   "model.half()", Bytes{figures.allocated->count / 2}});
}

std::vector<Cure> cures_of_mac(const LogMessage& message, const TorchFigures& figures, TorchCause cause) {
  std::vector<Cure> cures{smaller_batch(figures, cause),
                          {"release idle blocks between steps", "torch.mps.empty_cache()", {}},
                          {"run without gradients", "with torch.inference_mode():", {}}};
  if (cause != TorchCause::limit_of_mac) return cures;
  add_half_precision(message, figures, cures);
  if (figures.requested) cures.push_back(higher_limit_of_mac(figures));
  return cures;
}

// Nothing was full: first who refused it, and when.
std::vector<Cure> cures_of_refusal(const TorchFigures& figures) {
  std::vector<Cure> cures{
      {"see which processes allocate memory at that moment", "headroom top", {}},
      {"read the driver's messages", "sudo dmesg | grep -iE 'nvmap|nvgpu|NVRM|amdgpu|xe '", {}},
      {"check for limits: of the control group, or a share that the program sets",
       "cat /sys/fs/cgroup/memory.max; grep -rn set_per_process_memory_fraction .",
       {}}};
  if (figures.library.empty())
    cures.push_back(
        {"on a Jetson, drop the page cache before models are loaded: free memory then has larger blocks",
         kDropPageCache,
         {}});
  return cures;
}

// What the program held is far from all: first who else there is, then which limit.
std::vector<Cure> cures_of_little(const TorchFigures& figures) {
  std::vector<Cure> cures{{"see which other processes hold the memory while it happens", "headroom top", {}}};
  if (asks_for_large_piece(figures))
    cures.push_back({"allow Intel's driver to allocate more than 4 GiB in one piece",
                     "UR_L0_USE_RELAXED_ALLOCATION_LIMITS=1",
                     {}});
  cures.push_back(
      {"check whether the program sets its own share", "grep -rn set_per_process_memory_fraction .", {}});
  cures.push_back(smaller_batch(figures, TorchCause::not_its_own));
  return cures;
}

// What was meant for a program whose code one can change.
void add_program_cures(const LogMessage& message, const TorchFigures& figures, TorchCause cause,
                       std::vector<Cure>& cures) {
  add_half_precision(message, figures, cures);
  cures.push_back({"run without gradients", "with torch.inference_mode():", {}});
  if (cause != TorchCause::too_large) cures.push_back(smaller_batch(figures, cause));
  cures.push_back({"see which layer held the memory", "headroom trace -- python3 app.py", {}});
}

}  // namespace

void add_torch_cures(const LogMessage& message, const TorchFigures& figures, TorchCause cause,
                     Finding& finding) {
  auto& cures = finding.cures;
  if (cause == TorchCause::wrong_size) {
    cures = {{"check the shapes before that line: one dimension is negative or far too large",
              "print(tensor.shape)",
              {}}};
    return;
  }
  if (figures.library == "MPS") {
    cures = cures_of_mac(message, figures, cause);
    return;
  }
  const TorchServer* const server = torch_server_of(message);
  if (cause == TorchCause::refused_though_free) cures = cures_of_refusal(figures);
  if (cause == TorchCause::not_its_own) cures = cures_of_little(figures);
  if (cause == TorchCause::too_large && server == nullptr) cures.push_back(smaller_batch(figures, cause));
  const auto end_others = [&] {
    cures.push_back({fmt::format("end or move the other processes on the GPU (process {})",
                                 message.text("other_processes")),
                     kProcessesOfGpu, figures.others});
  };
  if (cause == TorchCause::own_share) cures.push_back(larger_share(figures));
  if (cause == TorchCause::other_processes) end_others();
  if (figures.named && cause == TorchCause::cut_off)
    cures.push_back(
        {fmt::format("find out which of them is this program, and end or move the others (process {})",
                     message.text("named_processes")),
         kProcessesOfGpu,
         {}});
  if (cause == TorchCause::rest_of_system) {
    cures.push_back(
        {"find the process that holds the rest, and end it", "headroom top", figures.of_the_rest()});
    if (figures.library.empty())
      cures.push_back({"on a Jetson, drop the page cache before models are loaded", kDropPageCache, {}});
  }
  if (cause == TorchCause::fragmentation) cures.push_back(less_splitting(message, figures));
  finding.first_cure_meets_cause = !cures.empty();
  if (cause == TorchCause::refused_though_free || cause == TorchCause::not_its_own) return;
  if (cause != TorchCause::fragmentation && cause != TorchCause::too_large && figures.idle.count > 0 &&
      server == nullptr)
    cures.push_back(less_splitting(message, figures));
  if (cause != TorchCause::other_processes && figures.others) end_others();
  if (server != nullptr)
    add_server_cures(*server, message, cures);
  else
    add_program_cures(message, figures, cause, cures);
}

}  // namespace headroom::doctor
