#include "preload/recorder.h"

#include "preload/clock.h"
#include "preload/memory.h"
#include "preload/modules.h"

namespace headroom::preload {
namespace {

// The bounds of this library, from the linker. _etext is a name for the end that lld defines, too.
extern "C" const char __ehdr_start[] __attribute__((visibility("hidden")));
extern "C" const char _etext[] __attribute__((visibility("hidden")));
bool is_tracer_code(std::uint64_t pc) {
  return pc >= reinterpret_cast<std::uint64_t>(__ehdr_start) && pc < reinterpret_cast<std::uint64_t>(_etext);
}

[[gnu::noinline]] std::uint32_t define_stack(ThreadState& state, std::uint64_t time, StackTrace& trace) {
  trace.complete();
  // Drop the tracer's own frames (its dlopen hook): they are not part of the program.
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < trace.count; ++i) {
    note_code_address(trace.frames[i]);
    if (!is_tracer_code(trace.frames[i])) trace.frames[count++] = trace.frames[i];
  }
  const std::uint32_t number = state.writer.define_stack(time, trace.frames, count);
  state.dictionary.put(trace.hash, number);
  return number;
}

// Returns the stack's number in the thread's segment; defines it there if it is new.
[[gnu::always_inline]] inline std::uint32_t number_of(ThreadState& state, std::uint64_t time,
                                                      StackTrace& trace) {
  const std::uint32_t number = state.dictionary.find(trace.hash);
  return __builtin_expect(number != 0, 1) ? number : define_stack(state, time, trace);
}

// A stack of the caller: an earlier walk, or a new one.
struct Taken {
  StackTrace trace;
  KnownWalks::Walk* walk = nullptr;
};

// Walks the stack, unless `taken` has a known walk. A walk that is `kept` becomes known.
[[gnu::always_inline]] inline void walk_or_copy(ThreadState& state, const CallFrame& caller, bool is_kept,
                                                Taken& taken) {
  if (taken.walk != nullptr) {
    taken.trace = taken.walk->trace(state.frames);
    return;
  }
  walk_unwind_rules(caller, state.stack, state.history, taken.trace, is_kept);
  if (!is_kept) return;
  taken.trace.complete();
  taken.walk = state.known_walks.keep(caller, state.history, taken.trace);
}

// The stack's number in the segment if a walk is known that has one there, else 0.
[[gnu::always_inline]] inline std::uint32_t known_number(const ThreadState& state,
                                                         const KnownWalks::Walk* walk) {
  return walk != nullptr && walk->segment == state.segment_serial ? walk->number : 0;
}

[[gnu::always_inline]] inline std::uint32_t number_of(ThreadState& state, std::uint64_t time, Taken& taken) {
  const std::uint32_t number = number_of(state, time, taken.trace);
  if (taken.walk != nullptr) {
    taken.walk->segment = state.segment_serial;
    taken.walk->number = number;
  }
  return number;
}

// The number of the stack of an individually recorded block. These are rare: the caches no longer contain
// what the last walk read.
[[gnu::always_inline]] inline std::uint32_t stack_of_block(ThreadState& state, std::uint64_t time,
                                                           const CallFrame& caller) {
  Taken taken{StackTrace{state.frames}};
  switch (process.options.stacks) {
    case StackMode::off:
      return 0;
    case StackMode::frame_pointers:
      walk_frame_pointers(caller, state.stack, taken.trace);
      break;
    case StackMode::unwind:
      taken.walk = state.known_walks.find(caller);
      if (const std::uint32_t known = known_number(state, taken.walk); known != 0) return known;
      walk_or_copy(state, caller, true, taken);
      break;
  }
  return number_of(state, time, taken);
}

using Writer = recording::RecordWriter;

// Records one event with the current time and its caller's stack: calls `write(time, arguments…, stack)`. The
// clock is read after the walk: it may have to wait for all loads, and takes as long as the dictionary's
// line.
template <auto write, class... Arguments>
[[gnu::always_inline]] inline void record_with_stack(ThreadLocal& thread, const CallFrame& caller,
                                                     Arguments... arguments) {
  ThreadState* const state = is_ready(thread) ? thread.state : prepare_to_record(thread, time_now());
  if (__builtin_expect(state == nullptr, 0)) return done(thread);
  --state->quota;
  Taken taken{StackTrace{state->frames}};
  std::uint32_t number = 0;
  bool has_stack = true;
  switch (process.options.stacks) {
    case StackMode::off:
      has_stack = false;
      break;
    case StackMode::frame_pointers:
      walk_frame_pointers(caller, state->stack, taken.trace);
      break;
    case StackMode::unwind:
      taken.walk = state->known_walks.find_often(caller);
      number = known_number(*state, taken.walk);
      if (number == 0)
        walk_or_copy(*state, caller, taken.walk == nullptr && state->known_walks.is_worth_keeping(caller),
                     taken);
      break;
  }
  if (has_stack && number == 0) state->dictionary.prefetch(taken.trace.hash);
  const std::uint64_t time = time_now();
  if (has_stack && number == 0) number = number_of(*state, time, taken);
  (state->writer.*write)(time, arguments..., number);
  done(thread);
}

// Records one event without a stack.
template <auto write, class... Arguments>
[[gnu::always_inline]] inline void record_at(ThreadLocal& thread, std::uint64_t time,
                                             Arguments... arguments) {
  if (ThreadState* state = ready_to_record(thread, time)) (state->writer.*write)(time, arguments...);
  done(thread);
}

// The same for a block in default mode, which must be added to the set. Returns false if the set is full.
template <class Write>
[[gnu::always_inline]] inline bool record_block(ThreadLocal& thread, std::uint64_t address, bool is_sample,
                                                const CallFrame& caller, const Write& write) {
  process.recorded.fetch(address);  // loads the set's cache lines while the stack is walked
  const std::uint64_t time = time_now();
  ThreadState* const state = ready_to_record(thread, time);
  const std::uint32_t stack = state != nullptr ? stack_of_block(*state, time, caller) : 0;
  if (!process.recorded.insert(address, is_sample)) return false;
  if (state != nullptr) write(*state, time, stack);
  done(thread);
  return true;
}

void count_allocation(ThreadLocal& thread, std::uint64_t size) {
  ThreadState* state = thread.state;
  if (state == nullptr || state->counters == nullptr) state = prepare_to_record(thread, time_now());
  if (state == nullptr) return;
  if (is_clock_check_due(state->writer.count_allocation(size))) check_clock(*state);
}

std::atomic<bool> noted_full_set{false};

}  // namespace

[[gnu::noinline]] void record_allocation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                                         const CallFrame& caller) {
  if (process.large_bytes == 0) {
    record_with_stack<&Writer::allocate>(thread, caller, address, size);
  } else if (!record_block(thread, address, false, caller,
                           [&](ThreadState& state, std::uint64_t time, std::uint32_t stack) {
                             state.writer.allocate(time, address, size, stack);
                           })) {
    // Its release could not be distinguished from that of a small block.
    if (!noted_full_set.exchange(true)) {
      const OwnSystemCalls own_calls;
      process.file.note(recording::kNoteUnrecordedLarge);
    }
    count_allocation(thread, size);
  }
}

[[gnu::noinline]] void record_small_allocation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                                               const CallFrame& caller) {
  // With counters, the sampler has already chosen this allocation; without them, it has not been asked yet.
  bool is_chosen = thread.state != nullptr && thread.state->counters != nullptr;
  if (!is_chosen) {
    if (prepare_to_record(thread, time_now()) == nullptr) return;
    is_chosen = thread.sampler.chooses(size);
  }
  if (is_chosen && record_block(thread, address, true, caller,
                                [&](ThreadState& state, std::uint64_t time, std::uint32_t stack) {
                                  state.writer.sample(time, address, size, stack);
                                  write_counters_if_due(state, time);
                                }))
    return;
  count_allocation(thread, size);
  done(thread);
}

[[gnu::noinline]] void record_release(ThreadLocal& thread, const Release& release) {
  record_at<&Writer::release>(thread, release.time, release.address);
}

void count_release_slowly(ThreadLocal& thread) {
  if (ThreadState* state = prepare_to_record(thread, time_now())) state->writer.count_release();
  done(thread);
}

void record_map(ThreadLocal& thread, std::uint64_t address, std::uint64_t size, const CallFrame& caller) {
  record_with_stack<&Writer::map>(thread, caller, address, size);
}

void record_reservation(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                        const CallFrame& caller) {
  record_with_stack<&Writer::reserve>(thread, caller, address, size);
}

void record_accessible(ThreadLocal& thread, std::uint64_t address, std::uint64_t size,
                       const CallFrame& caller) {
  record_with_stack<&Writer::make_accessible>(thread, caller, address, size);
}

void record_unmap(ThreadLocal& thread, std::uint64_t address, std::uint64_t size, std::uint64_t time) {
  record_at<&Writer::unmap>(thread, time, address, size);
}

void record_weight(ThreadLocal& thread, std::uint64_t address, std::uint32_t scope) {
  record_at<&Writer::weight>(thread, time_now(), address, scope);
}

void record_device_allocation(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind,
                              std::uint64_t handle, std::uint64_t size, const CallFrame& caller) {
  record_with_stack<&Writer::device_allocate>(thread, caller, device, static_cast<std::uint8_t>(kind), handle,
                                              size);
}

void record_device_release(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t handle,
                           std::uint64_t time) {
  record_at<&Writer::device_release>(thread, time, device, static_cast<std::uint8_t>(kind), handle);
}

void record_device_refusal(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t size,
                           std::uint64_t charged, std::uint64_t limit, const CallFrame& caller) {
  record_with_stack<&Writer::device_refused>(thread, caller, device, static_cast<std::uint8_t>(kind), size,
                                             charged, limit);
}

void record_device_holder(ThreadLocal& thread, unsigned device,
                          const ledger::Account::ProcessCharge& holder) {
  record_at<&Writer::device_holder>(thread, time_now(), device, static_cast<std::uint32_t>(holder.pid),
                                    holder.bytes, !holder.is_visible);
}

void record_device_figure(ThreadLocal& thread, unsigned device, DeviceMemoryKind kind, std::uint64_t bytes) {
  record_at<&Writer::device_figure>(thread, time_now(), device, static_cast<std::uint8_t>(kind), bytes);
}

[[gnu::noinline, gnu::cold]] void check_clock(ThreadState& state) {
  write_counters_if_due(state, time_now());
}

void write_counters_if_due(ThreadState& state, std::uint64_t now) {
  // The limit on events also ends counting, even in a thread that only counts.
  if (process.options.events != 0 && state.quota == 0 && process.events_left.load() == 0)
    state.counters = nullptr;
  // A time unit is 16 to 40 ns, so 2^22 units are about a tenth of a second.
  constexpr std::uint64_t kInterval = 1 << 22;
  if (now - state.counters_written < kInterval || !state.writer.has_space()) return;
  state.counters_written = now;
  if (state.writer.has_counted()) state.writer.flush_counters(now);
  if (process.end_if_abandoned != nullptr) process.end_if_abandoned();
}

}  // namespace headroom::preload
