// Opens and closes the same library several times, and calls its allocating function each time:
//
//     traced_loader PLUGIN.so TIMES [deep]
//
// `deep`: with RTLD_DEEPBIND.
#include <dlfcn.h>

#include <cstdlib>

int main(int count, char** argv) {
  const int mode = RTLD_NOW | RTLD_LOCAL | (count > 3 ? RTLD_DEEPBIND : 0);
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    void* handle = dlopen(argv[1], mode);
    if (handle == nullptr || dlerror() != nullptr) return 1;
    const auto allocate = reinterpret_cast<void* (*)()>(dlsym(handle, "plugin_allocate"));
    if (allocate == nullptr) return 2;
    std::free(allocate());
    if (dlclose(handle) != 0) return 3;
    // A failed dlopen must leave its own error for the program to read.
    if (dlopen("libthere-is-no-such-library.so", RTLD_NOW) != nullptr || dlerror() == nullptr) return 4;
  }
}
