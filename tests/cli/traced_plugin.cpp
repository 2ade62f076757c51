// A library that traced_loader opens. Its function PLUGIN_FUNCTION allocates PLUGIN_BYTES for its caller.
#include <cstdlib>

#ifndef PLUGIN_BYTES
#define PLUGIN_BYTES 99901
#define PLUGIN_FUNCTION allocate_for_plugin
#endif

extern "C" __attribute__((noinline)) void* PLUGIN_FUNCTION() {
  void* volatile pointer = std::malloc(PLUGIN_BYTES);
  return pointer;
}

extern "C" void* plugin_allocate() {
  void* volatile pointer = PLUGIN_FUNCTION();
  return pointer;
}
