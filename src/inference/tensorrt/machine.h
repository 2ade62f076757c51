// What an engine is bound to, as it is here.
#pragma once

#include "cuda/driver.h"
#include "inference/tensorrt/engine_record.h"

namespace headroom::tensorrt {

EngineMachine machine_here(const cuda::Driver& driver, unsigned ordinal, const std::string& tensorrt_version);

// Throws Failure with the reason and what to do if what is written beside
// the engine says that it is foreign or stale. Nothing beside it: nothing is known, and TensorRT itself must
// judge.
void refuse_foreign(const std::filesystem::path& engine, const EngineMachine& here);

}  // namespace headroom::tensorrt
