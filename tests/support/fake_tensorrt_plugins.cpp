// The fake libnvinfer_plugin that belongs to fake_tensorrt.cpp.
extern "C" void fake_tensorrt_register_plugins();

extern "C" __attribute__((visibility("default"))) bool initLibNvInferPlugins(void* /*logger*/,
                                                                             char const* /*name_space*/) {
  fake_tensorrt_register_plugins();
  return true;
}
