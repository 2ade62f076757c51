// The children of a running command, and whether they outlive it.
#pragma once

#include <string>
#include <vector>

#include "base/files.h"

namespace headroom::test {

struct Child {
  int pid = 0;
  std::string verb;  // "_worker", "_decode", "_setup", …
  UniqueFd handle;   // a pidfd: refers to this process even if the pid is reused
};

// All descendants of `pid` that run a hidden verb of Headroom.
std::vector<Child> descendants_of(int pid);
// Returns nullopt if no process has this verb.
const Child* find_child(const std::vector<Child>& children, const std::string& verb);
// Waits until the process has ended. Returns false if it still runs after a minute.
bool ends(const Child& child);

}  // namespace headroom::test
