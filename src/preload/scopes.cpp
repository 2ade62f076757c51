#include "preload/scopes.h"

#include <atomic>
#include <cstring>

#include "preload/clock.h"
#include "preload/memory.h"
#include "preload/process.h"
#include "types/lock.h"

namespace headroom::preload {
namespace {

using recording::MetadataKind;
using recording::ScopeRecord;
using recording::ScopeSource;

constexpr std::uint32_t kMostScopes = 1 << 16;
constexpr std::uint32_t kIndexSlots = 4 * kMostScopes;  // at most a quarter full, so searches are short
constexpr std::size_t kNameBytes = 16 << 20;            // only reserved; unused parts cost nothing

struct Scope {
  std::uint32_t parent;
  ScopeSource source;
  std::uint32_t name_at, name_length;
};

// Scopes are only added. An index slot is set after its scope is complete, so a search needs no lock.
struct ScopeTable {
  Lock lock;
  Scope* scopes = nullptr;  // [0] is the root
  std::atomic<std::uint32_t>* index = nullptr;
  char* names = nullptr;
  std::uint32_t count = 1;
  std::size_t names_used = 0;
  bool is_full = false;
  std::atomic<bool> is_made{false};
};
ScopeTable scope_table;

bool make_table() {
  if (scope_table.is_made.load(std::memory_order_acquire)) return true;
  const OwnSystemCalls own_calls;
  const Locked locked(scope_table.lock);
  if (scope_table.is_made.load(std::memory_order_relaxed)) return true;
  scope_table.scopes = reserve_array<Scope>(kMostScopes);
  scope_table.index = reserve_array<std::atomic<std::uint32_t>>(kIndexSlots);
  scope_table.names = reserve_array<char>(kNameBytes);
  if (scope_table.scopes == nullptr || scope_table.index == nullptr || scope_table.names == nullptr)
    return false;
  scope_table.is_made.store(true, std::memory_order_release);
  return true;
}

std::uint64_t hash_of_scope(std::uint32_t parent, ScopeSource source, const char* name, std::size_t length) {
  std::uint64_t hash = (std::uint64_t{parent} << 8 | static_cast<std::uint32_t>(source)) + length;
  for (std::size_t i = 0; i < length; ++i)
    hash = (hash ^ static_cast<unsigned char>(name[i])) * 0x100000001b3;
  return hash * 0x9e3779b97f4a7c15;
}

bool is_same(const Scope& scope, std::uint32_t parent, ScopeSource source, const char* name,
             std::size_t length) {
  return scope.parent == parent && scope.source == source && scope.name_length == length &&
         std::memcmp(scope_table.names + scope.name_at, name, length) == 0;
}

// Returns the scope's id, or 0 and the slot where it belongs.
std::uint32_t find_scope(std::uint32_t parent, ScopeSource source, const char* name, std::size_t length,
                         std::uint32_t& slot) {
  slot = static_cast<std::uint32_t>(hash_of_scope(parent, source, name, length) >> 40) % kIndexSlots;
  for (;; slot = (slot + 1) % kIndexSlots) {
    const std::uint32_t id = scope_table.index[slot].load(std::memory_order_acquire);
    if (id == 0 || is_same(scope_table.scopes[id], parent, source, name, length)) return id;
  }
}

void write_scope_metadata(std::uint32_t id) {
  const Scope& scope = scope_table.scopes[id];
  const ScopeRecord record{scope.parent, scope.source};
  const RecordingFile::Piece pieces[] = {{&record, sizeof record},
                                         {scope_table.names + scope.name_at, scope.name_length}};
  process.file.write_metadata(MetadataKind::scope, id, pieces, 2);
}

std::uint32_t add_scope(std::uint32_t parent, ScopeSource source, const char* name, std::size_t length) {
  const OwnSystemCalls own_calls;
  const Locked locked(scope_table.lock);
  std::uint32_t slot = 0;
  if (const std::uint32_t id = find_scope(parent, source, name, length, slot)) return id;
  if (scope_table.count == kMostScopes || kNameBytes - scope_table.names_used < length) {
    if (!scope_table.is_full)
      process.file.note("too many scopes: new ones are counted as part of the scope around them");
    scope_table.is_full = true;
    return parent;
  }
  const std::uint32_t id = scope_table.count++;
  std::memcpy(scope_table.names + scope_table.names_used, name, length);
  scope_table.scopes[id] = {parent, source, static_cast<std::uint32_t>(scope_table.names_used),
                            static_cast<std::uint32_t>(length)};
  scope_table.names_used += length;
  write_scope_metadata(id);
  scope_table.index[slot].store(id, std::memory_order_release);
  return id;
}

using OpenScope = ThreadLocal::OpenScope;

bool is_push_in(const OpenScope& open, Domain domain) { return open.range == 0 && open.domain == domain; }

int depth_in(const ThreadLocal& thread, Domain domain) {
  int depth = static_cast<int>(thread.pushed_too_deep);
  for (std::uint32_t i = 0; i < thread.open_count; ++i)
    if (is_push_in(thread.open_scopes[i], domain)) ++depth;
  return depth;
}

void open_known_scope(ThreadLocal& thread, std::uint32_t id, std::uint32_t range, Domain domain) {
  thread.open_scopes[thread.open_count++] = {id, thread.scope, range, domain};
  set_scope(id);
}

// Returns false when the thread's stack of open scopes is full.
bool open_scope(ThreadLocal& thread, ScopeSource source, const char* name, std::size_t length,
                std::uint32_t range, Domain domain) {
  if (thread.open_count == kMaxScopeDepth) return false;
  open_known_scope(thread, intern_scope(thread.scope, source, name, length), range, domain);
  return true;
}

// Returns the path of `scope` with the element `closed` removed; `outer` is the scope around `closed`.
std::uint32_t path_without(std::uint32_t closed, std::uint32_t outer, std::uint32_t scope) {
  if (scope == closed) return outer;
  if (scope < closed) return scope;  // a parent's id is smaller, so `closed` does not enclose it
  const Scope& known = scope_table.scopes[scope];
  const std::uint32_t parent = path_without(closed, outer, known.parent);
  if (parent == known.parent) return scope;
  return intern_scope(parent, known.source, scope_table.names + known.name_at, known.name_length);
}

void close_scope(ThreadLocal& thread, std::uint32_t at) {
  const OpenScope closed = thread.open_scopes[at];
  --thread.open_count;
  if (at == thread.open_count) return set_scope(closed.outer);
  for (std::uint32_t i = at; i < thread.open_count; ++i) {
    OpenScope& moved = thread.open_scopes[i];
    moved = thread.open_scopes[i + 1];
    moved.scope = path_without(closed.scope, closed.outer, moved.scope);
    moved.outer = path_without(closed.scope, closed.outer, moved.outer);
  }
  set_scope(path_without(closed.scope, closed.outer, thread.scope));
}

void close_latest(ThreadLocal& thread, Domain domain) {
  for (std::uint32_t i = thread.open_count; i-- > 0;)
    if (is_push_in(thread.open_scopes[i], domain)) return close_scope(thread, i);
}

void write_profile(MetadataKind kind, std::uint32_t number, const recording::ProfileRecord& record,
                   const char* path) {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread)) return;
  const Guard guard(thread);
  const OwnSystemCalls own_calls;
  if (!recording_is_ours()) start_recording_in_child(thread);
  const RecordingFile::Piece pieces[] = {{&record, sizeof record}, {path, std::strlen(path)}};
  process.file.write_metadata(kind, number, pieces, 2);
}

}  // namespace

std::uint32_t intern_scope(std::uint32_t parent, ScopeSource source, const char* name, std::size_t length) {
  ThreadLocal& thread = thread_local_state;
  if (thread.is_busy() || !is_recording(thread)) return 0;
  const Guard guard(thread);
  if (!recording_is_ours()) start_recording_in_child(thread);
  if (length > kMaxScopeName) {
    length = kMaxScopeName;
    while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xC0u) == 0x80)
      --length;  // don't cut a UTF-8 character
  }
  if (!make_table()) return parent;
  std::uint32_t slot = 0;
  const std::uint32_t id = find_scope(parent, source, name, length, slot);
  return id != 0 ? id : add_scope(parent, source, name, length);
}

std::uint32_t current_scope() { return thread_local_state.scope; }

void set_scope(std::uint32_t id) {
  ThreadLocal& thread = thread_local_state;
  if (thread.scope == id) return;
  if (thread.is_busy() || !is_recording(thread)) {
    thread.scope = id;
    return;
  }
  const Guard guard(thread);
  ThreadState* state = thread.state;
  // Programs may enter and leave thousands of scopes in a millisecond. So the clock is read once, without
  // waiting for earlier loads.
  const std::uint64_t time = time_about_now();
  const auto is_ready = [&] {
    if (state == nullptr || !state->writer.has_space() || state->quota == 0)
      state = prepare_to_record(thread, time);
    return state != nullptr;
  };
  bool is_kept = is_ready();
  if (is_kept && state->writer.has_counted()) {  // these counts belong to the previous scope
    state->writer.flush_counters(time);
    --state->quota;
    is_kept = is_ready();
  }
  thread.scope = id;
  if (!is_kept) return;
  --state->quota;
  write_scope(*state, time, id);
}

int push_scope(ScopeSource source, const char* name, std::size_t length, Domain domain) {
  ThreadLocal& thread = thread_local_state;
  const int depth = depth_in(thread, domain);
  if (!open_scope(thread, source, name, length, 0, domain)) ++thread.pushed_too_deep;
  return depth;
}

int pop_scope(Domain domain) {
  ThreadLocal& thread = thread_local_state;
  const int depth = depth_in(thread, domain);
  if (depth > 0 && thread.pushed_too_deep > 0) {
    --thread.pushed_too_deep;
    return depth;
  }
  close_latest(thread, domain);
  return depth;
}

bool enter_scope(std::uint32_t id, Domain domain) {
  ThreadLocal& thread = thread_local_state;
  if (thread.open_count == kMaxScopeDepth) return false;
  open_known_scope(thread, id, 0, domain);
  return true;
}

void leave_scope(Domain domain) { close_latest(thread_local_state, domain); }

void start_range(ScopeSource source, const char* name, std::size_t length, std::uint32_t range) {
  open_scope(thread_local_state, source, name, length, range, kProgramDomain);
}

void end_range(std::uint32_t range) {
  ThreadLocal& thread = thread_local_state;
  for (std::uint32_t i = thread.open_count; i-- > 0;)
    if (thread.open_scopes[i].range == range) return close_scope(thread, i);
}

void add_open_profile(std::uint32_t scope, std::uint32_t number) {
  write_profile(MetadataKind::open_profile, number, {0, scope, 0}, "");
}

void add_runtime_profile(const char* path, std::uint64_t start_monotonic_ns, std::uint32_t scope,
                         std::uint32_t number) {
  write_profile(MetadataKind::runtime_profile, number, {start_monotonic_ns, scope, 0}, path);
}

void rewrite_scopes() {
  if (!scope_table.is_made.load(std::memory_order_acquire)) return;
  for (std::uint32_t id = 1; id < scope_table.count; ++id) write_scope_metadata(id);
}

void reset_scope_lock() { scope_table.lock.reset(); }

}  // namespace headroom::preload
