// ggml (llama.cpp, whisper.cpp, stable-diffusion.cpp): a buffer on the GPU, or memory of the host. Ollama
// runs ggml, and has words and settings of its own.
#include <algorithm>

#include "doctor/log/message_text.h"
#include "doctor/log/rule_text.h"

namespace headroom::doctor {
namespace {

constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kTokenStep = 256;  // llama.cpp rounds a context up to that many tokens

bool is_count(const std::optional<std::int64_t>& layers) {
  return layers && *layers > 0 && *layers < kMostLayers;
}

bool is_cache_refused(const LogMessage& message) { return message.text("wanted") == "key-value cache"; }

void add_layers(LogMessage& message, std::int64_t stay, Bytes freed) {
  message.add("stay", stay);
  message.add("freed_bytes", freed);
}

// The weights are on the GPU, and something else was refused: as many layers leave as make room for it.
void make_room(LogMessage& message, Bytes requested, Bytes model) {
  const std::int64_t on_gpu = *message.number("gpu_layers");
  if (model.count < on_gpu) return;
  const std::int64_t each = model.count / on_gpu;
  const std::int64_t leave = (requested.count - 1) / each + 1;
  add_layers(message, std::max<std::int64_t>(0, on_gpu - leave), Bytes{std::min(leave, on_gpu) * each});
}

// A layer that leaves the GPU takes its weights and its part of the cache along, and nothing of the cache is
// there yet: as many stay as have room for both. Of several GPUs the log does not say how many layers each
// has.
void make_room_for_cache(LogMessage& message, Bytes requested, Bytes model) {
  const auto free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  const bool are_several = message.number("gpu").value_or(0) > 0;
  const std::int64_t on_gpu = *message.number("gpu_layers");
  if (!free || are_several || *free >= model + requested) return;
  // "offloaded 33/33 layers": the last is the output, which has no cache.
  const bool has_output = layers && on_gpu >= *layers && on_gpu > 1;
  const std::int64_t cached = on_gpu - (has_output ? 1 : 0);
  const std::int64_t each = model.count / on_gpu + requested.count / cached;
  if (each <= 0) return;
  const std::int64_t stay = std::clamp<std::int64_t>(free->count / each, 0, on_gpu - 1);
  add_layers(message, stay, model + requested - Bytes{stay * each});
}

// The weights themselves were refused: as large a part of the layers stays as was free.
void keep_part_of_weights(LogMessage& message, Bytes requested, Bytes free, std::int64_t layers) {
  if (free >= requested) return;
  const double part = static_cast<double>(free.count) / static_cast<double>(requested.count);
  const auto stay = static_cast<std::int64_t>(part * static_cast<double>(layers));
  add_layers(message, stay, Bytes{requested.count / layers * (layers - stay)});
}

void derive_layers(LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), model = message.bytes("model_buffer_bytes"),
             free = message.bytes("free_bytes");
  const auto layers = message.number("layers");
  if (!requested || requested->count <= 0 || is_impossible(*requested)) return;
  if (model && is_count(message.number("gpu_layers"))) {
    if (is_cache_refused(message))
      make_room_for_cache(message, *requested, *model);
    else
      make_room(message, *requested, *model);
  } else if (free && is_count(layers) && !model && !is_cache_refused(message)) {
    keep_part_of_weights(message, *requested, *free, *layers);
  }
}

// The cache grows in step with the context.
std::int64_t tokens_in(Bytes room, Bytes cache, std::int64_t context) {
  const double part = static_cast<double>(room.count) / static_cast<double>(cache.count);
  return static_cast<std::int64_t>(part * static_cast<double>(context)) / kTokenStep * kTokenStep;
}

// What the weights leave of the GPU for the cache, and how long a context fits in it.
void derive_cache(LogMessage& message) {
  const auto requested = message.bytes("requested_bytes"), model = message.bytes("model_buffer_bytes"),
             free = message.bytes("free_bytes");
  const auto context = message.number("context_length");
  if (!requested || is_impossible(*requested)) return;
  const bool is_elsewhere = message.text("memory") == "host" || message.number("gpu").value_or(0) > 0;
  if (is_elsewhere || !model || !free || *model >= *free || *free - *model >= *requested) return;
  const Bytes room = *free - *model;
  message.add("room_bytes", room);
  if (!context || *context <= 0) return;
  if (const std::int64_t tokens = tokens_in(room, *requested, *context); tokens >= kTokenStep) {
    const double part = static_cast<double>(tokens) / static_cast<double>(*context);
    const Bytes held{static_cast<std::int64_t>(part * static_cast<double>(requested->count))};
    message.add("tokens", tokens);
    message.add("saved_by_tokens_bytes", *requested - held);
  }
  // q8_0 keeps 32 values in 34 bytes, f16 in 64.
  if (const Bytes smaller{requested->count / 64 * 34}; smaller > room)
    if (const std::int64_t tokens = tokens_in(room, smaller, *context); tokens >= kTokenStep)
      message.add("tokens_in_8_bits", tokens);
}

// What Ollama printed counts the contexts of all requests that run at a time.
void derive_ollama(LogMessage& message) {
  const std::int64_t parallel = std::max<std::int64_t>(1, message.number("parallel").value_or(1));
  const bool is_host = message.text("memory") == "host" || message.bytes("available_bytes");
  if (is_host) message.add("on_host", "yes");
  message.add("context_of_one", message.number("context_length").value_or(0) / parallel);
  auto cache = is_host ? message.bytes("host_kv_cache_bytes") : message.bytes("kv_cache_bytes");
  if (cache && is_impossible(*cache)) cache.reset();
  message.add("cache_bytes", cache);
  if (cache) message.add("saved_by_one_bytes", Bytes{cache->count / parallel * (parallel - 1)});
  if (message.text("wanted") != "layout") return;
  const auto asked = message.number("gpu_layers");
  if (asked && *asked > 1) message.add("stay", *asked / 2);
}

void derive_ggml(std::string_view, LogMessage& message) {
  if (message.text("memory") != "host" && message.subject != "ollama refusal") derive_layers(message);
  if (is_cache_refused(message)) derive_cache(message);
  if (message.text("runtime") == "ollama") derive_ollama(message);
}

}  // namespace

RuleFamily ggml_rules() {
  return {R"rules(
cures of-ollama
  cure keep at most {stay} layers on the GPU: this makes memory free for the request => /set parameter num_gpu
        {stay}  # API: "options": {"num_gpu": {stay}} :: saves freed_bytes
  cure serve one request at a time: Ollama kept {parallel} contexts => OLLAMA_NUM_PARALLEL=1 ollama serve ::
        saves saved_by_one_bytes :: when wanted!=weights, parallel>1
  cure halve the context: the key-value cache shrinks with it => /set parameter num_ctx [[if
        context_of_one>1:{context_of_one/2}  # API: "options": {"num_ctx": {context_of_one/2}}]][[if
        !context_of_one>1:N  # half of KvSize in the server's log]] :: saves cache_bytes/2 :: when
        wanted!=weights
  cure store the key-value cache in 8 bits (half of f16; needs flash attention) => OLLAMA_FLASH_ATTENTION=1
        OLLAMA_KV_CACHE_TYPE=q8_0 ollama serve :: saves cache_bytes/2 :: when wanted!=weights,
        kv_cache_type!=q8_0, kv_cache_type!=q4_0
  cure keep one model in memory at a time (ollama ps lists the loaded ones) => OLLAMA_MAX_LOADED_MODELS=1
        ollama serve
  cure keep fewer layers on the GPU => /set parameter num_gpu N  # below GPULayers in the server's log :: when
        !stay, !on_host
  cure use a model with fewer bits or parameters (q4_K_M takes about half of q8_0) => ollama pull MODEL:TAG
  cure add swap, which Ollama counts as available (slow when used) => sudo fallocate -l [[if
        ram_bytes:{ram_bytes/2+1073741823/1073741824:count}]][[if !ram_bytes:$(awk '/MemTotal/ {print
        int($2/2097152)+1}' /proc/meminfo)]]G /swapfile && sudo chmod 600 /swapfile && sudo mkswap /swapfile
        && sudo swapon /swapfile :: when on_host, !swap_free_bytes>0, !unified_memory
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
cures halve-context: halve the context: the key-value cache shrinks with it => [[if context_length>1:-c
      {context_length/2}]][[if !context_length>1:-c N, half of n_ctx in its log]]
cures cache-in-8-bits: store the key-value cache in 8 bits (half of f16; before September 2025, write -fa
      instead of -fa on)[[; this is not enough alone: add -c {tokens_in_8_bits}]] => -fa on -ctk q8_0 -ctv q8_0
cures fewer-layers: keep fewer layers on the GPU => -ngl N, below the layers in its log
cures smaller-buffers
  cure keep at most {stay} layers on the GPU: this makes memory free for the buffer and for the allocations
        that follow => -ngl {stay} :: saves freed_bytes
  cure build it without pipeline parallelism, which stores {pipeline_copies} copies of the inputs of a
      computation => cmake -B build -DGGML_SCHED_MAX_COPIES=1 :: when pipeline_copies>1, wanted=compute buffer
  cure @halve-context :: saves kv_cache_bytes/2
  cure @cache-in-8-bits :: saves kv_cache_bytes/2
  cure map the model's file instead of reading it => leave out --no-mmap and --mlock :: when memory=host
  cure @fewer-layers :: when memory!=host, !stay, !pipeline_copies>1
  cure @fewer-layers :: when memory!=host, !stay, pipeline_copies>1, wanted!=compute buffer
  cure halve the micro-batch: the compute buffer shrinks with it => [[if micro_batch>1:-ub
        {micro_batch/2}]][[if !micro_batch>1:-ub N, half of n_ubatch in its log]] :: saves requested_bytes/2
        :: when wanted=compute buffer
  cure use smaller micro-batches => [[if micro_batch>1:-ub {micro_batch/2}]][[if !micro_batch>1:-ub N, half of
        n_ubatch in its log]] :: when wanted!=compute buffer
  cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
figures of-program
  whisper_ => program=whisper.cpp
  program=stable-diffusion.cpp <= stable-diffusion.cpp || ggml_extend.hpp
# What refuses, by the name of its buffer: "CPU", "CPU_REPACK", "CUDA_Host" (pinned).
figures of-host-buffer
  memory=host <= ggml_backend_cpu || CPU buffer || allocate CPU_ || _Host buffer || ggml_aligned_malloc ||
        ErrorOutOfHostMemory
  subject=memory[[if memory=host: of the host]]
figures of-buffer
  buffer of size {requested_bytes} || emory allocation of size {requested_bytes}
  allocating {requested_bytes} || attempted to allocate {requested_bytes}
  is_rounded <= allocating {:size} || attempted to allocate {:size}
  on device {gpu:int} || allocate CUDA{gpu:int} buffer || allocate ROCm{gpu:int} buffer
  allocate Vulkan{gpu:int} buffer || allocate SYCL{gpu:int} buffer
  exceeds device buffer size limit => reason=larger than one buffer may be
  @of-host-buffer
# What does not say of which memory it is goes with a message whose subject begins with its own: Vulkan's
# words, which any program may have, with ggml's near them, but not with a note about pinned memory.
rule ggml: derive=derive_ggml
  # Ollama's line by the journal's or Docker's name of it.
  figures ollama[ => runtime=ollama || "/ollama] " => runtime=ollama || "^ollama  | " => runtime=ollama ||
        ^ollama-{:int}  | => runtime=ollama || @of-program
  # In Ollama's own words: a refusal before it allocates anything, or the end of its runner. A later start is
  # another load.
  line msg="model request too large for system" -> runtime=ollama; subject=ollama refusal; part=warning;
        ends_program
    figures " requested={requested_bytes}" || " available={available_bytes}" || " total={ram_bytes}" || "
          free={free_bytes}" || " swap={swap_free_bytes}"
  # Without figures it is what the server does: "… than is currently available, evicting a model".
  line model requires more system memory ({:size} && " than is available ({:size}" -> runtime=ollama;
        subject=ollama refusal; ends_program
    figures more system memory ({requested_bytes} || " than is available ({available_bytes}" || msg= =>
          part=server || part=client
  line rror…memory layout cannot be allocated -> runtime=ollama; figures=" with num_gpu = {gpu_layers:int}";
        wanted=layout; subject=ollama refusal; ends_program; figures=msg= => part=server || part=client
  # "… no longer running: -1 CUDA error: out of memory", with the last words of ggml.
  # Since 0.30 the runner is llama-server.
  line llama…process && out of memory -> runtime=ollama; part=runner; ends_program; figures=@of-host-buffer
  or llama…process && failed to allocate
  or llama…process && ggml_gallocr_reserve
  or llama…process && "error loading model: unable to allocate "
    any llama runner process has terminated || llama runner process no longer running || llama-server process
          has terminated || llama-server process no longer running
    figures buffer of size {requested_bytes} || "error loading model: unable to allocate " => wanted=weights
          || ggml_gallocr_reserve => wanted=compute buffer
  # llama.cpp's growing pool: "CUDA error: out of memory  current device: 0, in function alloc at …".
  line out of memory && ggml-cuda && current device: {gpu:int} -> subject=memory; part=gpu pool
  line not enough space in the context's memory pool -> subject=pool
    figures (needed {requested_bytes} || , available {available_bytes}
  # ggml ends the program where malloc failed. Its source code ends otherwise.
  line GGML_ASSERT: …ctx->mem_buffer != NULL -> memory=host; subject=memory of the host; part=assert
  or GGML_ASSERT: …&& "failed to allocate buffer"
  or GGML_ASSERT(ctx->mem_buffer != NULL) failed
  or GGML_ASSERT(…&& "failed to allocate buffer") failed
  # What the program makes of ggml's refusal, behind it: it tells what was wanted.
  line graph_reserve: failed to allocate compute buffers -> wanted=compute buffer; subject=memory;
        part=reserve; is_vague; none=DEBUG
  line "failed to initialize the context: failed to allocate compute " -> wanted=compute buffer;
        subject=memory; part=context; is_vague; none=DEBUG
  or : failed to allocate compute buffers && _context
  line : failed to allocate the compute buffer -> wanted=compute buffer; subject=memory; part=compute;
        is_vague; none=DEBUG
  or whisper_init_state: failed to allocate memory for the compute buffer
  line whisper_model_load: failed to allocate memory for the model -> wanted=weights; subject=memory;
        part=load; is_vague; none=DEBUG
  or alloc params backend buffer failed
  # The words of Vulkan's C++ header: "what():  vk::Device::allocateMemory: ErrorOutOfDeviceMemory".
  line ErrorOutOfDeviceMemory -> subject=mem; part=vulkan; is_vague
    none ggml || llama
  # It has Vulkan's words on the next line, or in brackets.
  line ggml_vulkan && ailed to allocate pinned memory && ErrorOutOf -> subject=pinned;
        reason=ErrorOutOfDeviceMemory
  line ggml_vulkan && ailed to allocate pinned memory -> subject=pinned; may_go_on
  line ailed to allocate && " of pinned memory" -> subject=pinned; none=" buffer of size "
  or ailed to allocate && ggml_cuda_host_malloc
    figures ailed to allocate {requested_bytes} || device is detected => reason=no CUDA-capable device is
          detected
  line "error loading model: unable to allocate backend buffer" -> wanted=weights; subject=memory; part=load;
        is_vague
  line "error loading model: unable to allocate " -> wanted=weights; part=load; figures=@of-host-buffer
  # The functions that refuse a buffer.
  line failed to allocate buffer for kv cache || failed to allocate memory for the kv cache -> part=cache;
        is_vague; figures=@of-buffer
    figures wanted=key-value cache
  line ErrorOutOfDeviceMemory -> part=vulkan; figures=@of-buffer
  line ggml_aligned_malloc: insufficient memory -> part=malloc; figures=@of-buffer
  line "alloc_buffer: allocating " && failed -> part=buffer; figures=@of-buffer
  or "alloc_buffer: failed to allocate buffer of size "
  or ggml && ErrorOutOfHostMemory
  or ggml_vulkan && emory allocation of size && failed
  line alloc_tensor_range && failed to allocate -> part=tensors; figures=@of-buffer
  line ggml_gallocr_reserve && failed to allocate -> part=graph; figures=@of-buffer
    figures wanted=compute buffer
  finding ollama-out-of-memory certain when subject=ollama refusal, wanted=layout, gpu_layers
    title Ollama could not place a model with {gpu_layers} layers on the GPU
    cause The GPU's free memory is too small for that many layers (num_gpu).
    cure @of-ollama
  finding ollama-out-of-memory certain when subject=ollama refusal, wanted=layout
    title Ollama could not place a model on the GPU and in the host's memory
    cause No split of the model's layers between the GPU and the host fits in the free memory.
  finding ollama-out-of-memory first_cure_meets_cause when subject=ollama refusal, unified_memory,
      requested_bytes, available_bytes
    title Ollama refused to load a model: it needs {requested_bytes}, but {available_bytes} are available
    cause [[if unified_memory:CPU and GPU share this machine's memory. ]]Ollama's figure of the free memory
          leaves out the page cache[[ ({page_cache_bytes})]], although the kernel gives it back on demand.[[if
          !requested_bytes>available_bytes: Both sizes are rounded, so less is missing than they show.]]
    cure @drop-page-cache
    cure drop the page cache ({page_cache_bytes}), on the host if Ollama runs in a container => sync; echo 1 |
          sudo tee /proc/sys/vm/drop_caches :: saves page_cache_bytes :: when !unified_memory
    cure @of-ollama
  # In a container, too, where it takes MemFree.
  finding ollama-out-of-memory first_cure_meets_cause when subject=ollama refusal,
      requested_bytes-available_bytes<page_cache_bytes
  finding ollama-out-of-memory certain when subject=ollama refusal, requested_bytes, available_bytes
    title Ollama refused to load a model: it needs {requested_bytes} of the host's memory, but
          {available_bytes} are available
    cause The part of the model on the host is [[if
          requested_bytes>available_bytes:{requested_bytes-available_bytes} ]]larger than the host's free
          memory and free swap together.[[if !requested_bytes>available_bytes: Both sizes are rounded, so less
          is missing than they show.]]
    cure @of-ollama
  finding ollama-out-of-memory certain when subject=ollama refusal
    title Ollama refused to load a model: it is too large for the system
    cause The model is larger than the host's free memory and free swap together.
  finding vulkan-out-of-memory possible when subject=mem, !backend, !program, !runtime, !layers,
      !context_length, !free_bytes, !wanted, !kv_cache_bytes, !model_buffer_bytes, !requested_bytes
    title Vulkan could not allocate GPU memory[[: the program asked for {requested}]]
    cause The GPU's memory was full, or one allocation exceeded the driver's limit (maxMemoryAllocationSize).
          The message does not say which.
    cure @of-vulkan
  finding ggml-pinned-memory note when subject=pinned, reason~device is detected
    title ggml could not pin [[{requested_bytes} of ]]host memory
    cause CUDA found no GPU, so the program continues on the CPU. Memory did not run out.
    cure check whether the driver sees the GPU => nvidia-smi
  finding ggml-pinned-memory note when subject=pinned, reason~ErrorOutOf
    cause The program continues with pageable memory. On a Jetson, pinned memory saves no significant copy.
    cure @see-vulkan-limit
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
  finding ggml-out-of-memory when wrong_size
    title [[if runtime=ollama:Ollama (ggml)]][[if runtime!=ollama, program:{program} (ggml)]][[if
          runtime!=ollama, !program:ggml]] could not allocate [[if wanted=key-value cache:its key-value
          cache]][[if wanted=compute buffer:its compute buffer]][[if wanted=weights:a buffer]][[if !wanted:a
          buffer]][[ of {requested}]] [[if memory=host:in the host's memory]][[if memory!=host, gpu>0:on GPU
          {gpu}]][[if memory!=host, !gpu>0:on the GPU]]
    cause {cause_of_wrong_size}
    cure use a smaller context and batch: the size is computed from them => -c 4096 -b 512 -ub 512 :: when
          !program
    cure use a newer build, which may compute the size correctly => git pull
  finding ggml-out-of-memory when runtime=ollama, wanted=weights
    cause The model's layers did not fit in the free memory.
    cure @of-ollama
  finding ggml-out-of-memory when runtime=ollama, wanted=key-value cache
    cause The key-value cache[[ of {context_length} tokens]] did not fit in the free memory.
  finding ggml-out-of-memory when runtime=ollama
    cause A model's layers, its key-value cache or the buffer of a batch did not fit in the free memory.
  finding ggml-out-of-memory when program=whisper.cpp
    cause [[if wanted=key-value cache:The key-value cache]][[if wanted=weights:The model's weights]][[if
          wanted!=key-value cache, wanted!=weights:The model's weights or its compute buffers]] did not fit in
          the free memory.
    cure @of-whisper
  finding ggml-out-of-memory when program=stable-diffusion.cpp
    cure @of-diffusion
  finding ggml-out-of-memory certain first_cure_meets_cause when fit_failure, memory!=host
    cause llama.cpp knew before loading that the model does not fit[[: it needs {fit_needed_bytes:mib} MiB of
          GPU memory, and {fit_free_bytes:mib} MiB were free]]. It did not adjust its settings, because [[-ngl
          is set to {user_layers}]][[if !user_layers:of this: {fit_failure}]].
    cure leave out -ngl: llama.cpp then chooses as many layers as fit => leave out -ngl (--n-gpu-layers) ::
          when user_layers
    cure leave out the setting that it names: llama.cpp then chooses what fits => leave out --tensor-split,
          --override-tensor, --cpu-moe and --n-cpu-moe :: when !user_layers, fit_failure~already set by user
    cure or make {fit_lack_bytes:mib} MiB of GPU memory free: end other programs, or shorten the context =>
          headroom top :: saves fit_lack_bytes
    cure @halve-context :: saves kv_cache_bytes/2
    cure @cache-in-8-bits :: saves kv_cache_bytes/2
    cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
  finding ggml-out-of-memory certain when reason=larger than one buffer may be
    cause One buffer is larger than the driver's limit for a single allocation. More free memory would not
          help.
    cure @smaller-buffers
  finding ggml-out-of-memory first_cure_meets_cause when wanted=key-value cache, room_bytes
    cause The key-value cache[[ of {context_length} tokens]] did not fit: the weights left {room_bytes} of the
          {free_bytes} that were free.
    cure shorten the context to fit in {room_bytes}; the compute buffer needs memory too, so choose a shorter
          one if that fails next => -c {tokens} :: saves saved_by_tokens_bytes
    cure @halve-context :: saves requested_bytes/2 :: when !room_bytes
    cure @halve-context :: saves requested_bytes/2 :: when room_bytes, !context_length>0
    cure @cache-in-8-bits :: saves requested_bytes/64*30
    cure map the model's file instead of reading it => leave out --no-mmap and --mlock :: when memory=host
    cure keep at most {stay} layers on the GPU: the weights and cache of the others move to the host's memory
          (slower) => -ngl {stay} :: saves freed_bytes :: when memory!=host
    cure @fewer-layers :: when memory!=host, !stay
    cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
  finding ggml-out-of-memory when wanted=key-value cache
    cause The key-value cache[[ of {context_length} tokens]] did not fit in the free memory.
  finding ggml-out-of-memory when wanted=weights, memory=host
    cause The part of the model that stays in the host's memory did not fit.
    cure map the model's file instead of reading it => leave out --no-mmap and --mlock
    cure move more layers to the GPU, if it has room[[ (now {gpu_layers} of {layers})]] => -ngl N, above the
          current number :: when gpu_layers<layers
    cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
    cure @see-holders
  finding ggml-out-of-memory when wanted=weights
    cause The model's layers did not fit in the free memory.
    cure keep at most {stay} layers on the GPU: this makes memory free for the buffer and for the allocations
          that follow => -ngl {stay} :: saves freed_bytes
    cure keep half of the {gpu_layers} layers on the GPU => -ngl {gpu_layers/2} :: saves requested_bytes/2 ::
          when !stay, gpu_layers>1
    cure @fewer-layers :: when !stay, !gpu_layers>1
    cure use a model with fewer bits per weight (Q4_K_M takes about half of Q8_0)
    cure @see-others-on-gpu
  finding ggml-out-of-memory
    cause A model's layers, its key-value cache or the buffer of a batch did not fit in the free memory.
    cure @smaller-buffers

# What llama.cpp and its like print while they load: the figures that their refusals lack, which program it
# is, and that it tries again with less.
rule ggml-context: context_of=ggml answers=ggml
  # If that fails, too, a refusal follows.
  line retrying without pipeline parallelism -> answers
  line model buffer size ={model_buffer_bytes} || KV buffer size ={kv_cache_bytes} || using device …) -
        {free_bytes} -> figures=@of-program
    any CUDA || ROCm || Vulkan
  # It compares its need with the free memory, and fits what the user did not set. A failure is a warning.
  line failed to fit params to free device memory: {fit_failure}
    figures n_gpu_layers already set by user to {user_layers:int}
  line projected to use {fit_needed_bytes} of device memory vs. {fit_free_bytes}
  line need to reduce device memory by {fit_lack_bytes} || need to use {fit_lack_bytes} less in total
  # The sizes are of all devices, behind those of each.
  line -> figures=@of-program
    figures offloaded {gpu_layers:int}/{layers:int} layers to GPU || KV self size  ={kv_cache_bytes} ||
          llama_kv_cache…: size ={kv_cache_bytes}… cells, || ": n_layer …= {layers:int>0}" || ": n_ctx …=
          {context_length:int>0}" || ": n_ubatch …= {micro_batch:int>0}" || pipeline parallelism enabled
          (n_copies={pipeline_copies:int} || ggml_vulkan => backend=ggml || loaded Vulkan backend =>
          backend=ggml || "llama_model_loader: " => backend=ggml

# What Ollama prints while it loads a model: that the log is Ollama's, and figures for its refusals.
rule ollama-context: context_of=ggml answers=ggml
  figures runtime=ollama
  # Up to 0.11. Of several GPUs there are as many free sizes: "[14.9 GiB 14.9 GiB]".
  line " layers.offload=0 "
    figures " layers.model={layers:int}" || " layers.offload={gpu_layers:int}" || "
          memory.required.kv="{host_kv_cache_bytes}"
  line " layers.offload="
    figures " layers.model={layers:int}" || " layers.offload={gpu_layers:int}" || "
          memory.required.kv="{kv_cache_bytes}" || " memory.available="[{free_bytes}]"
  line " KvCacheType:" && " KvSize:{context_length:int}"
    figures " Parallel:{parallel:int}" || " GPULayers:{gpu_layers:int}" || " KvCacheType:{kv_cache_type} "
  line msg="kv cache" device=CPU -> figures=" size={host_kv_cache_bytes}"
  line msg="kv cache" device= -> figures=" size={kv_cache_bytes}"
  # The runner, with llama.cpp's flags.
  line msg="starting && ollama && " --ctx-size {context_length:int}" -> figures=" --parallel {parallel:int}"
  line msg="system memory" total= -> figures=" total={ram_bytes}" || " free_swap={swap_free_bytes}"
  # It tries fewer layers on the GPU until they fit.
  line "msg="llama runner started in " -> answers
  line " OLLAMA_NUM_PARALLEL:"
)rules",
          {{"derive_ggml", derive_ggml}}};
}

}  // namespace headroom::doctor
