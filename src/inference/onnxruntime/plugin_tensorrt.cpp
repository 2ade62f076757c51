// The same plug-in under the name onnxruntime_tensorrt. On a device, its sessions use ONNX Runtime's
// TensorRT provider, and the CUDA provider for the remaining nodes. It has its own name so that a report
// shows which provider was used.
#define HEADROOM_PROVIDER_TENSORRT
#include "inference/onnxruntime/plugin.cpp"  // NOLINT(bugprone-suspicious-include)
