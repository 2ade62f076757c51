// Describes this machine, and checks whether an engine can run on it.
#pragma once

#include "cuda/driver.h"
#include "inference/tensorrt/engine_record.h"

namespace headroom::tensorrt {

EngineMachine machine_here(const cuda::Driver& driver, unsigned ordinal, const std::string& tensorrt_version);

// Throws Failure, with the reason and the fix, if the engine's record shows that the engine is
// incompatible or stale. Without a record, it accepts the engine, and TensorRT itself must check it.
void require_compatible_engine(const std::filesystem::path& engine, const EngineMachine& here);

}  // namespace headroom::tensorrt
