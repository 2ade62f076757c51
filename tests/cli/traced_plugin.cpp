// A library that traced_loader opens: allocates PLUGIN_BYTES on behalf of its caller, in a function of
// the name PLUGIN_FUNCTION.
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
