// The kernel could not write a page to swap. The page stays in memory, so nothing is lost; but what was to be
// freed is not. Where swap is zram, in memory itself, it is most often memory that lacks: alone a warning,
// beside a failure for memory a part of it.
#include <fmt/format.h>

#include "doctor/cure_commands.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kZram = "zram", kDevice = "device";

// "zram: Error allocating memory for compressed page: 1234, size=2048", and behind it "Write-error on
// swap-device (254:0:1234)", which other devices have, too.
std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "zram") && has(line, "Error allocating memory for compressed page: ")) {
    message.part = kZram;
    message.add("swap", kZram);
    message.add("requested_bytes", size_after(line, "size="));
    return message;
  }
  const auto device = text_after(line, "Write-error on swap-device (");
  const std::size_t end = device ? device->find_first_not_of("0123456789:") : line.npos;
  if (end == line.npos || end == 0 || (*device)[end] != ')') return std::nullopt;
  message.part = kDevice;
  const std::string_view numbers = device->substr(0, end);  // major, minor and where on it
  message.add("device", numbers.substr(0, numbers.rfind(':')));
  return message;
}

Finding explain(const LogMessage& message) {
  const bool is_zram = message.text("swap") == kZram;
  const std::string device = message.text("device");
  Finding finding;
  finding.id = "swap-write-failed";
  finding.severity = Severity::warning;
  finding.confidence = is_zram ? Confidence::likely : Confidence::possible;
  finding.title = is_zram ? "zram had no memory for a page that the kernel wanted to swap out"
                          : fmt::format("The kernel could not write to swap (device {})", device);
  finding.cause = is_zram ? "zram stores compressed pages in memory, and no memory was left for them."
                          : "If the device is zram, memory was full, or zram reached its mem_limit. If it is "
                            "a disk or a file, the disk failed or was removed.";
  const Cure which{"find the device", "swapon --show; lsblk -o NAME,MAJ:MIN,TYPE,MOUNTPOINTS", {}};
  if (!is_zram) finding.cures.push_back(which);
  finding.cures.push_back({"see which processes hold the memory", "headroom top", {}});
  finding.cures.push_back(keep_pages_free(std::nullopt));
  finding.cures.push_back(make_swap_file("add swap on a disk as a second level (slow when used)",
                                         std::nullopt, SwapFile::another));
  return finding;
}

}  // namespace

LogRule swap_write_rule() {
  LogRule rule{"swap-write", {"memory for compressed page: ", "rite-error on swap-device ("}, read, explain};
  rule.from_outside = true;
  rule.waits_for_failure = true;
  return rule;
}

}  // namespace headroom::doctor
