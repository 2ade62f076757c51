/* The boundary between Headroom and a model runtime: a C interface, so that a plug-in can be built with
 * another compiler or on another machine (TensorRT on a Jetson, say). A plug-in is a shared library named
 * libheadroom_backend_NAME.so that exports headroom_backend(). See docs/how-to-add-a-backend.md.
 *
 * Rules: strings are UTF-8 and zero-terminated. Everything that a plug-in hands out stays valid until the
 * session (or, for the plug-in's own strings, the process) ends. One thread at a time per session. No
 * exception may cross. Functions return 0 for success; otherwise they fill `error`. Append to structures,
 * never reorder; `struct_size` tells which fields the other side knows. */
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
  HR_ERROR_UNAVAILABLE = 3    /* the runtime itself is absent or too old */
};

typedef struct hr_error {
  int32_t kind;
  char message[1024];
} hr_error;

/* Element types: the values of headroom::ElementType (model/tensor.h). */
typedef struct hr_tensor_spec {
  const char* name;
  int32_t element_type;
  int32_t rank;
  const int64_t* dims;          /* -1: dynamic */
  const char* const* dim_names; /* rank entries; "" where there is no name */
} hr_tensor_spec;

typedef struct hr_description {
  size_t struct_size;
  int32_t input_count;
  int32_t output_count; /* -1: not known before a run that succeeded */
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
  int32_t arena;      /* 0 or 1, as all flags below */
  int32_t arena_same_as_requested;
  int32_t memory_pattern;
  int32_t prepacking;
  int32_t graph_level; /* 0, 1, 2 or 99 */
  int32_t spinning;
  /* Of GPUs. */
  int32_t
      conv_search; /* how a convolution's algorithm is found: 0 exhaustive, 1 heuristic, 2 the default one */
  int32_t conv_small_workspace; /* 1: no algorithm that needs much */
  int32_t device_graph;         /* 1: the runs are captured as one graph and replayed */
  int32_t precision;            /* 0 the runtime's choice, 1 the types of the file, 2 float16, 3 bfloat16 */
  /* More than 0: what a run needs beside the weights comes from one arena of the process, which has this size
   * from its first use on; the first session's is in force. On the CPU. */
  int64_t shared_arena_bytes;
  int32_t mapped; /* 1: the weights are mapped from a file that is prepared once (HEADROOM_ENGINE_CACHE) */
} hr_settings;

/* What does not change of a device. */
typedef struct hr_device_facts {
  size_t struct_size;
  char name[128]; /* "NVIDIA H200" */
  char uuid[64];  /* "GPU-…"; empty where it is not known */
  int64_t total_bytes;
  int32_t is_integrated; /* its memory is the machine's */
} hr_device_facts;

/* What a run on a device showed; -1 where it is not known. */
typedef struct hr_run_facts {
  size_t struct_size;
  int64_t
      device_time_ns; /* from the first copy to the device to the last one back, by the device's own clock */
} hr_run_facts;

/* Where the nodes of a model's graph run; -1 where the runtime does not say. */
typedef struct hr_placement {
  size_t struct_size;
  int32_t nodes_on_device, nodes_elsewhere;
  char elsewhere[512]; /* "Shape x3, Gather"; those on the CPU though a device was asked for */
} hr_placement;

/* Figures that a runtime keeps itself; -1 where it does not say. Bytes. */
typedef struct hr_memory_stats {
  size_t struct_size;
  int64_t arena_in_use, arena_total, arena_peak, allocations, arena_extensions;
} hr_memory_stats;

typedef struct hr_backend {
  uint32_t abi_version; /* HEADROOM_BACKEND_ABI */
  size_t struct_size;
  const char* name;              /* "onnxruntime" */
  const char* const* extensions; /* {".onnx", ".ort", NULL} */

  /* Loads the runtime library and its environment; the phase "runtime loaded". Calls nest: each successful
   * start has one stop, and the last stop, after the last unload, lets the environment go. */
  int (*start)(hr_error* error);
  void (*stop)(void);
  const char* (*version)(void); /* after start */

  int (*load)(const char* path, const hr_settings* settings, hr_session** session, hr_error* error);
  void (*unload)(hr_session* session);
  int (*describe)(hr_session* session, hr_description* description, hr_error* error);
  /* Binds host memory as input `index`; it stays bound, and its content is read at each run. */
  int (*bind_input)(hr_session* session, int32_t index, const hr_tensor* tensor, hr_error* error);
  int (*run)(hr_session* session, hr_error* error);
  /* The value of output `index` after a run, in host memory, valid until the next run, trim, bind_input or
   * unload. data is NULL for what is not plain numbers (strings, sequences). */
  int (*output)(hr_session* session, int32_t index, hr_tensor* tensor, hr_error* error);
  int (*memory_stats)(hr_session* session, hr_memory_stats* stats, hr_error* error);
  /* Gives cached memory back to the system as far as the runtime can (between objects and videos). May run
   * the model once on the bound inputs. */
  int (*trim)(hr_session* session, hr_error* error);

  /* Optional, all of them or none: a table may end before these, or have NULL. Without them a backend runs on
   * the CPU alone. */

  /* After start: makes the device ready (its context), so that what that costs is no model's. */
  int (*prepare_device)(const char* device, hr_device_facts* facts, hr_error* error);
  int (*placement)(hr_session* session, hr_placement* placement, hr_error* error);
  /* Of the last run. Called after each; allocates nothing, cannot fail. */
  void (*run_facts)(hr_session* session, hr_run_facts* facts);

  /* Optional; NULL, or a table that ends before it: sessions of a model share nothing. Another session of the
   * same loaded model, with the same weights, and with inputs and outputs of its own. It may run while `of`
   * does, and be made while `of` runs; either may be unloaded first. */
  int (*share)(hr_session* of, hr_session** session, hr_error* error);

  /* Optional as share. After start: makes the arena of shared_arena_bytes (above) of this size, and touches
   * all of it, so that none of it comes with a session later. Not an error if there is one already. */
  int (*make_arena)(int64_t bytes, hr_error* error);
} hr_backend;

/* The least that struct_size may say. */
#define HEADROOM_BACKEND_SMALLEST_TABLE offsetof(hr_backend, prepare_device)
/* What a table with the functions of devices has at least. */
#define HEADROOM_BACKEND_DEVICE_TABLE offsetof(hr_backend, share)
#define HEADROOM_BACKEND_SHARE_TABLE offsetof(hr_backend, make_arena)

typedef const hr_backend* (*hr_backend_function)(void);

#ifdef __cplusplus
}
#endif
#endif
