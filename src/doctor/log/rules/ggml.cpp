// ggml (llama.cpp, whisper.cpp, stable-diffusion.cpp): a buffer on the GPU, or memory of the host. Ollama
// runs ggml, and has words and settings of its own.
#include <algorithm>

#include "base/text.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/rules/ggml_figures.h"

namespace headroom::doctor {
namespace {

// What does not say of which memory it is goes with a message whose subject begins with its own: Vulkan's
// words, which any program may have, with ggml's near them, but not with a note about pinned memory.
constexpr std::string_view kOnDevice = "memory", kOnHost = "memory of the host";

void set_host(LogMessage& message) {
  message.subject = kOnHost;
  message.add("memory", "host");
}

// ggml ends the program where malloc failed: "GGML_ASSERT: …/ggml-backend.c:460: data != NULL && …",
// "…/ggml.c:1516: GGML_ASSERT(ctx->mem_buffer != NULL) failed". Its source code ends otherwise.
bool is_failed_assert(std::string_view line) { return has(line, "GGML_ASSERT: ") || has(line, ") failed"); }

bool is_pinned_refusal(std::string_view line) {
  return has(line, " of pinned memory") || (has(line, "ggml_") && has(line, "pinned memory")) ||
         has(line, "ggml_cuda_host_malloc");
}

// "ggml_vulkan: Failed to allocate pinned memory." has Vulkan's words on the next line, or in brackets.
void add_reason_of_pinned(std::string_view line, LogMessage& message) {
  if (has(line, "ErrorOutOf"))
    message.add("reason", "ErrorOutOfDeviceMemory");
  else if (const auto reason = text_after(line, "pinned memory: "); reason && !has(*reason, "out of memory"))
    message.add("reason", trim(*reason));
  message.may_go_on = has(line, "ggml_vulkan") && message.text("reason").empty();
}

// The functions that refuse a buffer, in which words the refusal is.
bool is_buffer_refusal(std::string_view line) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"alloc_buffer: allocating ", "failed"},
      {"ggml", "error: failed to allocate buffer, size ="},  // of Metal
      {"alloc_buffer: failed to allocate buffer of size ", ""},
      {"failed to allocate buffer for kv cache", ""},
      {"failed to allocate memory for the kv cache", ""},
      {"ggml_aligned_malloc: insufficient memory", ""},
      {"ErrorOutOfDeviceMemory", ""},
      {"ggml", "ErrorOutOfHostMemory"}};
  const bool is_vulkan =
      has(line, "ggml_vulkan") && has(line, "emory allocation of size ") && has(line, "failed");
  return is_vulkan || std::any_of(std::begin(kPairs), std::end(kPairs), [line](const auto& pair) {
           return has(line, pair.first) && has(line, pair.second);
         });
}
bool is_range_refusal(std::string_view line) {
  return (has(line, "alloc_tensor_range") || has(line, "ggml_gallocr_reserve")) &&
         has(line, "failed to allocate");
}
bool is_any_refusal(std::string_view line) { return is_buffer_refusal(line) || is_range_refusal(line); }

void add_size_of_buffer(std::string_view line, LogMessage& message) {
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  message.is_rounded =
      !match("buffer of size {requested_bytes}") && !match("emory allocation of size {requested_bytes}");
  if (message.is_rounded && !match("allocating {requested_bytes}") &&
      !match("attempted to allocate {requested_bytes}"))
    match("failed to allocate buffer, size ={requested_bytes}");
}

void add_buffer(std::string_view line, LogMessage& message) {
  const auto match = [&](std::string_view pattern) { return match_pattern(pattern, line, message); };
  message.subject = kOnDevice;
  add_size_of_buffer(line, message);
  match("on device {gpu:int}");
  for (const std::string_view pattern : {"allocate CUDA{gpu:int} buffer", "allocate ROCm{gpu:int} buffer",
                                         "allocate Vulkan{gpu:int} buffer", "allocate SYCL{gpu:int} buffer"})
    match(pattern);
  if (has(line, "exceeds device buffer size limit")) message.add("reason", "larger than one buffer may be");
  if (has(line, "ggml_backend_cpu") || has(line, "CPU buffer") || has(line, "ggml_aligned_malloc") ||
      has(line, "ErrorOutOfHostMemory"))
    set_host(message);
  const bool is_cache = has(line, "for kv cache") || has(line, "for the kv cache");
  message.part = is_cache                              ? "cache"
                 : has(line, "ErrorOutOfDeviceMemory") ? "vulkan"
                 : has(line, "ggml_aligned_malloc")    ? "malloc"
                 : is_buffer_refusal(line)             ? "buffer"
                 : has(line, "alloc_tensor_range")     ? "tensors"
                                                       : "graph";
  message.is_vague = is_cache;  // on the GPU or the host, as the line before tells
  if (has(line, "ggml_gallocr_reserve")) message.add("wanted", "compute buffer");
  if (is_cache) message.add("wanted", "key-value cache");
}

// Ollama's line, by what stands around it: the journal's or Docker's name of it, its runner.
bool is_ollama_line(std::string_view line) {
  return has(line, "ollama[") || has(line, "/ollama] ") || source_of(line).starts_with("ollama");
}

void add_program(std::string_view line, LogMessage& message) {
  if (is_ollama_line(line) && !message.ends_program) message.add_absent(Figure{"runtime", "ollama"});
  message.add("program", ggml_program_of(line));
}

constexpr std::string_view kGgmlText = R"rules(
cures of-ollama
  cure keep at most {stay} layers on the GPU: this makes memory free for the request => /set parameter num_gpu
        {stay}  # API: "options": {"num_gpu": {stay}} :: saves freed_bytes
  cure serve one request at a time: Ollama kept {parallel} contexts => OLLAMA_NUM_PARALLEL=1 ollama serve ::
        saves saved_by_one_bytes :: when wanted!=weights, parallel>1
  cure halve the context: the key-value cache shrinks with it => /set parameter num_ctx {context_of_one/2}  #
        API: "options": {"num_ctx": {context_of_one/2}} :: saves cache_bytes/2 :: when wanted!=weights,
        context_of_one>1
  cure halve the context: the key-value cache shrinks with it => /set parameter num_ctx N  # half of KvSize in
        the server's log :: saves cache_bytes/2 :: when wanted!=weights, !context_of_one>1
  cure store the key-value cache in 8 bits (half of f16; needs flash attention) => OLLAMA_FLASH_ATTENTION=1
        OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve :: saves cache_bytes/2 :: when wanted!=weights, !kv_cache_type
  cure store the key-value cache in 8 bits (half of f16; needs flash attention) => OLLAMA_FLASH_ATTENTION=1
        OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve :: saves cache_bytes/2 :: when wanted!=weights,
        kv_cache_type=f16
  cure keep one model in memory at a time (ollama ps lists the loaded ones) => OLLAMA_MAX_LOADED_MODELS=1
        ollama serve
  cure keep fewer layers on the GPU => /set parameter num_gpu N  # below GPULayers in the server's log :: when
        !stay, !on_host
  cure use a model with fewer bits or parameters (q4_K_M takes about half of q8_0) => ollama pull MODEL:TAG
  cure add swap, which Ollama counts as available (slow when used) => sudo fallocate -l {swap_size} /swapfile
        && sudo chmod 600 /swapfile && sudo mkswap /swapfile && sudo swapon /swapfile :: when on_host,
        !swap_free_bytes>0
# The other programs have flags of their own, and none of llama.cpp's.
cures of-whisper
  cure use a smaller model: medium takes half of large, small a sixth => ./models/download-ggml-model.sh
        medium
  cure use a quantized model: q5_0 takes about a third of f16 => ./build/bin/quantize MODEL.bin MODEL-q5_0.bin
        q5_0
  cure compute on the CPU => -ng :: when memory!=host, subject!=pool
  cure see which other processes hold the memory => headroom top
cures of-diffusion
  cure use weights with fewer bits => --type q8_0 :: when wanted=weights
  cure decode the image in tiles => --vae-tiling
  cure keep the text encoders off the GPU => --clip-on-cpu :: when memory!=host, subject!=pool
  cure keep the VAE off the GPU (slow) => --vae-on-cpu :: when memory!=host, subject!=pool
  cure generate a smaller image => -W 512 -H 512 :: when wanted!=weights
  cure use weights with fewer bits => --type q8_0 :: when wanted!=weights
cures halve-context
  cure halve the context: the key-value cache shrinks with it => [[if context_length>1:-c
        {context_length/2}]][[if !context_length>1:-c N, half of n_ctx in its log]]
cures smaller-buffers
  cure keep at most {stay} layers on the GPU: this makes memory free for the buffer and for the allocations
        that follow => -ngl {stay} :: saves freed_bytes
  cure build it without pipeline parallelism, which stores {pipeline_copies} copies of the inputs of a
        computation => cmake -B build -DGGML_SCHED_MAX_COPIES=1 :: when pipelined
  cure @halve-context :: saves kv_cache_bytes/2
  cure store the key-value cache in 8 bits (half of f16; before September 2025, write -fa instead of -fa
        on)[[; this is not enough alone: add -c {tokens_in_8_bits}]] => -fa on -ctk q8_0 -ctv q8_0 :: saves
        kv_cache_bytes/2
  cure map the model's file instead of reading it => leave out --no-mmap and --mlock :: when memory=host
  cure keep fewer layers on the GPU => -ngl N, below the layers in its log :: when memory!=host, !stay,
        !pipelined
  cure halve the micro-batch: the compute buffer shrinks with it => [[if micro_batch>1:-ub
        {micro_batch/2}]][[if !micro_batch>1:-ub N, half of n_ubatch in its log]] :: saves requested_bytes/2
        :: when wanted=compute buffer
  cure use smaller micro-batches => [[if micro_batch>1:-ub {micro_batch/2}]][[if !micro_batch>1:-ub N, half of
        n_ubatch in its log]] :: when wanted!=compute buffer
  cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
figures of-runner
  runtime=ollama
  buffer of size {requested_bytes}
figures of-refusal
  runtime=ollama
  more system memory ({requested_bytes}
  " than is available ({available_bytes}"
figures of-layout
  runtime=ollama
  " with num_gpu = {gpu_layers:int}"
  wanted=layout
figures of-request
  " requested="{requested_bytes}"
  " requested={requested_bytes}"
  " available="{available_bytes}"
  " available={available_bytes}"
  " total="{ram_bytes}"
  " total={ram_bytes}"
  " free="{free_bytes}"
  " free={free_bytes}"
  " swap="{swap_free_bytes}"
  " swap={swap_free_bytes}"
rule ggml
  derive derive_ggml
  add add_program
  anchors alloc_tensor_range || _alloc_buffer: || failed to allocate buffer for kv || ggml_aligned_malloc ||
        ggml_vulkan || failed to allocate buffer, size || memory for the kv cache || OutOfHostMemory ||
        ggml_cuda_host_malloc || e pinned memory || of pinned memory
  # In Ollama's own words: a refusal before it allocates anything, or the end of its runner. A later start is
  # another load.
  line msg="model request too large for system" -> runtime=ollama; figures=@of-request; subject=ollama
        refusal; part=warning; ends_program
  # Without figures it is what the server does: "… than is currently available, evicting a model".
  line model requires more system memory && requires more system memory ({:size} && " than is available
        ({:size}" -> figures=@of-refusal; subject=ollama refusal; part=server; ends_program
    any msg=
  line rror…memory layout cannot be allocated -> figures=@of-layout; subject=ollama refusal; part=server;
        ends_program
    any msg=
  line model requires more system memory && requires more system memory ({:size} && " than is available
        ({:size}" -> figures=@of-refusal; subject=ollama refusal; part=client; ends_program
    none msg=
  line rror…memory layout cannot be allocated -> figures=@of-layout; subject=ollama refusal; part=client;
        ends_program
    none msg=
  # "… no longer running: -1 CUDA error: out of memory", with the last words of ggml.
  line llama runner process && "error loading model: unable to allocate " -> figures=@of-runner;
        wanted=weights; subject=memory; part=runner; ends_program
    any has terminated || no longer running
  line llama runner process && ggml_gallocr_reserve -> figures=@of-runner; wanted=compute buffer;
        subject=memory; part=runner; ends_program
    any has terminated || no longer running
  line llama runner process && out of memory -> figures=@of-runner; subject=memory; part=runner; ends_program
    any has terminated || no longer running
  line llama runner process && failed to allocate -> figures=@of-runner; subject=memory; part=runner;
        ends_program
    any has terminated || no longer running
  # llama.cpp's growing pool: "CUDA error: out of memory  current device: 0, in function alloc at …".
  line out of memory && ggml-cuda && current device: {gpu:int} -> subject=memory; part=gpu pool
  line not enough space in the context's memory pool -> subject=pool
    figures (needed {requested_bytes} || , available {available_bytes}
  line GGML_ASSERT -> memory=host; subject=memory of the host; part=assert; check=is_failed_assert
    any ctx->mem_buffer != NULL || " && "failed to allocate buffer""
  # What the program makes of ggml's refusal, behind it: it tells what was wanted.
  line graph_reserve: failed to allocate compute buffers -> wanted=compute buffer; subject=memory;
        part=reserve; is_vague; none=DEBUG
  line "failed to initialize the context: failed to allocate compute " -> wanted=compute buffer;
        subject=memory; part=context; is_vague; none=DEBUG
  line : failed to allocate compute buffers && _context -> wanted=compute buffer; subject=memory;
        part=context; is_vague; none=DEBUG
  line : failed to allocate the compute buffer -> wanted=compute buffer; subject=memory; part=compute;
        is_vague; none=DEBUG
  line whisper_init_state: failed to allocate memory for the compute buffer -> wanted=compute buffer;
        subject=memory; part=compute; is_vague; none=DEBUG
  line whisper_model_load: failed to allocate memory for the model -> wanted=weights; subject=memory;
        part=load; is_vague; none=DEBUG
  line alloc params backend buffer failed -> wanted=weights; subject=memory; part=load; is_vague; none=DEBUG
  # The words of Vulkan's C++ header: "what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory".
  line ErrorOutOfDeviceMemory -> subject=mem; part=vulkan; is_vague
    none ggml || llama
  line "ailed to allocate " -> subject=pinned; check=is_pinned_refusal; add=add_reason_of_pinned
    none " buffer of size "
    figures ailed to allocate {requested_bytes}
  # On a Mac.
  line kIOGPUCommandBufferCallbackErrorOutOfMemory -> wanted=compute buffer; subject=memory; part=metal
  line "error loading model: unable to allocate " -> wanted=weights; subject=memory; part=load
  line -> check=is_any_refusal; add=add_buffer
  finding ollama-out-of-memory certain when subject=ollama refusal, wanted=layout, gpu_layers
    title Ollama could not place a model with {gpu_layers} layers on the GPU
    cause The GPU's free memory is too small for that many layers (num_gpu).
    cure @of-ollama
  finding ollama-out-of-memory certain when subject=ollama refusal, wanted=layout
    title Ollama could not place a model on the GPU and in the host's memory
    cause No split of the model's layers between the GPU and the host fits in the free memory.
  finding ollama-out-of-memory certain when subject=ollama refusal, requested_bytes, available_bytes
    title Ollama refused to load a model: it needs {requested_bytes} of the host's memory, but
          {available_bytes} are available
    cause The part of the model on the host is {requested_bytes-available_bytes} larger than the host's free
          memory and free swap together.
  finding ollama-out-of-memory certain when subject=ollama refusal
    title Ollama refused to load a model: it is too large for the system
    cause The model is larger than the host's free memory and free swap together.
  finding vulkan-out-of-memory possible when subject=mem, !is_of_ggml
    title Vulkan could not allocate GPU memory[[: the program asked for {requested}]]
    cause The GPU's memory was full, or one allocation exceeded the driver's limit (maxMemoryAllocationSize).
          The message does not say which.
    cure @see-holders-now
    cure use smaller textures, buffers or windows
    cure see the driver's largest allocation => vulkaninfo | grep -E
          'maxMemoryAllocationSize|heapSize|size.*GiB'
  finding ggml-pinned-memory note when subject=pinned, reason~device is detected
    title ggml could not pin [[{requested_bytes} of ]]host memory
    cause CUDA found no GPU, so the program continues on the CPU. Memory did not run out.
    cure check whether the driver sees the GPU => nvidia-smi
  finding ggml-pinned-memory note when subject=pinned, reason~ErrorOutOf
    cause The program continues with pageable memory. On a Jetson, pinned memory saves no significant copy.
    cure see the driver's largest allocation => vulkaninfo | grep -E
          'maxMemoryAllocationSize|heapSize|size.*GiB'
  finding ggml-pinned-memory note when subject=pinned
    cure disable pinned memory => GGML_CUDA_NO_PINNED=1
  # A graph's pool has a fixed size, which the program computed.
  finding ggml-out-of-memory when subject=pool, program=whisper.cpp
    title ggml's pool for a graph was too small: the graph needs {requested|some memory}, the pool has
          {available_bytes|some memory}
    cause The program set the pool's size before it knew the graph. More memory would not help.
    cure @of-whisper
    cure use a build that computes the pool's size (llama.cpp and whisper.cpp since 2023) => git pull
  finding ggml-out-of-memory when subject=pool, program=stable-diffusion.cpp
    cure @of-diffusion
    cure use a build that computes the pool's size (llama.cpp and whisper.cpp since 2023) => git pull
  finding ggml-out-of-memory when subject=pool
    cure use smaller micro-batches, which need a smaller graph => -ub 128
    cure use a build that computes the pool's size (llama.cpp and whisper.cpp since 2023) => git pull
  finding ggml-out-of-memory when wrong_size, program
    title [[if runtime=ollama:Ollama (ggml)]][[if runtime!=ollama, program:{program} (ggml)]][[if
          runtime!=ollama, !program:ggml]] could not allocate [[if wanted=key-value cache:its key-value
          cache]][[if wanted=compute buffer:its compute buffer]][[if wanted=weights:a buffer]][[if !wanted:a
          buffer]][[ of {requested}]] [[if memory=host:in the host's memory]][[if memory!=host, gpu>0:on GPU
          {gpu}]][[if memory!=host, !gpu>0:on the GPU]]
    cause {cause_of_wrong_size}
    cure use a newer build, which may compute the size correctly => git pull
  finding ggml-out-of-memory when wrong_size
    cure use a smaller context and batch: the size is computed from them => -c 4096 -b 512 -ub 512
    cure use a newer build, which may compute the size correctly => git pull
  finding ggml-out-of-memory when runtime=ollama, wanted=weights
    cause The model's layers did not fit in the free memory.
    cure @of-ollama
  finding ggml-out-of-memory when runtime=ollama, wanted=key-value cache
    cause The key-value cache[[ of {context_length} tokens]] did not fit in the free memory.
  finding ggml-out-of-memory when runtime=ollama
    cause A model's layers, its key-value cache or the buffer of a batch did not fit in the free memory.
  finding ggml-out-of-memory when program=whisper.cpp, wanted=key-value cache
    cause The key-value cache did not fit in the free memory.
    cure @of-whisper
  finding ggml-out-of-memory when program=whisper.cpp, wanted=weights
    cause The model's weights did not fit in the free memory.
  finding ggml-out-of-memory when program=whisper.cpp
    cause The model's weights or its compute buffers did not fit in the free memory.
  finding ggml-out-of-memory when program=stable-diffusion.cpp, wanted=weights
    cause The model's weights did not fit in the free memory.
    cure @of-diffusion
  finding ggml-out-of-memory when program=stable-diffusion.cpp
    cause The model's weights or its compute buffers did not fit in the free memory.
  finding ggml-out-of-memory certain when reason=larger than one buffer may be
    cause One buffer is larger than the driver's limit for a single allocation. More free memory would not
          help.
    cure @smaller-buffers
  finding ggml-out-of-memory first_cure_meets_cause when wanted=key-value cache, room_bytes
    cause The key-value cache[[ of {context_length} tokens]] did not fit: the weights left {room_bytes} of the
          {free_bytes} that were free.
    cure shorten the context to fit in {room_bytes}; the compute buffer needs memory too, so choose a shorter
          one if that fails next => -c {tokens} :: saves saved_by_tokens_bytes
    cure @halve-context :: saves requested_bytes/2 :: when half_context
    cure store the key-value cache in 8 bits (half of f16; before September 2025, write -fa instead of -fa
          on)[[; this is not enough alone: add -c {tokens_in_8_bits}]] => -fa on -ctk q8_0 -ctv q8_0 :: saves
          saved_by_8_bits_bytes
    cure map the model's file instead of reading it => leave out --no-mmap and --mlock :: when memory=host
    cure keep at most {stay} layers on the GPU: the weights and cache of the others move to the host's memory
          (slower) => -ngl {stay} :: saves freed_bytes :: when memory!=host
    cure keep fewer layers on the GPU => -ngl N, below the layers in its log :: when memory!=host, !stay
    cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
  finding ggml-out-of-memory when wanted=key-value cache
    cause The key-value cache[[ of {context_length} tokens]] did not fit in the free memory.
  finding ggml-out-of-memory when wanted=weights
    cause The model's layers did not fit in the free memory.
    cure keep at most {stay} layers on the GPU: this makes memory free for the buffer and for the allocations
          that follow => -ngl {stay} :: saves freed_bytes
    cure keep half of the {gpu_layers} layers on the GPU => -ngl {gpu_layers/2} :: saves requested_bytes/2 ::
          when !stay, gpu_layers>1
    cure keep fewer layers on the GPU => -ngl N, below the layers in its log :: when !stay, !gpu_layers>1
    cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
    cure @see-others-on-gpu
  finding ggml-out-of-memory
    cause A model's layers, its key-value cache or the buffer of a batch did not fit in the free memory.
    cure @smaller-buffers

# What llama.cpp and its like print while they load: the figures that their refusals lack, which program it
# is, and that it tries again with less.
rule ggml-context
  context_of ggml
  answers ggml
  read_first read_ggml_context
  anchors isper_ || -diffusion.cpp || ggml_extend.hpp || " layers to GPU" || ": n_layer " || ": n_ctx " || ":
        n_ubatch " || model buffer size = || KV buffer size = || "using device " || retrying without pipeline
        parallelism || ggml_vulkan || d Vulkan backend || "ama_model_loader: " || l: KV self size || t: KV
        self size || lama_kv_cache || lelism enabled (n_copies

# What Ollama prints while it loads a model: that the log is Ollama's, and figures for its refusals.
rule ollama-context
  context_of ggml
  answers ggml
  read_first read_ollama_context
  anchors s.offload= || CacheType: || msg="kv cache" device= || "--ctx-size " || _swap= ||
        OLLAMA_NUM_PARALLEL: || "msg="llama runner started in "
)rules";

}  // namespace

RuleFamily ggml_rules() {
  return {kGgmlText,
          {{"derive_ggml", derive_ggml},
           {"add_program", add_program},
           {"is_failed_assert", is_failed_assert},
           {"is_pinned_refusal", is_pinned_refusal},
           {"add_reason_of_pinned", add_reason_of_pinned},
           {"is_any_refusal", is_any_refusal},
           {"add_buffer", add_buffer},
           {"read_ggml_context", read_ggml_context},
           {"read_ollama_context", read_ollama_context}}};
}

}  // namespace headroom::doctor
