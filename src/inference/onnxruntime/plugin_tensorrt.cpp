// The same plug-in by the name of onnxruntime_tensorrt: on a device its sessions have ONNX Runtime's TensorRT
// provider, and what that leaves is the CUDA provider's. One name is one way of running, so that a report
// says which it was.
#define HEADROOM_PROVIDER_TENSORRT
#include "inference/onnxruntime/plugin.cpp"  // NOLINT(bugprone-suspicious-include)
