/* A second C function of the TensorRT plug-in, beside headroom_backend() of inference/backend_plugin.h:
 * builds an engine of an ONNX model. The rules are those of that file: no exception crosses, 0 for success,
 * else `error` is filled. */
#ifndef HEADROOM_ENGINE_BUILDER_PLUGIN_H
#define HEADROOM_ENGINE_BUILDER_PLUGIN_H

#include "inference/backend_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEADROOM_ENGINE_BUILDER_SYMBOL "headroom_build_engine"

typedef struct hr_engine_order {
  size_t struct_size;
  const char* model;   /* the ONNX file */
  const char* engine;  /* the file to write; its record is written beside it (engine_record.h) */
  const char* device;  /* "cuda:0" */
  const char* creator; /* Headroom's version, and the time, for the record */
  const char* created_at;
  int32_t image_size;      /* of the inputs' sides that the model leaves open */
  int32_t precision;       /* 0 FP32, 1 FP16, 2 BF16, 3 INT8 */
  int64_t workspace_bytes; /* bound of kWORKSPACE and kTACTIC_DRAM; 0: TensorRT's own */
  int32_t force;           /* replaces an engine that is there, whatever it is */
  /* A sign of life and what is at work, from any thread of the builder; may be NULL. */
  void (*progress)(void* context, const char* text);
  void* progress_context;
} hr_engine_order;

typedef struct hr_engine_outcome {
  size_t struct_size;
  int32_t was_there;         /* an engine of the same model, machine and settings was, and nothing was done */
  int64_t device_peak_bytes; /* the most that the builder had of the device's memory, through its allocator */
  int64_t refused;           /* requests of memory that it was refused; it goes on without such a tactic */
  char note[512];            /* a sentence worth knowing, or empty */
} hr_engine_outcome;

typedef int (*hr_build_engine_function)(const hr_engine_order* order, hr_engine_outcome* outcome,
                                        hr_error* error);

#ifdef __cplusplus
}
#endif
#endif
