// Links the memory tracer, and reads the figures of a tracer that has traced nothing.
#include <headroom/memory_tracer.h>

#include <cstdio>
#include <exception>

int main() try {
  headroom::MemoryTracerOptions options;
  options.device = "cpu";
  const headroom::MemoryTracer tracer(options);
  std::printf("%lld bytes\n", static_cast<long long>(tracer.peak_allocated()));
} catch (const std::exception& exception) {
  std::fprintf(stderr, "%s\n", exception.what());
  return 1;
}
