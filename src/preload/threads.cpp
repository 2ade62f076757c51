#include "preload/threads.h"

#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cstdio>
#include <cstring>

#include "preload/clock.h"
#include "preload/memory.h"
#include "preload/modules.h"
#include "preload/process.h"
#include "recording/encoding.h"
#include "types/lock.h"

namespace headroom::preload {

constinit thread_local ThreadLocal thread_local_state;

bool StackDictionary::Set::put(std::uint64_t entry) {
  const std::uint64_t first = first_of(entry);
  for (unsigned i = 0; i < kEntries; ++i)
    if (std::uint64_t& place = entries[(first + i) % kEntries]; place == 0) {
      place = entry;
      return true;
    }
  return false;
}

void StackDictionary::put(std::uint64_t hash, std::uint32_t number) {
  if (number >> kNumberBits != 0) return;
  const unsigned bits = kFewestBits + more_bits_;
  if (number > (kEntries << bits) / 4 * 3 && bits < kMostBits) grow();
  const Place place = place_of(hash);
  const std::uint64_t entry = place.key | number;
  if (!sets_[place.set].put(entry) && !sets_[place.set ^ 1].put(entry))
    sets_[place.set].entries[number % kEntries] = entry;
  is_used_ = true;
}

void StackDictionary::clear() {
  if (is_used_) std::memset(static_cast<void*>(sets_), 0, sizeof(Set) << (kFewestBits + more_bits_));
  is_used_ = false;
}

// Doubles the number of sets. The entries of two neighbours move to four sets, at or above their own places.
// So the last ones move first. The two bits of the hash that choose among the four are in the key.
[[gnu::noinline, gnu::cold]] void StackDictionary::grow() {
  const unsigned bits = kFewestBits + more_bits_++;
  for (std::uint64_t pair = std::uint64_t{1} << (bits - 1); pair-- > 0;) {
    const Set old[2] = {sets_[2 * pair], sets_[2 * pair + 1]};
    for (unsigned i = 0; i < 4; ++i) sets_[4 * pair + i] = Set{};
    for (const Set& set : old)
      for (const std::uint64_t entry : set.entries) {
        if (entry == 0) continue;
        const std::uint64_t own = 4 * pair + (entry >> (62 + kFewestBits - bits) & 3);
        if (!sets_[own].put(entry)) sets_[own ^ 1].put(entry);
      }
  }
}

namespace {

// All states ever created. What a forked child needs to know of them is here, because the states themselves
// are wiped.
struct Registered {
  ThreadState* state;
  ThreadLocal* thread;    // that has the state, or null
  std::uint8_t* segment;  // mapped, or null
  std::uint32_t next_free;
  bool is_open;  // guarded by the lock. True: the segment is in use and stays mapped until this is false
};
constexpr std::uint32_t kMostThreads = 1 << 15;  // at the same time
constexpr std::uint32_t kNone = 0;               // slots count from 1

Lock threads_lock;
Registered* registry = nullptr;
std::uint32_t registered = 0;
std::uint32_t first_free = kNone;

// How many events a thread takes from the limit at once. The share shrinks towards the end, because other
// threads cannot use what a thread has taken and not used.
constexpr std::uint64_t kLargestShare = 256, kShareOfTheRest = 1024;
constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};
constexpr std::uint64_t kMostDropsBetweenTries = 1 << 20;

// A name takes up to 40 bytes of the 4 MiB metadata area. Names may fill at most a quarter, so that modules
// and scopes still fit in a program that starts hundreds of thousands of threads.
constexpr std::uint32_t kMostNames = recording::kDefaultMetadataBytes / 4 / 40;
std::atomic<std::uint32_t> names_written{0};

// --- the end of a thread

pthread_key_t end_key;
bool has_end_key = false;

#if defined(__SANITIZE_THREAD__)
constexpr std::uintptr_t kLastRound = 1;  // ThreadSanitizer forgets the thread in the last round
#else
constexpr std::uintptr_t kLastRound = PTHREAD_DESTRUCTOR_ITERATIONS;
#endif

// Runs among the destructors of other libraries' thread data, which may allocate. So it postpones itself to
// the last of four rounds.
void on_thread_end(void* round) {
  const auto number = reinterpret_cast<std::uintptr_t>(round);
  if (number < kLastRound) {
    pthread_setspecific(end_key, reinterpret_cast<void*>(number + 1));
    return;
  }
  ThreadLocal& thread = thread_local_state;
  const Guard guard(thread);
  thread.has_ended = true;
  detach(thread);
}

// --- attaching

ThreadState* new_state() {
  if (registry == nullptr) registry = reserve_array<Registered>(kMostThreads + 1);
  if (registry == nullptr || registered == kMostThreads) return nullptr;
  auto* state = reserve_array<ThreadState>(1);
  if (state == nullptr) return nullptr;
  wipe_on_fork(state, sizeof *state);
  registry[++registered] = {state, nullptr, nullptr, kNone, false};
  state->registry_slot = registered;
  return state;
}

ThreadState* take_state() {
  const Locked locked(threads_lock);
  if (!has_end_key) has_end_key = pthread_key_create(&end_key, on_thread_end) == 0;
  if (first_free == kNone) return new_state();
  Registered& entry = registry[first_free];
  entry.state->registry_slot = first_free;  // wiped in a forked child
  first_free = entry.next_free;
  return entry.state;
}

void release_state(ThreadState* state) {
  const Locked locked(threads_lock);
  registry[state->registry_slot].thread = nullptr;
  registry[state->registry_slot].next_free = first_free;
  first_free = state->registry_slot;
}

ThreadState* attach(ThreadLocal& thread) {
  ThreadState* state = take_state();
  if (state == nullptr) return nullptr;
  if (thread.number == 0)
    thread.number = static_cast<std::uint32_t>(process.file.header()->threads_seen.fetch_add(1)) + 1;
  state->thread_index = thread.number - 1;
  if (state->thread_index > 0) share_clock();
  // A forked child continues on the same stack, which need not be the main thread's.
  if (thread.stack.high == 0) thread.stack = stack_bounds_of_this_thread();
  state->stack = thread.stack;
  thread.sampler.start(ticks_now() + state->thread_index * 0x9e3779b97f4a7c15, process.options.sample_period);
  state->quota = 0;
  state->history.count = 0;  // it is of another thread's stack
  state->known_walks.forget();
  if (!thread.has_ended) pthread_setspecific(end_key, reinterpret_cast<void*>(std::uintptr_t{1}));
  thread.state = state;
  registry[state->registry_slot].thread = &thread;
  write_thread_name(thread);
  return state;
}

void note_once(std::atomic<bool>& noted, const char* sentence) {
  if (!noted.exchange(true)) process.file.note(sentence);
}
std::atomic<bool> noted_full_disk{false}, noted_limit{false}, noted_bound{false}, noted_names{false};

// --- space in a segment

void set_open(const ThreadState& state, bool is_open) {
  const Locked locked(threads_lock);
  registry[state.registry_slot].is_open = is_open;
}

// No other thread uses the segment any more.
void seal_and_release(ThreadState& state) {
  state.writer.seal_and_close();
  process.file.release(state.segment);
  registry[state.registry_slot].segment = nullptr;
}

void leave_segment(ThreadState& state) {
  if (state.writer.is_open()) set_open(state, false);
  seal_and_release(state);
}

// The half-full segment of an ended thread waits for the next thread. In a ring it is released when its slot
// is the oldest. Otherwise the running threads would have fewer and fewer slots.
bool leave_if_thread_ended(std::uint64_t slot) {
  const Locked locked(threads_lock);
  for (std::uint32_t i = first_free; i != kNone; i = registry[i].next_free) {
    if (registry[i].segment == nullptr || registry[i].state->segment.slot != slot) continue;
    registry[i].is_open = false;
    seal_and_release(*registry[i].state);
    return true;
  }
  return false;
}

// Replaces the thread's segment by the next one.
bool claim_next(ThreadState& state) {
  Segment next;
  // In a ring, the thread's own segment is the newest and must be kept, unless no other slot is free.
  if (process.options.ring && process.file.claim(next, leave_if_thread_ended)) {
    leave_segment(state);
  } else {
    leave_segment(state);
    if (!process.file.claim(next, leave_if_thread_ended)) return false;
  }
  state.segment = next;
  registry[state.registry_slot].segment = next.memory;
  return true;
}

bool open_segment(ThreadLocal& thread, ThreadState& state, std::uint64_t time) {
  state.counters = nullptr;
  if (state.segment.memory == nullptr || state.writer.is_open()) {
    if (!claim_next(state)) return false;
  }
  // Otherwise a segment was claimed earlier, when the disk was full.
  if (!process.file.reserve_space(state.segment, kBackingStep)) return false;
  state.backed_bytes = kBackingStep;
  state.writer.open(state.segment.memory, kBackingStep, state.segment.number, state.thread_index,
                    thread.scope, time);
  set_open(state, true);
  state.segment_thread = state.thread_index;
  state.segment_scope = thread.scope;
  ++state.segment_serial;
  state.dictionary.clear();
  return true;
}

bool make_space(ThreadLocal& thread, ThreadState& state, std::uint64_t time) {
  if (process.end_if_abandoned != nullptr) process.end_if_abandoned();
  const bool can_grow = state.writer.is_open() && state.backed_bytes < process.file.segment_bytes();
  if (can_grow && process.file.reserve_space(state.segment, state.backed_bytes + kBackingStep)) {
    state.backed_bytes += kBackingStep;
    state.writer.extend(state.backed_bytes);
    return true;
  }
  // If the disk has no space for the next step, it has none for a new segment.
  return !can_grow && open_segment(thread, state, time);
}

// Called if the segment belonged to another thread, or a change of scope could not be written when it
// happened.
void take_over(ThreadLocal& thread, ThreadState& state, std::uint64_t time) {
  if (state.segment_thread != state.thread_index) {
    state.writer.thread(time, state.thread_index);
    state.segment_thread = state.thread_index;
    state.segment_scope = 0;
  }
  if (state.segment_scope != thread.scope) write_scope(state, time, thread.scope);
}

bool take_quota(ThreadState& state) {
  if (process.options.events == 0) {
    state.quota = kUnlimited;
    return true;
  }
  std::uint64_t left = process.events_left.load();
  std::uint64_t share = 0;
  do {
    if (left == 0) {
      note_once(noted_bound, "the recording stopped at the bound on its events (--max-events)");
      return false;
    }
    share = left / kShareOfTheRest;
    if (share == 0) share = 1;
    if (share > kLargestShare) share = kLargestShare;
  } while (!process.events_left.compare_exchange_weak(left, left - share));
  state.quota = share;
  return true;
}

ThreadState* drop_event(ThreadState* state) {
  process.file.header()->events_dropped.fetch_add(1, std::memory_order_relaxed);
  if (state != nullptr) ++state->gap;
  return nullptr;
}

void note_why_events_are_dropped(const ThreadState& state) {
  if (process.file.is_size_limited())
    note_once(noted_limit, "events were dropped: the limit on file sizes (ulimit -f) was reached");
  else if (state.segment.memory != nullptr)
    note_once(noted_full_disk, "events were dropped: no disk space was left for the recording");
  else if (process.options.ring)
    note_once(
        noted_limit,
        "events were dropped: the ring has fewer segments (of 1 MiB) than threads recorded at the same time");
  else
    note_once(noted_limit, "events were dropped: the recording reached its limit of segments (--max-size)");
}

}  // namespace

[[gnu::noinline, gnu::cold]] ThreadState* prepare_to_record(ThreadLocal& thread, std::uint64_t time) {
  const OwnSystemCalls own_calls;
  if (!recording_is_ours()) start_recording_in_child(thread);
  if (process.phase.load(std::memory_order_acquire) != Phase::recording) return nullptr;
  if (thread.loader_checks_left > 0) {
    --thread.loader_checks_left;
    check_loader();
  }
  ThreadState* state = thread.state;
  if (state == nullptr) state = attach(thread);
  if (state == nullptr) return drop_event(nullptr);
  if (state->retry_in > 0) {
    --state->retry_in;
    return drop_event(state);
  }
  if (state->quota == 0 && !take_quota(*state)) {
    state->counters = nullptr;
    return drop_event(state);
  }
  if (!state->writer.has_space() && !make_space(thread, *state, time)) {
    note_why_events_are_dropped(*state);
    state->counters = nullptr;
    if (state->drops_between_tries == 0) state->drops_between_tries = kFirstDropsBetweenTries;
    state->retry_in = state->drops_between_tries;
    // A full file system searches for space at each request, and the program waits for it.
    if (state->segment.memory != nullptr && state->drops_between_tries < kMostDropsBetweenTries)
      state->drops_between_tries *= 2;
    return drop_event(state);
  }
  if (state->segment_thread != state->thread_index || state->segment_scope != thread.scope)
    take_over(thread, *state, time);
  if (state->gap > 0) {
    state->writer.gap(time, state->gap);
    process.file.header()->events_dropped.fetch_sub(state->gap, std::memory_order_relaxed);
    state->gap = 0;
  }
  state->drops_between_tries = kFirstDropsBetweenTries;
  state->counters = thread.loader_checks_left == 0 ? state->writer.header() : nullptr;
  return state;
}

[[gnu::noinline, gnu::cold]] void attach_first(ThreadLocal& thread) {
  if (thread.has_ended) return;
  const OwnSystemCalls own_calls;
  if (!recording_is_ours()) start_recording_in_child(thread);
  if (process.phase.load(std::memory_order_acquire) == Phase::recording) attach(thread);
}

void write_scope(ThreadState& state, std::uint64_t time, std::uint32_t scope) {
  if (state.writer.has_counted()) state.writer.flush_counters(time);
  state.writer.scope(time, scope);
  state.writer.set_counted_scope(scope);
  state.segment_scope = scope;
}

void detach(ThreadLocal& thread) {
  ThreadState* state = thread.state;
  if (state == nullptr || !recording_is_ours()) return;
  const OwnSystemCalls own_calls;
  write_thread_name(thread);
  state->counters = nullptr;
  state->retry_in = 0;
  if (process.options.events != 0) process.events_left.fetch_add(state->quota);
  state->quota = 0;
  if (state->writer.has_counted() && state->writer.has_space()) state->writer.flush_counters(time_now());
  if (state->writer.has_counted()) {
    // Its counts stay in the segment's header, so no other thread may count there.
    leave_segment(*state);
  }
  thread.state = nullptr;
  release_state(state);
}

// The threads are not stopped: records that they write from now on lie behind the checksummed part.
void seal_open_segments() {
  const Locked locked(threads_lock);
  for (std::uint32_t i = 1; i <= registered; ++i) {
    if (!registry[i].is_open) continue;
    const std::uint8_t* const segment = registry[i].segment;
    recording::SegmentSeal seal{};
    if (!read_seal(*reinterpret_cast<const recording::SegmentHeader*>(segment), seal)) continue;
    seal.checksum = checksum_of(seal, segment + sizeof(recording::SegmentHeader));
    process.file.write_seal(registry[i].state->segment.slot, seal);
  }
}

void write_thread_name(ThreadLocal& thread) {
  ThreadState* const state = thread.state;
  if (state == nullptr || !recording_is_ours()) return;
  const OwnSystemCalls own_calls;
  char name[kThreadNameBytes + 1] = {};
  ::prctl(PR_GET_NAME, name);
  if (thread.name_is_written && std::memcmp(thread.name, name, sizeof thread.name) == 0) return;
  const std::uint32_t ids[] = {static_cast<std::uint32_t>(::syscall(SYS_gettid)), 0};
  const RecordingFile::Piece pieces[] = {{ids, sizeof ids}, {name, std::strlen(name)}};
  if (names_written.fetch_add(1) >= kMostNames) {
    note_once(noted_names, "too many threads: the latest ones have no names in this recording");
    return;
  }
  process.file.write_metadata(recording::MetadataKind::thread, state->thread_index, pieces, 2);
  std::memcpy(thread.name, name, sizeof thread.name);
  thread.name_is_written = true;
}

void reset_threads() {
  threads_lock.reset();
  first_free = kNone;
  for (std::uint32_t slot = 1; slot <= registered; ++slot) {
    if (registry[slot].segment != nullptr) unmap_memory(registry[slot].segment, process.file.segment_bytes());
    registry[slot].segment = nullptr;
    registry[slot].thread = nullptr;
    registry[slot].is_open = false;
    registry[slot].next_free = first_free;
    first_free = slot;
  }
  noted_full_disk = noted_limit = noted_bound = noted_names = false;
  names_written = 0;
}

void release_threads() {
  for (std::uint32_t slot = 1; slot <= registered; ++slot) {
    ThreadLocal* const thread = registry[slot].thread;
    if (thread == nullptr) continue;
    thread->state = nullptr;
    thread->counters = nullptr;
    thread->number = 0;
    thread->name_is_written = false;
  }
  reset_threads();
  for (std::uint32_t slot = 1; slot <= registered; ++slot)
    zero_memory(registry[slot].state, sizeof(ThreadState));
}

void wipe_threads() {
  for (std::uint32_t slot = 1; slot <= registered; ++slot)
    std::memset(static_cast<void*>(registry[slot].state), 0, sizeof(ThreadState));
}

}  // namespace headroom::preload
