// NvMap, Tegra's allocator of GPU memory. In "NvMapMemAllocInternalTagged: 1075072515 error 12" the first
// number is 0x40144E03, the ioctl NVMAP_IOC_ALLOC, and no size; 12 is ENOMEM.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  const auto after = text_after(line, "NvMapMem");
  if (!after) return std::nullopt;
  const auto error = integer_after(*after, "error ");
  if (!error || *error == 0) return std::nullopt;
  LogMessage message;
  message.add("errno", error);
  message.add("ioctl_code", integer_after(*after, "AllocInternalTagged: "));
  return message;
}

Finding explain(const LogMessage& message) {
  constexpr std::int64_t kNoMemory = 12;
  const bool no_memory = message.number("errno") == kNoMemory;
  Finding finding;
  finding.id = "nvmap-allocation-failed";
  finding.severity = Severity::warning;
  finding.title = fmt::format("NvMap (the Jetson's GPU memory) refused an allocation, error {}{}",
                              message.number("errno").value_or(0), no_memory ? " (no memory)" : "");
  finding.cause =
      "NvMap uses free pages only and does not wait for the kernel to reclaim the page cache. So it can fail "
      "while MemAvailable is large. A single line may be harmless: the caller may retry. The message does "
      "not contain the size.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"drop the page cache before models are loaded",
       "sync; echo 1 | sudo tee /proc/sys/vm/drop_caches",
       {}},
      keep_pages_free({}),
      {"compact free memory into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory", {}},
      {"watch MemFree and the largest free block while it happens",
       "headroom watch --output watch.jsonl",
       {}}};
  return finding;
}

}  // namespace

LogRule nvmap_rule() {
  LogRule rule{"nvmap", {"NvMapMem"}, read, explain};
  rule.waits_for_failure = true;
  return rule;
}

}  // namespace headroom::doctor
