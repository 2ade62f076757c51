// Which stacks are those through which ONNX Runtime's arena takes memory from the system. The runtime's
// profile covers a session's first three runs and says after each node what the arena holds; what it takes in
// later runs is told from what else runs allocate by the place in the runtime that asked for it.
//
// A place (the innermost address of a stack that is the runtime's own) is the arena's if all that it
// allocated for a session adds up, at each node of the profile, to what the arena held then, but for what
// never changes in the profile. That is only believed where the profile shows the arena grow by these sums,
// or where nothing is left over.
#pragma once

#include <vector>

#include "attribution/session_layers.h"
#include "recording/recording.h"

namespace headroom::attribution {

struct ArenaStacks {
  std::vector<bool> is_arena;  // by StackId; stacks beyond its end are not
  std::vector<bool> is_told;   // by the number of a session's name: all of its arena's stacks are known
  bool contains(StackId stack) const { return stack.index < is_arena.size() && is_arena[stack.index]; }
};

// One pass, up to the end of the last profile; none where no profile tells of an arena. Call it after
// another pass over the whole recording, so that its stacks are known.
ArenaStacks find_arena_stacks(recording::Recording& recording, const SessionLayers& sessions);

}  // namespace headroom::attribution
