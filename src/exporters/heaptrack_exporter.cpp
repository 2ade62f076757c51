// heaptrack's text format, version 3, as heaptrack_interpret writes it. A line defines each string,
// instruction pointer, trace and allocation info (a size at a trace) before its first use. Each kind is
// numbered in that order. "+" and "-" refer to an allocation info. All numbers are hexadecimal. heaptrack has
// no layers.
#include <algorithm>
#include <unordered_map>

#include "attribution/live_map.h"
#include "exporters/exporter_list.h"
#include "exporters/named_stacks.h"

namespace headroom::exporters {
namespace {

using attribution::LiveBlock;

constexpr unsigned kHeaptrackVersion = 0x10400, kFileFormat = 3;

class HeaptrackWriter {
 public:
  HeaptrackWriter(const ExportInput& input, OutputSink& sink) : input_(input), sink_(sink) {}

  void write_header() {
    sink_.print("v {:x} {:x}\n", kHeaptrackVersion, kFileFormat);
    std::string command = fmt::format("{}", fmt::join(input_.recording.info().command, " "));
    std::ranges::replace(command, '\n', ' ');
    sink_.print("X {}\n", command);
    // After a free, heaptrack treats info 0 as the last allocation, so a free of info 0 would count as
    // temporary. Therefore info 0 is a dummy of size 0, which no block uses.
    sink_.print("a 0 0\n");
  }

  void visit(const MemoryEvent& event) {
    LiveBlock block;
    if (event.kind == MemoryEventKind::release) {
      if (!live_.take(event.address, block)) return;
      write_time(event.time);
      sink_.print("- {:x}\n", block.stack);
    } else if (attribution::is_allocation(event) &&
               attribution::make_block(event, 0, event.time.count, block)) {
      write_time(event.time);
      // The block stores its allocation info in the field for the stack.
      block.stack = info_of(static_cast<std::uint64_t>(block.bytes()), trace_of(event.stack));
      LiveBlock replaced;
      if (live_.insert(block, replaced))
        sink_.print("- {:x}\n", replaced.stack);  // its free was not recorded
      sink_.print("+ {:x}\n", block.stack);
    }
  }

  void finish() { write_time(input_.recording.info().duration); }

 private:
  void write_time(Nanoseconds time) {
    const std::int64_t milliseconds = time.count / 1'000'000;
    if (milliseconds <= milliseconds_) return;
    milliseconds_ = milliseconds;
    sink_.print("c {:x}\n", milliseconds);
  }

  std::uint32_t string(std::string_view text) {
    if (text.empty()) return 0;
    const auto [found, is_new] = strings_.emplace(text, static_cast<std::uint32_t>(strings_.size() + 1));
    if (is_new) sink_.print("s {:x} {}\n", text.size(), text);
    return found->second;
  }

  std::uint32_t instruction_of(std::uint64_t address) {
    if (const auto found = instructions_.find(address); found != instructions_.end()) return found->second;
    const auto& functions = input_.symbolizer.frames_of(address, true);
    std::string line = fmt::format("i {:x} {:x}", address, string(functions.front().module));
    for (const symbols::SourceFrame& frame : functions) {
      const std::uint32_t function = string(frame.function), file = string(frame.file);
      line += fmt::format(" {:x} {:x} {:x}", function, file, frame.line);
    }
    sink_.print("{}\n", line);
    const auto index = static_cast<std::uint32_t>(instructions_.size() + 1);
    instructions_.emplace(address, index);
    return index;
  }

  // Traces form a tree: a node is an instruction and the node of its caller; 0 is the root.
  std::uint32_t trace_of(StackId stack) {
    if (stack.index < traces_of_stacks_.size() && traces_of_stacks_[stack.index] != kUnknown)
      return traces_of_stacks_[stack.index];
    std::uint32_t trace = 0;
    const auto frames = input_.recording.stacks().frames(stack);
    for (std::size_t i = frames.size(); i-- > 0;) {
      const std::uint32_t instruction = instruction_of(frames[i]);
      const auto [found, is_new] = traces_.emplace(std::uint64_t{instruction} << 32 | trace,
                                                   static_cast<std::uint32_t>(traces_.size() + 1));
      if (is_new) sink_.print("t {:x} {:x}\n", instruction, trace);
      trace = found->second;
    }
    if (stack.index >= traces_of_stacks_.size()) traces_of_stacks_.resize(stack.index + 1, kUnknown);
    traces_of_stacks_[stack.index] = trace;
    return trace;
  }

  std::uint32_t info_of(std::uint64_t size, std::uint32_t trace) {
    const auto [found, is_new] = infos_[trace].emplace(size, next_info_);
    if (is_new) {
      sink_.print("a {:x} {:x}\n", size, trace);
      ++next_info_;
    }
    return found->second;
  }

  static constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  const ExportInput& input_;
  OutputSink& sink_;
  attribution::LiveMap live_;
  std::unordered_map<std::string, std::uint32_t> strings_;
  std::unordered_map<std::uint64_t, std::uint32_t> instructions_, traces_;
  std::vector<std::uint32_t> traces_of_stacks_;
  std::unordered_map<std::uint32_t, std::unordered_map<std::uint64_t, std::uint32_t>> infos_;  // by trace
  std::uint32_t next_info_ = 1;
  std::int64_t milliseconds_ = 0;
};

}  // namespace

Status write_heaptrack(const ExportInput& input, OutputSink& sink) {
  input.recording.for_each_event(
      [](const MemoryEvent&) {});  // reads all stacks first, so that symbols are loaded once
  prepare_symbols(input);
  HeaptrackWriter writer(input, sink);
  writer.write_header();
  input.recording.for_each_event([&](const MemoryEvent& event) { writer.visit(event); });
  writer.finish();
  return {};
}

}  // namespace headroom::exporters
