// A program that embeds Python, ends it, and restarts it.
//
//   traced_python LIBPYTHON SCRIPT   runs the script three times, each in a new interpreter
#include <dlfcn.h>
#include <stdio.h>

static void* find(void* library, const char* name) {
  void* const found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "traced_python: %s\n", dlerror());
  return found;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  // Extension modules search all libraries for Python's functions.
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "traced_python: %s\n", dlerror());
    return 2;
  }
  void (*initialize)(int) = (void (*)(int))find(library, "Py_InitializeEx");
  int (*run)(const char*, void*) = (int (*)(const char*, void*))find(library, "PyRun_SimpleStringFlags");
  int (*finalize)(void) = (int (*)(void))find(library, "Py_FinalizeEx");
  if (!initialize || !run || !finalize) return 2;
  for (int i = 0; i < 3; ++i) {
    initialize(0);
    if (run(argv[2], NULL) != 0 || finalize() != 0) return 1;
  }
  return 0;
}
