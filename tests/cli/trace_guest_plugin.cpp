// A library that trace_guest_loader opens: allocates 99901 bytes on behalf of its caller.
#include <cstdlib>

extern "C" void* plugin_allocate() {
  void* volatile pointer = std::malloc(99901);
  return pointer;
}
