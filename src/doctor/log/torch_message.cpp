#include "doctor/log/torch_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/torch_servers.h"

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
    const auto held = size_with_unit_after(line.substr(0, line.find("in use")), " has ");
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
  // Of a message that is cut off before it tells its own, one of those that it names may be it: a container's
  // programs do not find themselves by their number.
  const bool are_others = allocated || message.bytes("process_bytes") || has(line, "Including non-");
  double sum = 0;  // hostile figures would overflow an integer
  std::string pids;
  for (const Process& process : processes) {
    sum += static_cast<double>(process.held.count);
    pids += fmt::format("{}{}", pids.empty() ? "" : " ", process.pid);
  }
  constexpr double kMostBytes = 9e18;
  if (sum < kMostBytes)
    message.add(are_others ? "other_processes_bytes" : "named_processes_bytes", Bytes{std::llround(sum)});
  message.add(are_others ? "other_processes" : "named_processes", pids);
}

// "3.72 GiB allowed;": what set_per_process_memory_fraction leaves. A sentence or a figure stands before it.
std::optional<Bytes> allowed_bytes(std::string_view line) {
  const std::size_t end = line.find(" allowed;");
  if (end == line.npos) return size_with_unit_after(line, "max allowed: ");  // on a Mac
  const std::string_view before = line.substr(0, end);
  const std::size_t figure = before.find_last_of(";("), sentence = before.rfind(". ");
  const std::size_t begin = sentence == before.npos ? figure
                            : figure == before.npos ? sentence
                                                    : std::max(figure, sentence);
  return begin == before.npos ? std::nullopt : size_with_unit(before.substr(begin + 1));
}

// The allocator of CUDA itself (backend:cudaMallocAsync), whose figures stand on lines of their own:
// "Currently allocated     : 5.00 GiB".
std::optional<LogMessage> read_async(std::string_view line) {
  LogMessage message;
  const auto figure = [line](std::string_view name) -> std::optional<Bytes> {
    const auto rest = text_after(line, name);
    if (!rest) return std::nullopt;
    // The next line may follow without a space: "58.00 MiBDevice limit".
    const std::size_t unit = rest->find("iB");
    return size_with_unit_after(unit == rest->npos ? *rest : rest->substr(0, unit + 2), ": ");
  };
  message.add("gpu", integer_after(line, "Allocation on device "));
  message.add("allocated_bytes", figure("Currently allocated"));
  message.add("requested_bytes", figure("Requested "));
  message.add("total_bytes", figure("Device limit"));
  message.add("free_bytes", figure("Free (according to CUDA)"));
  message.may_go_on = !message.bytes("free_bytes");
  return message;
}

}  // namespace

namespace {

// "torch.OutOfMemoryError: Allocation on device ", and the exception's name alone, of programs that print no
// more of it.
std::optional<LogMessage> read_bare(std::string_view line) {
  std::string_view text = trim(line);
  constexpr std::string_view kNames[] = {"torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"};
  const auto rest = text_after(text, "Allocation on device");
  const bool is_cut = rest && trim(*rest).find_first_not_of("0123456789") == rest->npos;
  while (text.ends_with(':') || text.ends_with(' ')) text.remove_suffix(1);
  const bool is_name = std::any_of(std::begin(kNames), std::end(kNames), [text](std::string_view name) {
    if (!text.ends_with(name)) return false;
    const std::string_view before = text.substr(0, text.size() - name.size());
    return before.empty() || before.ends_with("] ") || before.ends_with(": ") || before.ends_with("| ");
  });
  if (!is_cut && !is_name) return std::nullopt;
  LogMessage message;
  message.part = has(line, "OutOfMemoryError") ? "exception" : "log";
  if (is_cut) message.add("gpu", integer_after(*rest, ""));
  return message;
}

}  // namespace

namespace {

// "Tried to allocate 2.00 MiB", "Tried to allocate more than 1EB memory."
bool add_request(std::string_view line, LogMessage& message) {
  auto asked = text_after(line, "ried to allocate ");
  constexpr std::string_view kMore = "more than ";
  if (asked && asked->starts_with(kMore)) asked->remove_prefix(kMore.size());
  const bool is_cut = asked && leading_size(*asked) && !size_with_unit(*asked);
  return is_cut || add_requested(message, asked);
}

// Of its messages for AMD's, Intel's and Apple's GPUs; empty: NVIDIA's, or it does not tell.
std::string_view library_of(std::string_view line) {
  if (has(line, "HIP out of memory")) return "HIP";
  if (has(line, "XPU out of memory")) return "XPU";
  return has(line, "MPS backend out of memory") ? "MPS" : "";
}

// 1.x has its figures before their words: "(GPU 0; 7.79 GiB total capacity; 6.04 GiB already allocated; …".
void read_figures_of_1(std::string_view line, LogMessage& message) {
  const auto before = [line](std::string_view words) -> std::optional<Bytes> {
    const std::size_t end = line.find(words);
    if (end == line.npos) return std::nullopt;
    const std::size_t begin = line.substr(0, end).find_last_of(";(");
    return begin == line.npos ? std::nullopt : size_with_unit(line.substr(begin + 1));
  };
  message.add("total_bytes", before(" total capacity"));
  message.add("free_bytes", before(" free"));
  message.add("allocated_bytes", before(" already allocated"));
  message.add("reserved_bytes", before(" reserved in total"));
  // Up to 1.3: what is reserved and not allocated.
  message.add("cached_bytes", before(" cached"));
  message.add("unallocated_bytes", message.bytes("cached_bytes"));
}

void read_figures(std::string_view line, LogMessage& message) {
  auto total = size_with_unit_after(line, "total capacity of ");
  if (!total) total = size_with_unit_after(line, "total capacty of ");  // as 2.0 and 2.1 spell it
  message.add("total_bytes", total);
  message.add("free_bytes", size_with_unit_after(line, " of which "));
  message.add("process_bytes", size_with_unit_after(line, "this process has "));
  message.add("allocated_bytes", size_with_unit_after(line, "Of the allocated memory "));
  auto unallocated = size_with_unit_after(line, "by PyTorch, and ");
  // "…, with 1.20 GiB allocated in private pools (e.g., CUDA Graphs), and 974.34 MiB is reserved …"
  if (const auto pools = text_after(line, "by PyTorch, with "); pools && has(*pools, "private pools")) {
    message.add("private_pools_bytes", size_with_unit(*pools));
    unallocated = size_with_unit_after(*pools, "), and ");
  }
  message.add("unallocated_bytes", unallocated);
  read_processes(line, message);
}

// "(MPS allocated: 8.50 GB, other allocations: 1.20 GB, max allowed: 9.07 GB)": those of PyTorch's own pools,
// and what Metal took for the process besides.
void read_figures_of_mac(std::string_view line, LogMessage& message) {
  message.add("allocated_bytes", size_with_unit_after(line, "(MPS allocated: "));
  message.add("other_allocations_bytes", size_with_unit_after(line, "other allocations: "));
}

// The library, unless it is CUDA, and the allocator's variable where it is not the library's usual one.
void add_library(std::string_view line, LogMessage& message) {
  const std::string_view library = library_of(line);
  message.add("library", library);
  const std::string_view usual = library == "HIP" ? "PYTORCH_HIP_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
  for (const std::string_view named :
       {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
    if (has(line, named)) {
      if (named != usual) message.add("setting", named);
      return;
    }
}

}  // namespace

std::optional<LogMessage> read_torch(std::string_view line) {
  if (has(line, "would exceed allowed memory")) return read_async(line);
  if (auto bare = read_bare(line)) return bare;
  const bool is_of_mac = library_of(line) == "MPS";
  const bool names_itself = has(line, "CUDA out of memory") || !library_of(line).empty();
  // The rest of a message that was broken: what is free or allocated stands with it.
  const bool tells_capacity = has(line, "GPU") &&
                              (has(line, "total capacity") || has(line, "total capacty")) &&
                              (has(line, " of which") || has(line, "already allocated"));
  LogMessage message;
  const bool asks = add_request(line, message);
  if (!(names_itself && asks) && !tells_capacity) return std::nullopt;
  message.add("gpu", integer_after(line, "GPU "));
  if (is_of_mac)
    read_figures_of_mac(line, message);
  else if (has(line, " total capacity;"))
    read_figures_of_1(line, message);
  else
    read_figures(line, message);
  message.add("allowed_bytes", allowed_bytes(line));
  const auto allocated = message.bytes("allocated_bytes"), reserved = message.bytes("reserved_bytes");
  if (allocated && reserved && *reserved >= *allocated && !message.bytes("unallocated_bytes"))
    message.add("unallocated_bytes", *reserved - *allocated);
  add_library(line, message);
  message.add("runtime", torch_server_of_message(line));
  // The last of its figures.
  message.may_go_on = is_of_mac ? !has(line, " pool") : !has(line, "reserved") && !has(line, " cached)");
  return message;
}

}  // namespace headroom::doctor
