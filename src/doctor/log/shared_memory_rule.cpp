// /dev/shm is full: what processes hand each other lies there, and containers give it 64 MiB unless they are
// told otherwise. PyTorch's DataLoader ends with a bus error then.
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

std::optional<LogMessage> read(std::string_view line) {
  LogMessage message;
  if (has(line, "out of shared memory") && has(line, "dataloader")) {
    message.add("told_by", "PyTorch's DataLoader");
    return message;
  }
  const bool is_full = has(line, "No space left on device") && has(line, "/dev/shm");
  const bool cannot_grow =
      has(line, "unable to resize file <") || has(line, "unable to allocate shared memory(shm)");
  if (!is_full && !cannot_grow) return std::nullopt;
  message.add("told_by", is_full ? "the system" : "PyTorch");
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "shared-memory-full";
  finding.severity = Severity::severe;
  finding.title = "Shared memory (/dev/shm) was full (told by " + message.text("told_by") + ")";
  finding.cause =
      "What processes hand each other, a loader's batches above all, lies in /dev/shm. It has half of the "
      "machine's memory, or in a container 64 MiB, and is charged to who filled it.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"give the container more of it", "docker run --shm-size=1g …", {}},
                   {"or the host's", "docker run --ipc=host …", {}},
                   {"load in the process itself, or with fewer workers", "DataLoader(…, num_workers=0)", {}},
                   {"see how full it is, and of what", "df -h /dev/shm; ls -lS /dev/shm | head", {}}};
  return finding;
}

}  // namespace

LogRule shared_memory_rule() {
  return {"shared-memory",
          {"out of shared memory", "No space left on device", "unable to resize file <",
           "unable to allocate shared memory(shm)"},
          read,
          explain};
}

}  // namespace headroom::doctor
