// PyTorch's caching allocator ran out of CUDA memory (torch_message.h): who held it, and what helps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/torch_message.h"

namespace headroom::doctor {
namespace {

enum class Cause {
  too_large,        // one allocation is larger than the GPU
  unknown,          // the message does not tell who held the memory
  cut_off,          // it tells what others held, and not what the program did
  own_share,        // what the program allowed itself is used up, and the GPU has more
  spilled,          // more is allocated than there is: the driver moved some to the host
  other_processes,  //
  rest_of_system,   // of a Jetson, which shares the memory
  fragmentation,    //
  own_tensors,
};

struct Figures {
  std::optional<Bytes> requested, total, free, allocated, others, named, allowed, process, pools;
  Bytes idle;  // reserved and not allocated
  explicit Figures(const LogMessage& message)
      : requested(message.bytes("requested_bytes")),
        total(possible(message, "total_bytes")),
        free(possible(message, "free_bytes")),
        allocated(possible(message, "allocated_bytes")),
        others(possible(message, "other_processes_bytes")),
        named(possible(message, "named_processes_bytes")),
        allowed(possible(message, "allowed_bytes")),
        process(possible(message, "process_bytes")),
        pools(possible(message, "private_pools_bytes")),
        idle(possible(message, "unallocated_bytes").value_or(Bytes{})) {}
  // No machine has more: sums of what is left overflow nothing.
  static std::optional<Bytes> possible(const LogMessage& message, std::string_view name) {
    const auto bytes = message.bytes(name);
    return bytes && is_impossible(*bytes) ? std::nullopt : bytes;
  }
  std::optional<Bytes> own() const { return allocated ? allocated : process; }
  // What a message that is cut off leaves to the program, and to what is of no process.
  Bytes own_at_most() const {
    return std::max(Bytes{0}, *total - free.value_or(Bytes{0}) - others.value_or(Bytes{0}));
  }
  // What is neither free nor the program's; where its context is not told, that is taken for the rest's.
  Bytes of_the_rest() const { return *total - *free - process.value_or(*allocated + idle); }
};

Cause cause_of(const Figures& figures) {
  const auto &requested = figures.requested, &total = figures.total, &allocated = figures.allocated;
  if (requested && total && *requested > *total) return Cause::too_large;
  const auto& allowed = figures.allowed;
  if (requested && allowed && figures.free && *figures.free >= *requested &&
      *allowed - *requested < allocated.value_or(Bytes{}) + figures.idle)
    return Cause::own_share;
  if (!total) return Cause::unknown;
  const auto own = figures.own();
  if (!own && figures.others)
    return *figures.others > figures.own_at_most() ? Cause::other_processes : Cause::cut_off;
  if (!own) return figures.named ? Cause::cut_off : Cause::unknown;
  if (*own > *total) return Cause::spilled;
  if (figures.others && *figures.others > *own) return Cause::other_processes;
  if (figures.free && figures.of_the_rest() > *own) return Cause::rest_of_system;
  if (!allocated) return Cause::own_tensors;
  // A pool is never used to its last block: what lies idle must be a fair share of it, too.
  constexpr double kFairShare = 0.05;
  const bool is_much = static_cast<double>(figures.idle.count) >=
                       kFairShare * static_cast<double>((*allocated + figures.idle).count);
  return requested && figures.idle >= *requested && is_much ? Cause::fragmentation : Cause::own_tensors;
}

std::string words_of(Cause cause, const Figures& figures) {
  switch (cause) {
    case Cause::too_large:
      return "One allocation is larger than the whole GPU memory: the input or the batch is too large.";
    case Cause::unknown:
      break;
    case Cause::cut_off:
      return figures.others
                 ? fmt::format(
                       "The message is cut off before it tells what this program held: {} at most, as other "
                       "processes held {}.",
                       format_bytes(figures.own_at_most()), format_bytes(*figures.others))
                 : fmt::format(
                       "The message is cut off: the processes that it names held {}, and one of them may be "
                       "this program.",
                       format_bytes(*figures.named));
    case Cause::own_share:
      return fmt::format(
          "The share of the GPU that the program allowed itself was used up ({}), while {} were free.",
          format_bytes(*figures.allowed), format_bytes(*figures.free));
    case Cause::spilled:
      return fmt::format(
          "{} are allocated on a GPU of {}: the driver had moved memory to the host's already, and none was "
          "left.",
          format_bytes(*figures.own()), format_bytes(*figures.total));
    case Cause::other_processes:
      if (!figures.own())
        return fmt::format("Other processes held {} of the GPU, this one {} at most.",
                           format_bytes(*figures.others), format_bytes(figures.own_at_most()));
      return fmt::format("Other processes held {} of the GPU, this one {}.", format_bytes(*figures.others),
                         format_bytes(figures.process.value_or(*figures.own())));
    case Cause::rest_of_system:
      return fmt::format(
          "Something else held the memory: {} {} of {}. On a Jetson that is the rest of the system, which "
          "shares the memory.",
          figures.allocated ? "PyTorch's own tensors were" : "this program held",
          format_bytes(*figures.own()), format_bytes(*figures.total));
    case Cause::fragmentation:
      return fmt::format(
          "Fragmentation: PyTorch held {} without using them, in pieces of which none was large enough.",
          format_bytes(figures.idle));
    case Cause::own_tensors:
      if (!figures.allocated)
        return fmt::format("The program itself filled the memory: it held {} of {}.",
                           format_bytes(*figures.own()), format_bytes(*figures.total));
      return fmt::format("The program's own tensors filled the memory: {} were allocated{}.",
                         format_bytes(*figures.allocated),
                         figures.pools ? fmt::format(", {} of them in private pools (CUDA graphs)",
                                                     format_bytes(*figures.pools))
                                       : "");
  }
  return "The message does not tell who held the memory.";
}

// PyTorch up to 2.0, which tells what is "reserved in total", stops at a setting that it does not know. On a
// Jetson allocations of growing segments are reported to fail at once.
Cure less_splitting(const LogMessage& message, const Figures& figures) {
  if (message.bytes("cached_bytes"))
    return {"give idle blocks back between steps; PyTorch 1.10 and later can keep large ones whole",
            "torch.cuda.empty_cache()", figures.idle};
  if (!message.bytes("reserved_bytes"))
    return {"let PyTorch grow its segments (not on a Jetson)",
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", figures.idle};
  // Blocks above the size are not split, so a request of twice the size finds them whole. PyTorch takes more
  // than 20.
  constexpr std::int64_t kLeast = 21, kMost = 512;
  const std::int64_t half = figures.requested.value_or(Bytes{}).count / 2 / mebibytes(1).count;
  return {"keep PyTorch from splitting large blocks (1.10 and later)",
          fmt::format("PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:{}", std::clamp(half, kLeast, kMost)),
          figures.idle};
}

// What PyTorch asks the driver for: 2 MiB for requests up to 1 MiB, 20 MiB below 10 MiB, then whole 2 MiB.
Bytes block_for(Bytes requested) {
  constexpr Bytes kSmall = mebibytes(1), kSmallBlock = mebibytes(2), kLarge = mebibytes(10),
                  kLargeBlock = mebibytes(20);
  if (requested <= kSmall) return kSmallBlock;
  if (requested < kLarge) return kLargeBlock;
  return Bytes{(requested.count + kSmallBlock.count - 1) / kSmallBlock.count * kSmallBlock.count};
}

// The fraction is of the whole GPU, and what is reserved counts against it, idle blocks included. In
// hundredths: what the request needs, up; what is there for the program, down.
Cure larger_share(const Figures& figures) {
  const std::string_view what = "allow the program a larger share";
  const auto command = [](std::string_view share) {
    return fmt::format("torch.cuda.set_per_process_memory_fraction({})", share);
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
    return {fmt::format("{}: {:.2f} of the GPU at most, which is all that is free (it has {:.2f})", what,
                        most, now),
            command(fmt::format("{:.2f}", most)),
            {}};
  return {fmt::format("{}: this request needs {:.2f} of the GPU, up to {:.2f} are there (it has {:.2f})",
                      what, needed, most, now),
          command(fmt::format("{:.2f}", needed)),
          {}};
}

// A request that grows with the batch may be as large as what is there for it.
Cure smaller_batch(const Figures& figures, Cause cause) {
  std::optional<Bytes> there;
  if (figures.free) {
    Bytes room = *figures.free;
    // Of what is free only what the program still allows itself.
    if (figures.allowed && figures.allocated)
      room = std::clamp(*figures.allowed - *figures.allocated - figures.idle, Bytes{0}, room);
    there = room + figures.idle;
  }
  if (!figures.free && cause == Cause::too_large) there = *figures.total - figures.others.value_or(Bytes{});
  if (!there || !figures.requested || figures.requested->count <= 0 || there->count <= 0)
    return {"use a smaller batch or input", "batch_size = batch_size // 2", {}};
  const double part = static_cast<double>(there->count) / static_cast<double>(figures.requested->count);
  if (part >= 1) return {"use a smaller batch or input", "batch_size = batch_size // 2", {}};
  // A message that is cut off does not tell what lies idle, which would serve, too.
  const double percent = std::floor(100 * part);
  const std::string fits =
      figures.free && !figures.allocated
          ? fmt::format("what is free holds {:.0f} % of this request, which may grow with it", percent)
          : fmt::format("this request fits at {:.0f} % of it at most, where it grows with it", percent);
  return {"use a smaller batch or input: " + fits,
          fmt::format("batch_size = max(1, int({:.2f} * batch_size))", percent / 100),
          {}};
}

// The cure of the cause first, the others by what they save.
void add_cures(const LogMessage& message, const Figures& figures, Cause cause, Finding& finding) {
  auto& cures = finding.cures;
  const Cure batch = smaller_batch(figures, cause);
  const bool is_batch_first = cause == Cause::too_large;
  if (is_batch_first) cures.push_back(batch);
  const auto end_others = [&] {
    cures.push_back(
        {fmt::format("end or move what else uses the GPU (process {})", message.text("other_processes")),
         "nvidia-smi --query-compute-apps=pid,used_memory --format=csv", figures.others});
  };
  if (cause == Cause::own_share) cures.push_back(larger_share(figures));
  if (cause == Cause::other_processes) end_others();
  if (figures.named && cause == Cause::cut_off)
    cures.push_back({fmt::format("see which of them is this program, and end or move the others (process {})",
                                 message.text("named_processes")),
                     "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
                     {}});
  if (cause == Cause::rest_of_system) {
    cures.push_back({"see who holds the rest, and end it", "headroom top", figures.of_the_rest()});
    cures.push_back({"on a Jetson, give the page cache back before models are loaded",
                     "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
                     {}});
  }
  if (cause == Cause::fragmentation) cures.push_back(less_splitting(message, figures));
  finding.first_cure_meets_cause = !cures.empty();
  if (cause != Cause::fragmentation && cause != Cause::too_large && figures.idle.count > 0)
    cures.push_back(less_splitting(message, figures));
  if (cause != Cause::other_processes && figures.others) end_others();
  if (figures.allocated && figures.allocated->count > 1)
    cures.push_back({"load the model in half precision (at most half of what is allocated)", "model.half()",
                     Bytes{figures.allocated->count / 2}});
  cures.push_back({"run without gradients", "with torch.inference_mode():", {}});
  if (!is_batch_first) cures.push_back(batch);
  cures.push_back({"see which layer held the memory", "headroom trace -- python3 app.py", {}});
}

// What one GPU lacks is nothing to another, and two causes have cures of their own.
std::optional<LogMessage> read(std::string_view line) {
  auto message = read_torch(line);
  if (!message) return message;
  const Figures figures(*message);
  const Cause cause = cause_of(figures);
  message->is_vague = cause == Cause::unknown || cause == Cause::cut_off;
  const std::int64_t gpu = message->number("gpu").value_or(0);
  if (message->is_vague && gpu == 0) return message;  // one that was cut before it is of the usual GPU
  message->subject = fmt::format("GPU {} ", gpu);
  if (!message->is_vague)
    message->subject += fmt::format("{} {}", static_cast<int>(cause), figures.total.value_or(Bytes{}).count);
  return message;
}

Finding explain(const LogMessage& message) {
  const Figures figures(message);
  const Cause cause = cause_of(figures);
  Finding finding;
  finding.id = "pytorch-out-of-memory";
  finding.severity = Severity::severe;
  const auto gpu = message.number("gpu");
  finding.title = fmt::format("PyTorch ran out of {} memory{}{}{}",
                              gpu && *gpu > 0 ? fmt::format("GPU {}'s", *gpu) : "GPU",
                              figures.requested ? ": it asked for " + format_bytes(*figures.requested) : "",
                              figures.free ? fmt::format(", {} were free", format_bytes(*figures.free)) : "",
                              figures.total ? fmt::format(" of {}", format_bytes(*figures.total)) : "");
  finding.cause = words_of(cause, figures);
  finding.confidence = cause == Cause::too_large || cause == Cause::own_share ? Confidence::certain
                       : cause == Cause::unknown || cause == Cause::cut_off   ? Confidence::possible
                                                                              : Confidence::likely;
  add_cures(message, figures, cause, finding);
  return finding;
}

}  // namespace

LogRule torch_rule() {
  return {"pytorch",
          {"ut of memory. Tried", " total capac", "would exceed allowed memory", "MPS backend out of memory",
           "Allocation on device", "OutOfMemoryError"},
          read,
          explain};
}

}  // namespace headroom::doctor
