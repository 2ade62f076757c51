// The lock of a ledger, and what else its own files share.
#pragma once

#include "ledger/ledger.h"

namespace headroom::ledger {

class Ledger::Locked {
 public:
  explicit Locked(Ledger& ledger) : mutex_(ledger.mutex_) { ::pthread_mutex_lock(&mutex_); }
  ~Locked() { ::pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  pthread_mutex_t& mutex_;
};

// A node's memory in a graph that lives: charged with that.
inline bool is_node(const Entry& entry) {
  return entry.type == EntryType::pointer && entry.kind == DeviceMemoryKind::graph && entry.link != 0;
}

// Their `context` is not where they were made, but the streams that are to come to what was freed of them.
inline bool has_stream_context(const Entry& entry) {
  return entry.type == EntryType::pool || entry.type == EntryType::physical ||
         entry.type == EntryType::pending_free;
}

inline bool is_destroyed(const Entry& entry) {
  return entry.type == EntryType::pool && entry.references == 0;
}

// Of a pool: where its last allocations were freed, in the order of a stream; of physical memory: where it
// was unmapped. Nothing tells that several contexts have come to it, nor one that is not known (0).
inline constexpr std::uint64_t kSeveralContexts = ~std::uint64_t{0};
inline void note_stream_context(Entry& entry, std::uint64_t context) {
  if (entry.context == 0 && context != 0)
    entry.context = context;
  else if (entry.context != context || context == 0)
    entry.context = kSeveralContexts;
}

}  // namespace headroom::ledger
