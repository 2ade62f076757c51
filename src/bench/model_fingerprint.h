// The fingerprint of a model's files, read in a child: a mount that hangs holds up that model and not the
// setup.
#pragma once

#include <string>

#include "base/result.h"
#include "base/units.h"
#include "bench/interrupt.h"
#include "bench/model_files.h"

namespace headroom::bench {

// As read_model_files(). `timeout`: without a sign of life of the child, which gives one with every 64 KiB
// that it reads, twice a second at most. Errors: those of read_model_files(), silence, an interrupt
// (was_interrupted()).
Result<ModelFiles> fingerprint_in_child(const std::string& path, Nanoseconds timeout, Interrupt& interrupt);

// The child, hidden verb `_fingerprint`; returns its exit code.
int run_fingerprint_process();

}  // namespace headroom::bench
