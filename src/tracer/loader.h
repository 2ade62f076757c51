// What the hooks of the start and of dlopen share.
#pragma once

namespace headroom::tracer {

// Whether an ONNX Runtime can be reached through `handle`. To be called where no error of the dynamic linker
// is pending.
bool has_onnxruntime(void* handle);

}  // namespace headroom::tracer
