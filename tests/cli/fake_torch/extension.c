// torch/_C.so of the fake PyTorch: an extension module that reports, to Python and C++, that torch.jit.trace is not
// running, like PyTorch's. Works with every CPython: it declares the parts of the stable ABI that it uses, and needs no
// Python headers.
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
struct MethodDefinition {
  const char* name;
  void* (*function)(void*, void*);
  int flags;
  const char* doc;
};
void* PyModule_Create2(struct ModuleDefinition*, int);
void* PyBool_FromLong(long);

static void* get_tracing_state(void* self, void* nothing) {
  (void)self, (void)nothing;
  return PyBool_FromLong(0);
}
// torch::jit::preload::getTracingState() returns a reference to a std::shared_ptr.
static void* tracing_state[2];
__attribute__((visibility("default"))) void** _ZN5torch3jit6tracer15getTracingStateEv(void) { return tracing_state; }

static struct MethodDefinition methods[] = {{"_get_tracing_state", get_tracing_state, 4 /* no arguments */, 0}, {0, 0, 0, 0}};
static struct ModuleDefinition definition = {{1, 0, 0, 0, 0}, "_C", 0, -1, methods, 0, 0, 0, 0};

__attribute__((visibility("default"))) void* PyInit__C(void) { return PyModule_Create2(&definition, 3); }
