/* The model pool as plain C, for C, Python (ctypes) and other languages. headroom/model_pool.h is the same
 * for C++ and explains each function and field; docs/model-pool.md explains how the pool decides.
 *
 * Rules:
 *   - Sizes are bytes, times are nanoseconds. Strings are UTF-8 and zero-terminated.
 *   - Pass `sizeof` of a structure with it. Later versions only append fields.
 *   - A field that the caller does not know has its default. Start from the HEADROOM_POOL_…_INIT values.
 *   - A function that can fail takes an error; it may be null. On success its kind is HEADROOM_POOL_OK.
 *   - Any thread may use a pool. A session belongs to one thread at a time; it may outlive the pool.
 *   - What a session's functions return is valid until the session ends; a tensor until the next run. */
#ifndef HEADROOM_MODEL_POOL_C_H
#define HEADROOM_MODEL_POOL_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(HEADROOM_POOL_BUILDS_LIBRARY)
#define HEADROOM_POOL_API __attribute__((visibility("default")))
#else
#define HEADROOM_POOL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct headroom_pool headroom_pool;
typedef struct headroom_pool_session headroom_pool_session;

/* headroom/model_pool.h throws these as std::invalid_argument, std::logic_error and std::runtime_error. */
enum headroom_pool_error_kind {
  HEADROOM_POOL_OK = 0,
  HEADROOM_POOL_INVALID_ARGUMENT = 1,
  HEADROOM_POOL_WRONG_USE = 2,
  HEADROOM_POOL_FAILED = 3
};

typedef struct headroom_pool_error {
  int32_t kind;
  char message[1024]; /* one sentence */
} headroom_pool_error;

typedef struct headroom_pool_options {
  int64_t budget_bytes;
  const char* device;           /* "cpu", "cuda:0" */
  int64_t margin_bytes;         /* -1: a sixteenth of the budget */
  int64_t unload_after_idle_ns; /* -1: only when the budget is full */
  int64_t patience_ns;
  int64_t load_delay_ns;
  int64_t load_timeout_ns;
  int64_t frame_bytes;
  int64_t arena_bytes;
  const char* name;      /* null or "": publishes nothing */
  const char* events_to; /* null or "": none */
} headroom_pool_options;
#define HEADROOM_POOL_OPTIONS_INIT \
  { 0, "cpu", -1, -1, 250000000, 0, 60000000000, 0, 0, NULL, NULL }

typedef struct headroom_pool_model {
  const char* name;
  const char* path;
  const char* backend; /* null or "": chosen by extension */
  const char* device;
  int32_t threads;
  int32_t arena; /* 0 or 1, as the other flags */
  int32_t prepacking;
  int32_t memory_pattern;
  int32_t image_size;
  int32_t isolated;
  int32_t sessions;
  int64_t load_peak_bytes;
  int64_t run_peak_bytes;
  int64_t first_load_bytes;
} headroom_pool_model;
#define HEADROOM_POOL_MODEL_INIT \
  { NULL, NULL, NULL, "cpu", 1, 1, 1, 1, 640, 0, 1, 0, 0, 0 }

typedef struct headroom_pool_tensor_spec {
  const char* name;
  int32_t type; /* headroom::PoolElement */
  int32_t rank;
  const int64_t* dims; /* -1: dynamic */
} headroom_pool_tensor_spec;

typedef struct headroom_pool_tensor {
  const void* data; /* null if it does not hold plain numbers */
  int32_t type;
  int32_t rank;
  const int64_t* dims;
} headroom_pool_tensor;

/* Figures since the pool was created. Bytes are those in the pool's account; times are in seconds.
 *
 * Requests are calls of acquire. A hit returned a loaded session at once. A wait returned later, with a
 * session or without. A request that was refused at once is neither. Refusals include those of preload.
 * Evictions are models unloaded for others, or because the process exceeded the budget. */
typedef struct headroom_pool_metrics {
  int64_t requests, hits, waits, refusals;
  int64_t loads, load_failures, hangs, evictions, unloads;
  double load_seconds, reload_seconds, wait_seconds;
  int64_t budget_bytes, used_bytes, peak_used_bytes;
  int64_t resident_bytes, loading_bytes;
  int64_t unaccounted_bytes; /* measured beyond the pool's account: unreturned, and the program's own */
  int64_t stuck_bytes;       /* held by loads and frees that hang */
  int64_t measured_bytes;    /* the last reading of the memory that the budget limits */
  int64_t promised_bytes, returned_bytes; /* sum over all unloads */
  int64_t short_returns; /* unloads that returned less than nine tenths of what they promised */
  int64_t lost_events;   /* lines of events_to lost because its pipe was full or had no reader */
} headroom_pool_metrics;

/* Null if it fails. */
HEADROOM_POOL_API headroom_pool* headroom_pool_create(const headroom_pool_options* options,
                                                      size_t options_size, headroom_pool_error* error);
HEADROOM_POOL_API void headroom_pool_destroy(headroom_pool* pool); /* null: does nothing */
/* 0, or a headroom_pool_error_kind. */
HEADROOM_POOL_API int32_t headroom_pool_add(headroom_pool* pool, const headroom_pool_model* model,
                                            size_t model_size, headroom_pool_error* error);
/* Waits for a session, at most `deadline_ns` from now (-1: no deadline). The result is null only if memory
 * for the session object itself is missing; a refusal is a session that has none: see its functions below. */
HEADROOM_POOL_API headroom_pool_session* headroom_pool_acquire(headroom_pool* pool, const char* model,
                                                               int64_t deadline_ns, int32_t priority);
/* 1: the model is loaded; 0: refused, and `error` tells why. */
HEADROOM_POOL_API int32_t headroom_pool_preload(headroom_pool* pool, const char* model, int64_t deadline_ns,
                                                int32_t priority, headroom_pool_error* error);
/* 0: the model is unknown. */
HEADROOM_POOL_API int32_t headroom_pool_pin(headroom_pool* pool, const char* model, int32_t pinned);
HEADROOM_POOL_API int32_t headroom_pool_unload(headroom_pool* pool, const char* model);
HEADROOM_POOL_API void headroom_pool_get_metrics(const headroom_pool* pool, headroom_pool_metrics* metrics,
                                                 size_t metrics_size);
HEADROOM_POOL_API uint8_t* headroom_pool_frames(headroom_pool* pool);
HEADROOM_POOL_API int32_t headroom_pool_frames_fd(const headroom_pool* pool);
HEADROOM_POOL_API int64_t headroom_pool_frames_offset(void);

/* Returns the session to the pool and frees the object; null: does nothing. */
HEADROOM_POOL_API void headroom_pool_session_end(headroom_pool_session* session);
/* 1: there is a session that can run. */
HEADROOM_POOL_API int32_t headroom_pool_session_is_ready(const headroom_pool_session* session);
HEADROOM_POOL_API int32_t
headroom_pool_session_refusal(const headroom_pool_session* session); /* PoolRefusal */
HEADROOM_POOL_API const char* headroom_pool_session_message(const headroom_pool_session* session);
HEADROOM_POOL_API const headroom_pool_tensor_spec* headroom_pool_session_inputs(
    const headroom_pool_session* session, size_t* count);
HEADROOM_POOL_API const headroom_pool_tensor_spec* headroom_pool_session_outputs(
    const headroom_pool_session* session, size_t* count);
HEADROOM_POOL_API int32_t headroom_pool_session_set_input(headroom_pool_session* session, size_t index,
                                                          void* data, size_t bytes, const int64_t* dims,
                                                          size_t rank, headroom_pool_error* error);
HEADROOM_POOL_API int32_t headroom_pool_session_run(headroom_pool_session* session,
                                                    headroom_pool_error* error);
HEADROOM_POOL_API int32_t headroom_pool_session_output(headroom_pool_session* session, size_t index,
                                                       headroom_pool_tensor* tensor,
                                                       headroom_pool_error* error);
HEADROOM_POOL_API void headroom_pool_session_discard(headroom_pool_session* session);

#ifdef __cplusplus
}
#endif

#endif
