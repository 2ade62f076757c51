#include "memory_tracer/torch_sources.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstring>

#include "memory_tracer/session.h"
#include "preload/clock.h"

namespace headroom::memory_tracer {
namespace {

c10::Allocator* original = nullptr;
// The original's release function, if it has one for all blocks.
c10::DeleterFnPtr original_deleter = nullptr;

void release_block(void* memory) {
  on_released(kCpu, memory);
  original_deleter(memory);
}

// Wraps the CPU allocator. The profiler's interface (c10::MemoryReportingInfoBase) would report only one
// thread and its operator threads. It would miss the program's other threads, and releases in threads without
// it. And torch.profiler needs it for itself.
//
// allocate() is const up to PyTorch 2.2 and not since; copy_data() exists since 2.2. So `override` is omitted
// on purpose: of each pair, the function that PyTorch declares overrides it.
class WatchedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) const {  // NOLINT(modernize-use-override)
    c10::DataPtr data = original->allocate(bytes);
    if (data.get() == nullptr || data.get() != data.get_context() ||
        !data.compare_exchange_deleter(original_deleter, &release_block))
      return data;  // its release would not be seen
    on_allocated(kCpu, data.get(), bytes);
    return data;
  }
  c10::DataPtr allocate(std::size_t bytes) {
    return static_cast<const WatchedAllocator&>(*this).allocate(bytes);
  }
  c10::DeleterFnPtr raw_deleter() const {  // NOLINT(modernize-use-override)
    return &release_block;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
};

// Never destroyed: tensors remember their allocator and use it again when they grow.
WatchedAllocator& watched() {
  static auto* const allocator = new WatchedAllocator;
  return *allocator;
}

// Uses the lowest sufficient priority, so that other code can still replace the allocator later.
void put(c10::Allocator* allocator) {
  constexpr int kHighest = 255;
  for (int priority = 0; priority <= kHighest && c10::GetCPUAllocator() != allocator; ++priority)
    c10::SetCPUAllocator(allocator, static_cast<std::uint8_t>(priority));
}

struct Entered final : at::ObserverContext {
  explicit Entered(std::uint32_t in) : sessions(in) {}
  std::uint32_t sessions;
};

std::unique_ptr<at::ObserverContext> on_start(const at::RecordFunction& node) {
  const ForwardPlace place{node.forwardThreadId(), static_cast<std::uint64_t>(node.seqNr())};
  const std::uint32_t entered = enter_backward_node(node.name(), place);
  return entered == 0 ? nullptr : std::make_unique<Entered>(entered);
}
void on_end(const at::RecordFunction&, at::ObserverContext* context) {
  if (context != nullptr) leave_entered(static_cast<Entered*>(context)->sessions);
}

at::CallbackHandle handle{};

struct Point {
  std::uint64_t ticks, ns;
};
Point point_now() { return {preload::ticks_about_now(), preload::monotonic_ns()}; }

Point start{};
double ns_a_tick = 0;  // 0: use the kernel's clock

}  // namespace

void watch_cpu_allocator() {
  c10::Allocator* const now = c10::GetCPUAllocator();
  if (now == &watched()) return;
  // Blocks of the first wrapped allocator still exist and need its release function. So an allocator that was
  // installed meanwhile is not wrapped, and its blocks are not traced.
  if (original == nullptr) {
    original = now;
    original_deleter = now->raw_deleter();
  }
  if (now == original && original_deleter != nullptr) put(&watched());
}

void unwatch_cpu_allocator() {
  if (c10::GetCPUAllocator() == &watched()) put(original);
}

// Registers callbacks for nodes only: a callback for each operator would cost 0.2 µs, also in inference.
void watch_backward() {
  handle = at::addGlobalCallback(
      at::RecordFunctionCallback(on_start, on_end).scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

void unwatch_backward() { at::removeCallback(handle); }

bool forward_place(ForwardPlace& place) {
  if (!c10::GradMode::is_enabled()) return false;
  place = {at::RecordFunction::currentThreadId(), at::sequence_number::peek()};
  return true;
}

ScriptPlace script_place() {
  const std::vector<std::string> hierarchy = torch::jit::currentModuleHierarchy();
  return hierarchy.empty() ? ScriptPlace{} : parse_script_place(hierarchy);
}

void calibrate_clock() {
  static const bool is_calibrated = [] {
    preload::choose_clock();
    if (!preload::process_clock.counter) return true;
    const Point first = point_now();
    constexpr std::uint64_t kLeast = 10'000'000;
    Point last = point_now();
    while (last.ns - first.ns < kLeast) last = point_now();
    start = last;
    ns_a_tick = static_cast<double>(last.ns - first.ns) / static_cast<double>(last.ticks - first.ticks);
    return true;
  }();
  (void)is_calibrated;
}

std::int64_t now_ns() {
  if (ns_a_tick == 0) return static_cast<std::int64_t>(preload::monotonic_ns());
  const auto ticks = static_cast<std::int64_t>(preload::ticks_about_now() - start.ticks);
  return static_cast<std::int64_t>(start.ns) +
         static_cast<std::int64_t>(static_cast<double>(ticks) * ns_a_tick);
}

}  // namespace headroom::memory_tracer
