// The kernel could not get several pages in one piece, or waited long for them.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char* kContiguous = "contiguous";

std::optional<LogMessage> read(std::string_view line) {
  // "cma: cma_alloc: reserved: alloc failed, req-size: 1024 pages, ret: -12"; -16 is busy, and tried again
  if (has(line, "cma_alloc: ") && has(line, "alloc failed")) {
    if (!has(line, "ret: -12")) return std::nullopt;
    LogMessage message;
    message.subject = kContiguous;
    message.add("pages", integer_after(line, "req-size: "));
    return message;
  }
  const bool failed = has(line, "page allocation failure"),
             stalled = has(line, "page allocation stalls for ");
  if ((!failed && !stalled) || !has(line, "order:")) return std::nullopt;
  LogMessage message;
  message.add("order", integer_after(line, "order:"));
  if (const auto stall = integer_after(line, "stalls for ")) message.add("stalled_ms", stall);
  return message;
}

Finding explain_contiguous(const LogMessage& message) {
  const auto pages = message.number("pages");
  Finding finding;
  finding.id = "contiguous-memory-full";
  finding.severity = Severity::warning;
  finding.title = fmt::format("The kernel could not allocate {}pages from its contiguous memory area (CMA)",
                              pages ? fmt::format("{} ", *pages) : "");
  finding.cause = "Cameras, codecs and displays allocate their buffers in CMA. Its size is fixed at boot.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"see how much of CMA is free", "grep Cma /proc/meminfo", {}},
                   {"make CMA larger, on the kernel's command line", "cma=256M", {}},
                   {"use fewer or smaller camera and codec buffers", "", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  if (message.subject == kContiguous) return explain_contiguous(message);
  const std::int64_t order = message.number("order").value_or(0);
  const auto stalled = message.number("stalled_ms");
  Finding finding;
  finding.id = "page-allocation-failed";
  finding.severity = Severity::warning;
  const std::string pages = order >= 0 && order < 20 ? fmt::format("{}", std::int64_t{1} << order) : "many";
  finding.title = stalled
                      ? fmt::format("The kernel waited {} ms for {} contiguous free pages", *stalled, pages)
                      : fmt::format("The kernel could not find {} contiguous free pages", pages);
  constexpr std::int64_t kCostly = 3;  // PAGE_ALLOC_COSTLY_ORDER: up to it the kernel reclaims until it can
  finding.cause = order > kCostly
                      ? "Memory may have been free, but not in one block of this size: it is fragmented."
                      : "The machine had no free memory, or was too slow at writing pages to disk or swap.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      keep_pages_free({}),
      {"compact free memory into large blocks", "echo 1 | sudo tee /proc/sys/vm/compact_memory", {}},
      {"see which processes hold the memory", "headroom top", {}}};
  return finding;
}

}  // namespace

LogRule page_allocation_rule() {
  LogRule rule{"page-allocation", {"page allocation ", "cma_alloc: "}, read, explain};
  rule.from_outside = true;
  return rule;
}

}  // namespace headroom::doctor
