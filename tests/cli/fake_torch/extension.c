// torch/_C.so of the fake PyTorch: an extension module without contents, for every CPython. Python's headers
// are not needed; what is declared here is the stable ABI's.
#include <stddef.h>

struct ModuleDefinition {
  struct {
    ptrdiff_t references;
    void* type;
    void* (*init)(void);
    ptrdiff_t index;
    void* copy;
  } base;
  const char* name;
  const char* doc;
  ptrdiff_t size;
  void *methods, *slots, *traverse, *clear, *free;
};
void* PyModule_Create2(struct ModuleDefinition*, int);

static struct ModuleDefinition definition = {{1, 0, 0, 0, 0}, "_C", 0, -1, 0, 0, 0, 0, 0};

__attribute__((visibility("default"))) void* PyInit__C(void) { return PyModule_Create2(&definition, 3); }
