// Shared memory is full. Most often that is /dev/shm: what processes hand each other lies there, and
// containers give it 64 MiB unless they are told otherwise. PyTorch's DataLoader ends with a bus error then.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr const char* kLocks = "locks";
constexpr std::string_view kLettersOfSettings = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kLockSetting = "max_locks_per_transaction";
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

// "HINT:  " behind what a logger puts there, or the key of a record.
bool is_behind_hint(std::string_view before) {
  constexpr std::string_view kName = "HINT:  ";
  if (before.ends_with("\"hint\":\"") || before.ends_with("\"hint\": \"")) return true;
  if (!before.ends_with(kName)) return false;
  before.remove_suffix(kName.size());
  return before.empty() || before.ends_with(' ');
}

// "HINT:  You might need to increase "max_locks_per_transaction".", before PostgreSQL 17 without the
// quotation marks, escaped ones in its logs of JSON; or max_pred_locks_per_transaction.
std::string_view setting_of_hint(std::string_view line) {
  constexpr std::string_view kWords = "You might need to increase ";
  auto setting = text_after(line, kWords);
  if (!setting || !is_behind_hint(line.substr(0, line.find(kWords)))) return {};
  setting->remove_prefix(std::min(setting->find_first_not_of("\\\""), setting->size()));
  const std::string_view name = setting->substr(0, setting->find_first_not_of(kLettersOfSettings));
  return name.ends_with("locks_per_transaction") ? name : std::string_view();
}

// "ERROR:  out of shared memory", and no more: as PostgreSQL words it, and drivers hand it on
// ("psycopg2.errors.OutOfMemory: out of shared memory"). Other programs say so with words around it.
bool tells_full_lock_table(std::string_view line) {
  constexpr std::string_view kWords = "out of shared memory";
  const std::string_view text = trim(line);
  if (!text.ends_with(kWords)) return false;
  const std::string_view before = text.substr(0, text.size() - kWords.size());
  return before.ends_with("ERROR:  ") || before.ends_with("FATAL:  ") || before.ends_with(".OutOfMemory: ");
}

// PostgreSQL's table of locks, which has a fixed size from its start: no want of the machine's memory.
std::optional<LogMessage> read_locks(std::string_view line) {
  const std::string_view setting = setting_of_hint(line);
  if (setting.empty() && !tells_full_lock_table(line)) return std::nullopt;
  LogMessage message;
  message.subject = kLocks;
  message.part = setting.empty() ? "error" : "hint";
  message.add("told_by", kPostgresql);
  message.add("setting", setting);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  if (auto of_loader = read_loader(line)) return of_loader;
  if (auto of_triton = read_triton(line)) return of_triton;
  if (auto of_postgresql = read_postgresql(line)) return of_postgresql;
  if (auto of_locks = read_locks(line)) return of_locks;
  LogMessage message;
  const bool is_full = tells_full(line) && has(line, "/dev/shm");
  const bool cannot_grow = has(line, "unable to resize file <") ||
                           has(line, "unable to allocate shared memory(shm)") || tells_no_place(line);
  if (!is_full && !cannot_grow) return std::nullopt;
  message.add("told_by", is_full ? "the system" : "PyTorch");
  message.part = "file";
  return message;
}

// Its size is max_locks_per_transaction for each connection and prepared transaction. 64 is the setting's
// default; a session that needs more borrows what others leave.
Finding explain_locks(const LogMessage& message, Finding finding) {
  std::string setting = message.text("setting");
  finding.confidence = setting.empty() ? Confidence::likely : Confidence::certain;
  if (setting.empty()) setting = kLockSetting;
  finding.id = "lock-table-full";
  finding.title = fmt::format("PostgreSQL's lock table was full ({}); memory did not run out", setting);
  finding.cause =
      "PostgreSQL creates the table at its start, with a fixed number of locks for each connection. A "
      "transaction on many tables or partitions (pg_dump, DROP of a large schema) used them all. The "
      "machine's memory does not matter.";
  finding.cures = {
      {"make the table larger, then restart PostgreSQL",
       fmt::format("ALTER SYSTEM SET {} = 256;", setting),
       {}},
      {"see the current setting, and which sessions hold the locks",
       fmt::format("SHOW {}; SELECT pid, count(*) FROM pg_locks GROUP BY pid ORDER BY 2 DESC;", setting),
       {}},
      {"use fewer tables in one transaction", "", {}}};
  finding.first_cure_meets_cause = true;
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  if (message.subject == kLocks) {
    finding.severity = Severity::severe;
    return explain_locks(message, std::move(finding));
  }
  finding.id = "shared-memory-full";
  finding.severity = Severity::severe;
  const auto requested = message.bytes("requested_bytes");
  const bool is_of_postgresql = message.text("told_by") == kPostgresql;
  finding.title = "Shared memory (/dev/shm) was full (reported by " + message.text("told_by") + ")";
  if (is_of_postgresql && requested) finding.title += ": it asked for " + format_bytes(*requested);
  finding.cause =
      "Processes exchange data through /dev/shm, above all the batches of a data loader. Its size is half of "
      "the machine's memory, or 64 MiB in a container. The kernel charges its pages to the process that "
      "wrote them.";
  finding.confidence = Confidence::likely;
  finding.cures = {
      {"give the container more shared memory", "docker run --shm-size=1g …", {}},
      {"or use the host's shared memory", "docker run --ipc=host …", {}},
      {"load data in the main process, or with fewer workers", "DataLoader(…, num_workers=0)", {}},
      {"see how full it is, and which files fill it", "df -h /dev/shm; ls -lS /dev/shm | head", {}}};
  if (message.text("told_by") == kTriton)
    finding.cures[2] = {"start each model instance with less (at least 1 MiB), and run fewer instances",
                        "tritonserver --backend-config=python,shm-default-byte-size=1048576",
                        {}};
  if (is_of_postgresql) {
    finding.cause =
        "The processes of one query exchange data through /dev/shm. Its size is half of the machine's "
        "memory, or 64 MiB in a container.";
    finding.cures[2] = {"disable parallel queries", "SET max_parallel_workers_per_gather = 0;", {}};
  }
  return finding;
}

}  // namespace

LogRule shared_memory_rule() {
  return {"shared-memory",
          {"out of shared memory", "No space left on device", "unable to resize file <",
           "unable to allocate shared memory(shm)", "unable to write to file </torch_",
           "Unexpected bus error", "the shared memory pool size", "resize shared memory segment",
           "ialize shared memory key '", "locks_per_transaction"},
          read,
          explain};
}

}  // namespace headroom::doctor
