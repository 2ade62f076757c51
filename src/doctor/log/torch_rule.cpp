// PyTorch's caching allocator ran out of GPU memory (torch_message.h): who held it (torch_cause.h), and what
// helps (torch_cures.h).
#include <fmt/format.h>

#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"
#include "doctor/log/torch_cause.h"
#include "doctor/log/torch_cures.h"
#include "doctor/log/torch_message.h"
#include "doctor/log/torch_servers.h"

namespace headroom::doctor {
namespace {

Confidence confidence_of(TorchCause cause) {
  switch (cause) {
    case TorchCause::too_large:
    case TorchCause::own_share:
    case TorchCause::limit_of_mac:
      return Confidence::certain;
    case TorchCause::unknown:
    case TorchCause::cut_off:
    case TorchCause::refused_though_free:
    case TorchCause::not_its_own:
      return Confidence::possible;
    default:
      return Confidence::likely;
  }
}

// What one GPU lacks is nothing to another, and two causes have cures of their own.
std::optional<LogMessage> read(std::string_view line) {
  auto message = read_torch(line);
  if (!message) return message;
  const TorchFigures figures(*message);
  const TorchCause cause = torch_cause(figures);
  message->is_vague = cause == TorchCause::unknown || cause == TorchCause::cut_off;
  const std::int64_t gpu = message->number("gpu").value_or(0);
  if (message->is_vague && gpu == 0) return message;  // one that was cut before it is of the usual GPU
  message->subject = fmt::format("GPU {} ", gpu);
  if (!message->is_vague)
    message->subject += fmt::format("{} {}", static_cast<int>(cause), figures.total.value_or(Bytes{}).count);
  return message;
}

Finding explain(const LogMessage& message) {
  const TorchFigures figures(message);
  const TorchCause cause = torch_cause(figures);
  const std::string requested = words_for_requested(message, "");
  Finding finding;
  finding.id = "pytorch-out-of-memory";
  finding.severity = Severity::severe;
  const auto gpu = message.number("gpu");
  const TorchServer* const server = torch_server_of(message);
  finding.title = fmt::format("{} ran out of {} memory{}{}{}",
                              server ? fmt::format("{} (PyTorch)", server->runtime) : "PyTorch",
                              gpu && *gpu > 0 ? fmt::format("GPU {}'s", *gpu) : "GPU",
                              requested.empty() ? "" : ": it asked for " + requested,
                              figures.free ? fmt::format(", {} were free", format_bytes(*figures.free)) : "",
                              figures.total ? fmt::format(" of {}", format_bytes(*figures.total)) : "");
  finding.cause = words_of(cause, figures, message);
  if (is_loading_weights(message)) finding.cause += " The program was loading the model's weights.";
  finding.confidence = confidence_of(cause);
  add_torch_cures(message, figures, cause, finding);
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
