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
  return entry.space == Space::pointer && entry.kind == DeviceMemoryKind::graph && entry.link != 0;
}

// Of a pool: where its last allocations were freed, in the order of a stream.
inline constexpr std::uint64_t kSeveralContexts = ~std::uint64_t{0};
inline void note_context_of_pool(Entry& pool, std::uint64_t context) {
  if (pool.context == 0 && context != 0)
    pool.context = context;
  else if (pool.context != context)
    pool.context = kSeveralContexts;
}

}  // namespace headroom::ledger
