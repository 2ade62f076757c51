// Opens a library, calls its allocating function, closes it, and does the same with the next library, which
// is loaded at the first one's addresses. The allocations are kept:
//
//     traced_successor A.so B.so
//
// Prints the address of each library's function.
#include <dlfcn.h>

#include <cstdio>

void* volatile kept;

int main(int count, char** arguments) {
  for (int i = 1; i < count; ++i) {
    void* handle = dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return 1;
    void* const function = dlsym(handle, "plugin_allocate");
    if (function == nullptr) return 2;
    std::printf("%p\n", function);
    kept = reinterpret_cast<void* (*)()>(function)();
    if (dlclose(handle) != 0) return 3;
  }
}
