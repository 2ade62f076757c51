// PyTorch's caching allocator ran out of CUDA memory: the wordings of 1.x and 2.x, also without their ends.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "doctor/message_text.h"
#include "doctor/rules.h"

namespace headroom::doctor {
namespace {

// "Process 608946 has 14.91 GiB memory in use. Process 734147 has …": all on the same GPU. Versions that do
// not tell "this process has" list it among the others: it is the smallest that holds what PyTorch has
// reserved.
void read_processes(std::string_view line, LogMessage& message) {
  struct Process {
    std::int64_t pid;
    Bytes held;
  };
  std::vector<Process> processes;
  constexpr std::size_t kMost = 64;
  while (processes.size() < kMost) {
    const auto rest = text_after(line, "Process ");
    if (!rest) break;
    line = *rest;
    const auto pid = integer_after(line, "");
    const auto held = size_after(line.substr(0, line.find("in use")), " has ");
    if (pid && held) processes.push_back({*pid, *held});
  }
  const auto allocated = message.bytes("allocated_bytes");
  if (!message.bytes("process_bytes") && allocated) {
    const Bytes reserved = *allocated + message.bytes("unallocated_bytes").value_or(Bytes{});
    auto own = processes.end();
    for (auto at = processes.begin(); at != processes.end(); ++at)
      if (at->held >= reserved && (own == processes.end() || at->held < own->held)) own = at;
    if (own != processes.end()) {
      message.add("process_bytes", own->held);
      processes.erase(own);
    }
  }
  if (processes.empty()) return;
  double sum = 0;  // hostile figures would overflow an integer
  std::string pids;
  for (const Process& process : processes) {
    sum += static_cast<double>(process.held.count);
    pids += fmt::format("{}{}", pids.empty() ? "" : " ", process.pid);
  }
  constexpr double kMostBytes = 9e18;
  if (sum < kMostBytes) message.add("other_processes_bytes", Bytes{std::llround(sum)});
  message.add("other_processes", pids);
}

std::optional<LogMessage> read(std::string_view line) {
  const auto requested = size_after(line, "ried to allocate ");
  const bool names_itself = has(line, "CUDA out of memory") || has(line, "HIP out of memory");
  const bool tells_capacity = has(line, "GPU") && (has(line, "total capacity") || has(line, "total capacty"));
  if (!(names_itself && requested) && !tells_capacity) return std::nullopt;
  LogMessage message;
  message.add("requested_bytes", requested);
  if (const auto gpu = integer_after(line, "GPU ")) {
    message.add("gpu", gpu);
    // What one GPU lacks is nothing to another; a line that was cut before it is of the usual one.
    if (*gpu > 0) message.subject = fmt::format("GPU {}", *gpu);
  }
  if (const std::size_t at = line.find(" total capacity;"); at != line.npos) {  // 1.x: figures before words
    const auto before = [line](std::string_view words) -> std::optional<Bytes> {
      const std::size_t end = line.find(words);
      if (end == line.npos) return std::nullopt;
      const std::size_t begin = line.substr(0, end).find_last_of(";(");
      return begin == line.npos ? std::nullopt : leading_size(line.substr(begin + 1));
    };
    message.add("total_bytes", before(" total capacity"));
    message.add("free_bytes", before(" free"));
    message.add("allocated_bytes", before(" already allocated"));
    message.add("reserved_bytes", before(" reserved in total"));
  } else {
    auto total = size_after(line, "total capacity of ");
    if (!total) total = size_after(line, "total capacty of ");  // as 2.0 and 2.1 spell it
    message.add("total_bytes", total);
    message.add("free_bytes", size_after(line, " of which "));
    message.add("process_bytes", size_after(line, "this process has "));
    message.add("allocated_bytes", size_after(line, "Of the allocated memory "));
    message.add("unallocated_bytes", size_after(line, "by PyTorch, and "));
    read_processes(line, message);
  }
  const auto allocated = message.bytes("allocated_bytes"), reserved = message.bytes("reserved_bytes");
  if (allocated && reserved && *reserved >= *allocated && !message.bytes("unallocated_bytes"))
    message.add("unallocated_bytes", *reserved - *allocated);
  return message;
}

void explain_cause(const LogMessage& message, Finding& finding) {
  const auto requested = message.bytes("requested_bytes"), total = message.bytes("total_bytes"),
             free = message.bytes("free_bytes"), allocated = message.bytes("allocated_bytes"),
             unallocated = message.bytes("unallocated_bytes"),
             others = message.bytes("other_processes_bytes");
  if (requested && total && *requested > *total) {
    finding.cause =
        "One allocation is larger than the whole GPU memory: the input or the batch is too large.";
    finding.confidence = Confidence::certain;
    return;
  }
  if (!allocated || !total) {
    finding.cause = "The message does not tell who held the memory.";
    finding.confidence = Confidence::possible;
    return;
  }
  if (*allocated > *total) {
    finding.cause = fmt::format(
        "{} are allocated on a GPU of {}: the driver had moved memory to the host's already, and none was "
        "left.",
        format_bytes(*allocated), format_bytes(*total));
    return;
  }
  const Bytes idle = unallocated.value_or(Bytes{});
  if (others && *others > *allocated) {
    finding.cause =
        fmt::format("Other processes held more of the GPU than this one: {}.", format_bytes(*others));
  } else if (free && *total - *free - *allocated - idle > *allocated) {
    finding.cause = fmt::format(
        "Something else held the memory: PyTorch's own tensors were {} of {}. On a Jetson that is the rest "
        "of the "
        "system, which shares the memory.",
        format_bytes(*allocated), format_bytes(*total));
  } else if (requested && idle >= *requested) {
    finding.cause = fmt::format(
        "Fragmentation: PyTorch held {} without using them, in pieces of which none was large enough.",
        format_bytes(idle));
  } else {
    finding.cause = fmt::format("The program's own tensors filled the memory: {} were allocated.",
                                format_bytes(*allocated));
  }
}

Finding explain(const LogMessage& message) {
  const auto total = message.bytes("total_bytes"), free = message.bytes("free_bytes"),
             allocated = message.bytes("allocated_bytes"), unallocated = message.bytes("unallocated_bytes"),
             others = message.bytes("other_processes_bytes");
  Finding finding;
  finding.id = "pytorch-out-of-memory";
  finding.severity = Severity::severe;
  const auto gpu = message.number("gpu");
  finding.title = fmt::format("PyTorch ran out of {} memory: it asked for {}{}{}",
                              gpu && *gpu > 0 ? fmt::format("GPU {}'s", *gpu) : "GPU",
                              words_for(message.bytes("requested_bytes")),
                              free ? fmt::format(", {} were free", format_bytes(*free)) : "",
                              total ? fmt::format(" of {}", format_bytes(*total)) : "");
  finding.confidence = Confidence::likely;
  explain_cause(message, finding);
  // PyTorch up to 2.0, which tells what is "reserved in total", stops at a setting that it does not know. On
  // a Jetson allocations of growing segments are reported to fail at once.
  const bool is_old = message.bytes("reserved_bytes").has_value();
  if (unallocated && unallocated->count > 0)
    finding.cures.push_back(is_old ? Cure{"keep PyTorch from splitting large blocks (1.10 and later)",
                                          "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128", unallocated}
                                   : Cure{"let PyTorch grow its segments (not on a Jetson)",
                                          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", unallocated});
  if (others)
    finding.cures.push_back(
        {fmt::format("end or move what else uses the GPU (process {})", message.text("other_processes")),
         "nvidia-smi --query-compute-apps=pid,used_memory --format=csv", others});
  if (allocated)
    finding.cures.push_back({"load the model in half precision (at most half of what is allocated)",
                             "model.half()", Bytes{allocated->count / 2}});
  finding.cures.push_back({"run without gradients", "with torch.inference_mode():", {}});
  finding.cures.push_back({"use a smaller batch or input", "batch_size=1", {}});
  finding.cures.push_back({"see which layer held the memory", "headroom trace -- python3 app.py", {}});
  return finding;
}

}  // namespace

LogRule torch_rule() { return {"pytorch", {"ut of memory. Tried", " total capac"}, read, explain}; }

}  // namespace headroom::doctor
