// A monitor is needed most when memory is short: what root can do so that it goes on then.
#pragma once

namespace headroom {

// The kernel's killer takes others first, and the pages of this process stay in memory once they are there:
// in a group that thrashes, the program's own code would be dropped and read again all the time (samples came
// 1.8 s late, where they now come in time; bench/monitor_survives.py). Does nothing where it is not allowed.
// Children do not inherit the pages' lock, but the score: they are started before, or put it back.
void survive_shortage_of_memory();

}  // namespace headroom
