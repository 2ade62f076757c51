// The lock of a ledger, for its own files.
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

}  // namespace headroom::ledger
