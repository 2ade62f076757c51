// The ledger of this process and the account that it is charged to: the command's shared account, or a
// private one.
#pragma once

#include "ledger/ledger.h"
#include "preload/thread_state.h"

namespace headroom::preload {

extern ledger::Ledger& device_ledger;

// Opens the account at the first call. False if that failed.
bool account_is_open(ThreadLocal& thread);
// Whether any device has a limit.
bool is_gpu_memory_limited();
// Notes in the account that a driver was loaded where no hook can intercept its functions.
void note_unhooked_driver();
// In the child after fork. False if this process never had an account.
bool reset_account_in_child();

}  // namespace headroom::preload
