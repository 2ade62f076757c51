#include "doctor/log/torch_cause.h"

#include <fmt/format.h>

#include <algorithm>

#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"

namespace headroom::doctor {
namespace {

// No machine has more: sums of what is left overflow nothing.
std::optional<Bytes> possible(const LogMessage& message, std::string_view name) {
  const auto bytes = message.bytes(name);
  return bytes && is_impossible(*bytes) ? std::nullopt : bytes;
}

std::string words_of_cut_off(const TorchFigures& figures) {
  if (figures.others)
    return fmt::format(
        "The message is cut off before the figure for this program. This program held at most {}, because "
        "other processes held {}.",
        format_bytes(figures.own_at_most()), format_bytes(*figures.others));
  return fmt::format(
      "The message is cut off. The processes in it held {}, and one of them may be this program.",
      format_bytes(*figures.named));
}

// Who refuses a request that fits is not told: what can have done it.
std::string words_of_refusal(const TorchFigures& figures) {
  const bool is_nvidia = figures.library.empty();
  return fmt::format(
      "The memory was not full: {} were free, far more than requested. The request may have hit a limit of "
      "the driver{}, of the control group or of the program (set_per_process_memory_fraction){}. Or another "
      "process held the memory for a moment.",
      format_bytes(*figures.free), is_nvidia ? " or NvMap" : "",
      is_nvidia ? ", or on a Jetson fragmented free memory" : "");
}

// The kernel keeps some tens of MiB for itself (vm.min_free_kbytes), which a Jetson calls free; and twice the
// request may be gone to what the driver needs beside it. The last thirtieth of a GPU, up to 512 MiB, goes to
// what its driver rounds up.
bool is_far_more_free(const TorchFigures& figures) {
  constexpr Bytes kReserve = mebibytes(64);
  constexpr std::int64_t kPartOfAll = 30;
  if (!figures.requested || !figures.free) return false;
  const Bytes block = block_for(*figures.requested),
              part = std::min(Bytes{figures.total->count / kPartOfAll}, mebibytes(512));
  return *figures.free - block >= std::max({block, kReserve, part});
}

// What is free is not told: who else there is, or which limit.
std::string words_of_little(const TorchFigures& figures) {
  return fmt::format(
      "The program's own tensors did not fill the memory: it held {} of {}. {}Either another program held "
      "the rest, or a limit of the driver or of the program's share was reached. The message does not say "
      "which.",
      format_bytes(figures.held()), format_bytes(*figures.total),
      asks_for_large_piece(figures) ? "Intel's driver allocates at most 4 GiB in one piece by default. "
                                    : "");
}

std::string words_of_own_tensors(const TorchFigures& figures) {
  if (!figures.allocated)
    return fmt::format("The program itself filled the memory: it held {} of {}.",
                       format_bytes(*figures.own()), format_bytes(*figures.total));
  return fmt::format(
      "The program's own tensors filled the memory: {} were allocated{}.", format_bytes(*figures.allocated),
      figures.pools ? fmt::format(", {} of them in private pools (CUDA graphs)", format_bytes(*figures.pools))
                    : "");
}

}  // namespace

TorchFigures::TorchFigures(const LogMessage& message)
    : requested(message.bytes("requested_bytes")),
      total(possible(message, "total_bytes")),
      free(possible(message, "free_bytes")),
      allocated(possible(message, "allocated_bytes")),
      others(possible(message, "other_processes_bytes")),
      named(possible(message, "named_processes_bytes")),
      allowed(possible(message, "allowed_bytes")),
      process(possible(message, "process_bytes")),
      pools(possible(message, "private_pools_bytes")),
      of_metal(possible(message, "other_allocations_bytes")),
      idle(possible(message, "unallocated_bytes").value_or(Bytes{})),
      library(message.text("library")),
      is_wrong_size(has_wrong_size(message)) {}

Bytes TorchFigures::own_at_most() const {
  return std::max(Bytes{0}, *total - free.value_or(Bytes{0}) - others.value_or(Bytes{0}));
}

bool TorchFigures::leaves_much() const {
  constexpr double kMost = 0.9;
  if (free || !total || !requested) return false;
  const Bytes used = held() + others.value_or(Bytes{}) + block_for(*requested);
  return static_cast<double>(used.count) <= kMost * static_cast<double>(total->count);
}

Bytes TorchFigures::left_on_mac() const {
  return std::max(Bytes{0}, *allowed - *allocated - of_metal.value_or(Bytes{0}));
}

Bytes block_for(Bytes requested) {
  constexpr Bytes kSmall = mebibytes(1), kSmallBlock = mebibytes(2), kLarge = mebibytes(10),
                  kLargeBlock = mebibytes(20);
  if (requested <= kSmall) return kSmallBlock;
  if (requested < kLarge) return kLargeBlock;
  return Bytes{(requested.count + kSmallBlock.count - 1) / kSmallBlock.count * kSmallBlock.count};
}

bool asks_for_large_piece(const TorchFigures& figures) {
  constexpr Bytes kMost = mebibytes(4096);
  return figures.library == "XPU" && figures.requested && *figures.requested > kMost;
}

TorchCause torch_cause(const TorchFigures& figures) {
  if (figures.is_wrong_size) return TorchCause::wrong_size;
  const auto &requested = figures.requested, &total = figures.total, &allocated = figures.allocated;
  if (requested && total && *requested > *total) return TorchCause::too_large;
  const auto& allowed = figures.allowed;
  if (figures.library == "MPS" && allowed && allocated) return TorchCause::limit_of_mac;
  if (requested && allowed && figures.free && *figures.free >= *requested &&
      *allowed - *requested < allocated.value_or(Bytes{}) + figures.idle)
    return TorchCause::own_share;
  if (!total) return TorchCause::unknown;
  const auto own = figures.own();
  const bool is_spilled = own && *own > *total;
  if (!is_spilled && is_far_more_free(figures)) return TorchCause::refused_though_free;
  if (!own && figures.others)
    return *figures.others > figures.own_at_most() ? TorchCause::other_processes : TorchCause::cut_off;
  if (!own) return figures.named ? TorchCause::cut_off : TorchCause::unknown;
  if (is_spilled) return TorchCause::spilled;
  if (figures.others && *figures.others > figures.held()) return TorchCause::other_processes;
  if (figures.free && figures.of_the_rest() > figures.held()) return TorchCause::rest_of_system;
  const TorchCause otherwise = figures.leaves_much() ? TorchCause::not_its_own : TorchCause::own_tensors;
  if (!allocated) return otherwise;
  // A pool is never used to its last block: what lies idle must be a fair share of it, too.
  constexpr double kFairShare = 0.05;
  const bool is_much = static_cast<double>(figures.idle.count) >=
                       kFairShare * static_cast<double>((*allocated + figures.idle).count);
  return requested && figures.idle >= *requested && is_much ? TorchCause::fragmentation : otherwise;
}

std::string words_of(TorchCause cause, const TorchFigures& figures, const LogMessage& message) {
  switch (cause) {
    case TorchCause::wrong_size:
      return cause_of_wrong_size(message);
    case TorchCause::too_large:
      return "One allocation is larger than the whole GPU memory: the input or the batch is too large.";
    case TorchCause::unknown:
      break;
    case TorchCause::cut_off:
      return words_of_cut_off(figures);
    case TorchCause::own_share:
      return fmt::format("The program used up its own share of the GPU ({}), while {} were free.",
                         format_bytes(*figures.allowed), format_bytes(*figures.free));
    case TorchCause::limit_of_mac:
      return fmt::format(
          "PyTorch held {}{}, of {} that it allows itself on this Mac.", format_bytes(*figures.allocated),
          figures.of_metal ? fmt::format(" and Metal another {}", format_bytes(*figures.of_metal)) : "",
          format_bytes(*figures.allowed));
    case TorchCause::spilled:
      return fmt::format(
          "{} are allocated on a GPU of {}. The driver had already moved memory to the host, and none was "
          "left.",
          format_bytes(*figures.own()), format_bytes(*figures.total));
    case TorchCause::other_processes:
      if (!figures.own())
        return fmt::format("Other processes held {} of the GPU, this process at most {}.",
                           format_bytes(*figures.others), format_bytes(figures.own_at_most()));
      return fmt::format("Other processes held {} of the GPU, this process {}.",
                         format_bytes(*figures.others),
                         format_bytes(figures.process.value_or(*figures.own())));
    case TorchCause::rest_of_system:
      return fmt::format(
          "Something outside this program held the memory: {} {} of {}. On a Jetson, that is the rest of the "
          "system, which shares the memory with the GPU.",
          figures.allocated ? "PyTorch's own tensors took only" : "this program held only",
          format_bytes(*figures.own()), format_bytes(*figures.total));
    case TorchCause::fragmentation:
      return fmt::format(
          "Fragmentation: PyTorch held {} of unused blocks, but none of them was large enough.",
          format_bytes(figures.idle));
    case TorchCause::own_tensors:
      return words_of_own_tensors(figures);
    case TorchCause::refused_though_free:
      return words_of_refusal(figures);
    case TorchCause::not_its_own:
      return words_of_little(figures);
  }
  return "The message does not say which process held the memory.";
}

}  // namespace headroom::doctor
