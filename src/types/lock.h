// The mutex of the preload library and the ledger, for rare events: a new thread, module or scope, or a call
// of the GPU driver. The preload library holds it only with the thread's guard up, so that a signal handler
// that allocates meanwhile does not lock it again.
//
// Two mutexes must be of other types. The account's is shared by processes and robust, because a process can
// die while it holds it (ledger/account_page.h). The thread that samples device memory waits for a condition
// variable, which needs a plain pthread mutex (preload/device_watch.cpp).
#pragma once

#include <pthread.h>

#include <mutex>

namespace headroom {

class Lock {
 public:
  // The thread that holds a recursive lock can lock it again.
  enum class Kind { plain, recursive };
  constexpr explicit Lock(Kind kind = Kind::plain) : kind_(kind), mutex_(unlocked(kind)) {}
  void lock() { pthread_mutex_lock(&mutex_); }
  bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex_); }
  // In a child after fork: the thread that held the mutex does not exist there.
  void reset() { mutex_ = unlocked(kind_); }

 private:
  static constexpr pthread_mutex_t unlocked(Kind kind) {
    constexpr pthread_mutex_t kPlain = PTHREAD_MUTEX_INITIALIZER;
    constexpr pthread_mutex_t kRecursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
    return kind == Kind::plain ? kPlain : kRecursive;
  }
  Kind kind_;
  pthread_mutex_t mutex_;
};

using Locked = std::lock_guard<Lock>;

}  // namespace headroom
