/* A second C function of the TensorRT plug-in, in addition to headroom_backend(): it builds an engine from
 * an ONNX model. The rules of inference/backend_plugin.h apply: no exception leaves it, 0 is success,
 * otherwise `error` is filled. */
#ifndef HEADROOM_ENGINE_BUILDER_PLUGIN_H
#define HEADROOM_ENGINE_BUILDER_PLUGIN_H

#include "inference/backend_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEADROOM_ENGINE_BUILDER_SYMBOL "headroom_build_engine"

typedef struct hr_engine_request {
  size_t struct_size;
  const char* model;   /* the ONNX file */
  const char* engine;  /* the file to write; its record goes next to it (engine_file.h) */
  const char* device;  /* "cuda:0" */
  const char* creator; /* for the record: Headroom's version, and the time */
  const char* created_at;
  int32_t image_size;      /* for dynamic sides of the inputs */
  int32_t precision;       /* 0 FP32, 1 FP16, 2 BF16, 3 INT8 */
  int64_t workspace_bytes; /* limit of kWORKSPACE and kTACTIC_DRAM; 0: TensorRT's default */
  int32_t force;           /* 1: replace any existing engine */
  /* Reports progress and the current phase, from any thread of the builder; may be NULL. */
  void (*progress)(void* context, const char* text);
  void* progress_context;
} hr_engine_request;

typedef struct hr_engine_outcome {
  size_t struct_size;
  int32_t
      already_built; /* 1: an engine of the same model, machine and settings existed, so nothing was built */
  int64_t device_peak_bytes; /* largest amount of device memory held by the builder's allocator */
  int64_t refused;           /* refused allocations; the builder then skips the tactic */
  char note[512];            /* a note for the user, or empty */
} hr_engine_outcome;

typedef int (*hr_build_engine_function)(const hr_engine_request* request, hr_engine_outcome* outcome,
                                        hr_error* error);

#ifdef __cplusplus
}
#endif
#endif
