// The fingerprint of a model's files, read in a child process. If a mount hangs, only that model fails, not
// the setup.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "bench/conductor/model_files.h"
#include "bench/interrupt.h"

namespace headroom::bench {

// As read_model_files(). `timeout`: longest time without an event from the child. It sends one after each 64
// KiB, at most twice a second. Errors: those of read_model_files(), a timeout (was_silent()), an interrupt
// (was_interrupted()).
Result<ModelFiles> fingerprint_in_child(const std::string& path, Nanoseconds timeout, Interrupt& interrupt);

// The child (hidden verb `_fingerprint`); returns its exit code.
int run_fingerprint_process();

}  // namespace headroom::bench
