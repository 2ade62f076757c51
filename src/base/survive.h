// Keeps a monitor running when memory is short, which is when it is needed most.
#pragma once

namespace headroom {

// Lowers the process's OOM score, so that the kernel kills other processes first, and locks its pages in
// memory. Without the lock, a control group that thrashes drops and rereads the program's code all the time.
// Samples then came 1.8 s late; with the lock they come in time (benchmarks/monitor_survives.py).
//
// Root may do both. Without the permission for one of them, the function skips it. Children don't inherit the
// lock, but they inherit the score. Start them before this call, or reset their score.
void survive_shortage_of_memory();

}  // namespace headroom
