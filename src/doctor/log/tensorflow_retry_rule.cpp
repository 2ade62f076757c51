// TensorFlow tried a faster way, had no memory for it, and goes on with another.
#include <fmt/format.h>

#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  if (!has(line, "ran out of memory trying to allocate ") || !has(line, "this is not a failure"))
    return std::nullopt;
  LogMessage message;
  message.add("requested_bytes", size_after(line, "trying to allocate "));
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "tensorflow-allocation-retried";
  finding.severity = Severity::benign;
  finding.title = fmt::format("TensorFlow continued without {} that would have made it faster",
                              words_for(message.bytes("requested_bytes")));
  finding.cause =
      "The workspace was not available, so TensorFlow chose another convolution algorithm. Nothing failed.";
  return finding;
}

}  // namespace

LogRule tensorflow_retry_rule() { return {"tensorflow-retry", {"this is not a failure"}, read, explain}; }

}  // namespace headroom::doctor
