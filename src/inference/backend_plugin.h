/* The interface between Headroom and a model runtime. It is plain C, so that a plug-in can be built with
 * another compiler or on another machine (TensorRT on a Jetson, for example). A plug-in is a shared library
 * named libheadroom_backend_NAME.so that exports headroom_backend(). See docs/how-to-add-a-backend.md.
 *
 * Rules:
 *   - Strings are UTF-8 and zero-terminated.
 *   - Memory that a plug-in returns stays valid until the session ends.
 *   - The plug-in's own strings stay valid until the process ends.
 *   - Only one thread at a time uses a session.
 *   - No exception may leave a plug-in.
 *   - Functions return 0 for success. On failure, they return another value and fill `error`.
 *   - Only append to structures, never reorder; `struct_size` shows which fields the other side knows. */
#ifndef HEADROOM_BACKEND_PLUGIN_H
#define HEADROOM_BACKEND_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEADROOM_BACKEND_ABI 1
#define HEADROOM_BACKEND_SYMBOL "headroom_backend"

typedef struct hr_session hr_session; /* a loaded model; opaque */

enum hr_error_kind {
  HR_ERROR_FAILED = 1,        /* the model cannot be loaded or run */
  HR_ERROR_OUT_OF_MEMORY = 2, /* an allocation was refused */
  HR_ERROR_UNAVAILABLE = 3    /* the runtime itself is missing or too old */
};

typedef struct hr_error {
  int32_t kind;
  char message[1024];
} hr_error;

/* Element types: the values of headroom::ElementType (types/tensor.h). */
typedef struct hr_tensor_spec {
  const char* name;
  int32_t element_type;
  int32_t rank;
  const int64_t* dims;          /* -1: dynamic */
  const char* const* dim_names; /* rank entries; "" for an unnamed dimension */
} hr_tensor_spec;

typedef struct hr_description {
  size_t struct_size;
  int32_t input_count;
  int32_t output_count; /* -1: unknown before the first successful run */
  int32_t metadata_count;
  const hr_tensor_spec* inputs;
  const hr_tensor_spec* outputs;
  const char* const* metadata_keys;
  const char* const* metadata_values;
} hr_description;

/* Concrete values in host memory. */
typedef struct hr_tensor {
  void* data;
  size_t bytes;
  int32_t element_type;
  int32_t rank;
  const int64_t* dims;
} hr_tensor;

typedef struct hr_settings {
  size_t struct_size;
  const char* device; /* "cpu", "cuda:0" */
  int32_t threads;    /* 0: the runtime's choice */
  int32_t arena;      /* 0 or 1, like all flags below */
  int32_t arena_same_as_requested;
  int32_t memory_pattern;
  int32_t prepacking;
  int32_t graph_level; /* 0, 1, 2 or 99 */
  int32_t spinning;    /* 0 never, 1 also between runs, 2 only while a run lasts */
  /* For GPUs only: conv_search, conv_small_workspace and device_graph.
   * How to search for a convolution's algorithm: 0 exhaustive, 1 heuristic, 2 the runtime's default. */
  int32_t conv_search;
  int32_t conv_small_workspace; /* 1: exclude algorithms that need a large workspace */
  int32_t device_graph;         /* 1: capture a run as one graph and replay it */
  int32_t precision;            /* 0 the runtime's choice, 1 the file's types, 2 float16, 3 bfloat16 */
  /* More than 0: all sessions of the process allocate run memory (not weights) from one CPU arena. The arena
   * has this size from its first use on. The size that the first session sets stays in force. */
  int64_t shared_arena_bytes;
  int32_t mapped; /* 1: map the weights from a file that is prepared once (in HEADROOM_ENGINE_CACHE) */
} hr_settings;

/* Constant facts about a device. */
typedef struct hr_device_facts {
  size_t struct_size;
  char name[128]; /* "NVIDIA H200" */
  char uuid[64];  /* "GPU-…"; empty if unknown */
  int64_t total_bytes;
  int32_t is_integrated; /* 1: it shares the machine's memory */
} hr_device_facts;

/* Measurements of one run on a device; -1 if unknown. */
typedef struct hr_run_facts {
  size_t struct_size;
  /* From the first copy to the device to the last copy back, by the device's clock. */
  int64_t device_time_ns;
} hr_run_facts;

/* How many nodes of a model's graph run where; -1 if the runtime does not report it. */
typedef struct hr_placement {
  size_t struct_size;
  int32_t nodes_on_device, nodes_elsewhere;
  char elsewhere[512]; /* "Shape x3, Gather": nodes on the CPU although a device was requested */
} hr_placement;

/* The runtime's own memory figures, in bytes; -1 if the runtime does not report one. */
typedef struct hr_memory_stats {
  size_t struct_size;
  int64_t arena_in_use, arena_total, arena_peak, allocations, arena_extensions;
} hr_memory_stats;

typedef struct hr_backend {
  uint32_t abi_version; /* HEADROOM_BACKEND_ABI */
  size_t struct_size;
  const char* name;              /* "onnxruntime" */
  const char* const* extensions; /* {".onnx", ".ort", NULL} */

  /* Loads the runtime library and its environment (the phase "runtime loaded"). Calls nest: each successful
   * start needs one stop. The last stop, after the last unload, ends the environment. */
  int (*start)(hr_error* error);
  void (*stop)(void);
  const char* (*version)(void); /* valid after start */

  int (*load)(const char* path, const hr_settings* settings, hr_session** session, hr_error* error);
  void (*unload)(hr_session* session);
  int (*describe)(hr_session* session, hr_description* description, hr_error* error);
  /* Binds host memory as input `index`. The memory stays bound; each run reads its current content. */
  int (*bind_input)(hr_session* session, int32_t index, const hr_tensor* tensor, hr_error* error);
  int (*run)(hr_session* session, hr_error* error);
  /* The value of output `index` after a run, in host memory. Valid until the next run, trim, bind_input or
   * unload. data is NULL if the output is not a tensor of numbers (strings, sequences). */
  int (*output)(hr_session* session, int32_t index, hr_tensor* tensor, hr_error* error);
  int (*memory_stats)(hr_session* session, hr_memory_stats* stats, hr_error* error);
  /* Releases cached memory to the system, as far as the runtime can. Headroom calls it between objects and
   * videos. May run the model once on the bound inputs. */
  int (*trim)(hr_session* session, hr_error* error);

  /* Functions for devices. A plug-in has all three or none: its table may end here, or hold NULL. Without
   * them, the backend runs on the CPU only. */

  /* Creates the device's context, so that its memory is not attributed to a model. Called after start. */
  int (*prepare_device)(const char* device, hr_device_facts* facts, hr_error* error);
  int (*placement)(hr_session* session, hr_placement* placement, hr_error* error);
  /* Facts about the last run. Called after each run. Must not allocate and cannot fail. */
  void (*run_facts)(hr_session* session, hr_run_facts* facts);

  /* Optional: NULL, or the table ends before it, if sessions cannot share weights. Creates another session of
   * the same loaded model, with the same weights and its own inputs and outputs. It may run while `of` runs,
   * and may be created while `of` runs. Either may be unloaded first. */
  int (*share)(hr_session* of, hr_session** session, hr_error* error);

  /* Optional, like share. Allocates the arena of shared_arena_bytes (above) with this size and touches all
   * its pages, so that no later session is charged for them. Called after start. Not an error if the arena
   * exists. */
  int (*make_arena)(int64_t bytes, hr_error* error);

  /* Optional, like share. From now on, input `index` of `session` is output `output` of `from`: each run
   * reads what the last run of `from` left, where it lies, on the device or on the host, without a copy. Both
   * belong to this plug-in and the same device. `from` has run and must outlive the link, which ends with the
   * next bind_input of this input. On a device, `from` copies this output no longer to the host: output()
   * returns it without data. */
  int (*link_input)(hr_session* session, int32_t index, hr_session* from, int32_t output, hr_error* error);
} hr_backend;

/* The smallest valid struct_size. */
#define HEADROOM_BACKEND_SMALLEST_TABLE offsetof(hr_backend, prepare_device)
/* The smallest struct_size of a table with the device functions. */
#define HEADROOM_BACKEND_DEVICE_TABLE offsetof(hr_backend, share)
/* The smallest struct_size of a table with share. */
#define HEADROOM_BACKEND_SHARE_TABLE offsetof(hr_backend, make_arena)
/* The smallest struct_size of a table with make_arena. */
#define HEADROOM_BACKEND_ARENA_TABLE offsetof(hr_backend, link_input)

typedef const hr_backend* (*hr_backend_function)(void);

#ifdef __cplusplus
}
#endif
#endif
