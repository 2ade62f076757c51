// /dev/shm is full: what processes hand each other lies there, and containers give it 64 MiB unless they are
// told otherwise. PyTorch's DataLoader ends with a bus error then.
#include <algorithm>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kTriton = "Triton's Python backend", kPostgresql = "PostgreSQL";

// As an error ends, or is followed by where it was; not "… device test for /dev/shm passed".
bool tells_full(std::string_view line) {
  const auto rest = text_after(line, "No space left on device");
  return rest && (trim(*rest).empty() || std::string_view(":;.,'\")]").find(rest->front()) != rest->npos ||
                  rest->starts_with(" ("));
}

// "unable to write to file </torch_31911_952036340_6686>: No space left on device (28)", the same without why
// or with where, as older versions have it, and "unable to open shared memory object </torch_…> …: No space
// left …".
bool tells_no_place(std::string_view line) {
  const auto file = text_after(line, "unable to write to file </torch_");
  if (!file) return has(line, "unable to open shared memory object <") && tells_full(line);
  const std::string_view rest = trim(file->substr(std::min(file->find('>'), file->size())));
  return rest == ">" || rest.starts_with("> at /") || tells_full(rest);
}

// What PyTorch's loader says when it is full comes in several lines of one event.
std::optional<LogMessage> read_loader(std::string_view line) {
  LogMessage message;
  message.add("told_by", "PyTorch's DataLoader");
  if (has(line, "Unexpected bus error encountered in worker") && has(line, "insufficient shared memory"))
    message.part = "bus error";
  else if (has(line, "out of shared memory") && has(line, "dataloader"))
    message.part = "killed";
  else
    return std::nullopt;
  return message;
}

// "Failed to increase the shared memory pool size for key 'triton_python_backend_shm_region_1' to 67108864
// bytes. …", "Unable to initialize shared memory key '…' to requested size (67108864 bytes). …": what models
// written in Python take in and give out. The size is that of the whole region.
std::optional<LogMessage> read_triton(std::string_view line) {
  const auto grown = text_after(line, "Failed to increase the shared memory pool size"),
             begun = text_after(line, "Unable to initialize shared memory key '");
  if (!grown && !begun) return std::nullopt;
  LogMessage message;
  message.add("told_by", kTriton);
  message.add("requested_bytes", grown ? size_after(*grown, " to ") : size_after(*begun, "requested size ("));
  if (!message.bytes("requested_bytes")) return std::nullopt;
  message.part = "triton";
  return message;
}

// "ERROR:  could not resize shared memory segment "/PostgreSQL.1083654800" to 25031264 bytes: No space left
// on device": of a query that several processes work on.
std::optional<LogMessage> read_postgresql(std::string_view line) {
  const auto segment = text_after(line, "could not resize shared memory segment ");
  if (!segment || !tells_full(line)) return std::nullopt;
  LogMessage message;
  message.add("told_by", kPostgresql);
  message.add("requested_bytes", size_after(*segment, " to "));
  message.part = "postgresql";
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto of_loader = read_loader(line)) return of_loader;
  if (auto of_triton = read_triton(line)) return of_triton;
  if (auto of_postgresql = read_postgresql(line)) return of_postgresql;
  LogMessage message;
  const bool is_full = tells_full(line) && has(line, "/dev/shm");
  const bool cannot_grow = has(line, "unable to resize file <") ||
                           has(line, "unable to allocate shared memory(shm)") || tells_no_place(line);
  if (!is_full && !cannot_grow) return std::nullopt;
  message.add("told_by", is_full ? "the system" : "PyTorch");
  message.part = "file";
  return message;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "shared-memory-full";
  finding.severity = Severity::severe;
  const auto requested = message.bytes("requested_bytes");
  const bool is_of_postgresql = message.text("told_by") == kPostgresql;
  finding.title = "Shared memory (/dev/shm) was full (told by " + message.text("told_by") + ")";
  if (is_of_postgresql && requested) finding.title += ": it asked for " + format_bytes(*requested);
  finding.cause =
      "What processes hand each other, a loader's batches above all, lies in /dev/shm. It has half of the "
      "machine's memory, or in a container 64 MiB, and is charged to who filled it.";
  finding.confidence = Confidence::likely;
  finding.cures = {{"give the container more of it", "docker run --shm-size=1g …", {}},
                   {"or the host's", "docker run --ipc=host …", {}},
                   {"load in the process itself, or with fewer workers", "DataLoader(…, num_workers=0)", {}},
                   {"see how full it is, and of what", "df -h /dev/shm; ls -lS /dev/shm | head", {}}};
  if (message.text("told_by") == kTriton)
    finding.cures[2] = {
        "begin with less for each instance of a model, and have fewer of them (1 MiB at least)",
        "tritonserver --backend-config=python,shm-default-byte-size=1048576",
        {}};
  if (is_of_postgresql) {
    finding.cause =
        "What the processes of one query hand each other lies in /dev/shm. It has half of the machine's "
        "memory, or in a container 64 MiB.";
    finding.cures[2] = {"let no query work in parallel", "SET max_parallel_workers_per_gather = 0;", {}};
  }
  return finding;
}

}  // namespace

LogRule shared_memory_rule() {
  return {
      "shared-memory",
      {"out of shared memory", "No space left on device", "unable to resize file <",
       "unable to allocate shared memory(shm)", "unable to write to file </torch_", "Unexpected bus error",
       "the shared memory pool size", "resize shared memory segment", "ialize shared memory key '"},
      read,
      explain};
}

}  // namespace headroom::doctor
