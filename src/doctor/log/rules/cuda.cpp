// CUDA's own words for memory that ran out, from whatever library, and those of cuBLAS and cuDNN.
#include <algorithm>

#include "base/text.h"
#include "doctor/log/log_prose.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/rules/torch_cause.h"

namespace headroom::doctor {
namespace {

// Behind which a library's words of memory follow.
constexpr std::pair<std::string_view, std::string_view> kCudaLibraries[] = {
    {"ut of memory error on GPU ", "Paddle"},
    {"faiss::gpu", "Faiss"},
    {"Faiss assertion ", "Faiss"},
    {"alloc fail type ", "Faiss"},
    {"/rmm/mr/", "RMM"},
    {"Cuda failure 'out of memory'", "NCCL"},
    {"OpenEncodeSessionEx", "NVENC"},
    {"CreateBitstreamBuffer", "NVENC"},
    {"_nvenc @", "NVENC"},
    {"cuvid", "NVDEC"},
    {"CUVID", "NVDEC"},
    {"HIP error", "HIP"},
    {"HIP out of", "HIP"},
    {"HIPError", "HIP"},
    {"hipError", "HIP"},
    {"hipMalloc", "HIP"},
    {"ROCm error", "HIP"}};
// Without a library of its own; the last are CuPy's and those of CUDA's samples.
constexpr std::string_view kCudaTexts[] = {
    "CUDA", "cuda", "Cuda", "GPUassert: ", " (allocated so far: ", " (error code out of memory)"};

std::string_view cuda_library_of(std::string_view line) {
  for (const auto& [text, name] : kCudaLibraries)
    if (has(line, text)) return name;
  return {};
}

// The first of CUDA's words for it, and what follows.
std::optional<std::string_view> behind_out_of_memory(std::string_view line) {
  for (const std::string_view words : {"CUDA_ERROR_OUT_OF_MEMORY", "cudaErrorMemoryAllocation",
                                       "hipErrorOutOfMemory", "out of memory", "Out of memory"})
    if (const auto rest = text_after(line, words)) return rest;
  return std::nullopt;
}

bool tells_cuda_memory(std::string_view line) {
  const auto rest = behind_out_of_memory(line);
  // "out of memory... no" is a check and its answer.
  if (!rest || rest->starts_with("... ")) return false;
  return !cuda_library_of(line).empty() || has_any(line, kCudaTexts);
}

// RMM, the allocator of RAPIDS, throws C++'s exception of host memory for the GPU's memory.
bool tells_rmm_memory(std::string_view line) {
  const std::size_t error = line.find("cudaError");
  return error == line.npos || line.substr(error).starts_with("cudaErrorMemoryAllocation");
}

void add_cuda_library(std::string_view line, LogMessage& message) {
  message.add("library", cuda_library_of(line));
  message.add("runtime", torch_server_of_message(line));
  message.goes_on = has(line, "alling back to ");
  // PyTorch's message goes on behind it.
  constexpr std::string_view kNext = ". Tried to allocate ";
  const std::string_view rest = behind_out_of_memory(line).value_or("");
  message.may_go_on = kNext.starts_with(rest) || rest.starts_with(kNext);
}

// CuPy counts what its pool holds, and stays below a limit that the program sets.
void derive_cuda(LogMessage& message) {
  derive_server(message);
  const auto requested = message.bytes("requested_bytes"), allocated = message.bytes("allocated_bytes"),
             limit = message.bytes("limit_bytes");
  if (requested && allocated && limit && *limit - *allocated < *requested)
    message.add("needed_bytes", *allocated + *requested);
  const std::string library = message.text("library");
  const bool may_be_jetson = library.empty() || library.starts_with("NV");
  message.add("device", may_be_jetson || library == "HIP" ? "memory" : "GPU memory");
  if (may_be_jetson && message.number("gpu").value_or(0) == 0) message.add("may_be_jetson", "yes");
}

// Behind an error's name, a logger's prefix, or nothing: not in a sentence, nor in source code.
bool tells_missing_engine(std::string_view line) {
  constexpr std::string_view kForms[] = {
      "Unable to find a valid cuDNN algorithm", "GET was unable to find an engine",
      "FIND was unable to find an engine", "Failed to get convolution algorithm"};
  constexpr std::string_view kEnds[] = {": ", "] ", "!!! ", "| ", "Error "};
  for (const std::string_view words : kForms) {
    const std::size_t at = line.find(words);
    if (at == line.npos) continue;
    const std::string_view before = line.substr(0, at);
    const bool stands_alone = trim(before).empty() || ends_with_any(before, kEnds);
    return stands_alone && !is_prose(line) && !is_advice(line, words);
  }
  return false;
}

void add_library_of_name(std::string_view line, LogMessage& message) {
  for (const std::string_view library : {"CUBLAS", "CUDNN", "CUSOLVER", "CUSPARSE", "CUFFT"})
    if (has(line, library)) return message.add("library", library);
}

constexpr std::string_view kCudaText = R"rules(
# cuBLAS, cuDNN and their like could not make their handle or workspace.
rule cublas
  line STATUS_ALLOC_FAILED -> add=add_library_of_name
    any CUBLAS || CUDNN || CUSOLVER || CUSPARSE || CUFFT
  line _STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED -> add=add_library_of_name
    any CUBLAS || CUDNN || CUSOLVER || CUSPARSE || CUFFT
  line _STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED -> add=add_library_of_name
    any CUBLAS || CUDNN || CUSOLVER || CUSPARSE || CUFFT
  line CUFFT_ALLOC_FAILED -> add=add_library_of_name
    any CUBLAS || CUDNN || CUSOLVER || CUSPARSE || CUFFT
  line the resource allocation failed -> add=add_library_of_name
    any CUBLAS || CUDNN || CUSOLVER || CUSPARSE || CUFFT
  # PyTorch says this of a full GPU as well.
  line CUBLAS_STATUS_NOT_INITIALIZED -> library=CUBLAS; subject=not initialized
  line CUDNN_STATUS_NOT_INITIALIZED -> library=CUDNN; subject=not initialized
  finding cublas-allocation-failed possible when subject=not initialized
    title {library} could not be initialised: most often the GPU is full
    cause The GPU was full when the library was first used. Or an earlier GPU kernel failed, and this call is
          the first to report it: CUDA_LAUNCH_BLOCKING=1 shows which kernel.
    cure leave GPU memory outside PyTorch's pool => torch.cuda.set_per_process_memory_fraction(0.9)
    cure use a smaller workspace (PyTorch) => CUBLAS_WORKSPACE_CONFIG=:16:8
    cure use a smaller batch, or end other processes that use the GPU => nvidia-smi
  finding cublas-allocation-failed
    title {library} could not allocate its handle or workspace
    cause The GPU was full when the library was first used. The library allocates outside the framework's
          memory pool, and that pool held the rest.

# CuPy: "Out of memory allocating 8,000 bytes (allocated so far: 4,000 bytes, limit set to: 9,000 bytes)."
# Paddle: "Cannot allocate 1.5GB memory on GPU 0, 7.2GB memory has been allocated and available memory is …"
# Faiss: "alloc fail type TemporaryMemoryOverflow dev 0 space Device stream 0x1 size 1610612736 bytes"
figures of-cuda
  ut of memory allocating {requested_bytes}
  Cannot allocate {requested_bytes} memory on GPU {gpu:int}, {used_bytes} memory
  available memory is only {free_bytes}
  alloc fail type {:word} dev {gpu:int}… size {requested_bytes}
  ailed to cudaMalloc {requested_bytes}
  " bytes on device {gpu:int}"
  (failed to allocate {requested_bytes}
  allocated so far: {allocated_bytes}
  limit set to: {limit_bytes}
rule cuda
  derive derive_cuda
  anchors ut of memory || OUT_OF_MEMORY || cudaErrorMemoryAllocation || hipErrorOutOfMemory
  # Triton's pools.
  line CNMEM_STATUS_OUT_OF_MEMORY, falling back to {:word} -> subject=pool
    figures with byte size {requested_bytes} || falling back to {fallback}
  line failed to allocate pinned system memory: no pinned memory pool, falling back to {fallback} ->
        subject=no pool
  line /rmm/mr/ -> figures=@of-cuda; check=tells_rmm_memory; add=add_cuda_library
    any std::bad_alloc || Maximum pool size exceeded
  line ) == cudaSuccess' failed && 'cudaMalloc( -> add=add_cuda_library
    none "CUDA error "
  line -> figures=@of-cuda; check=tells_cuda_memory; add=add_cuda_library
    # PyTorch's help behind its error.
    none Search for `
  finding cuda-out-of-memory note certain when subject=pool
    title A pool of GPU memory had no {requested_bytes|memory} left; the server continued with {fallback}
    cause The server's pool on the GPU is full. The server copies the rest from the host's memory.
    cure make the pool larger, in bytes => tritonserver
          --cuda-memory-pool-byte-size=0:{requested_bytes:bytes_above|BYTES}
  finding cuda-out-of-memory note certain when subject=no pool
    title Triton has no pool of pinned memory; it continued with {fallback}
    cause Nothing failed, but copies to a GPU are slower. Either Triton sees no GPU, or the size of the pool
          is set to 0.
    cure check whether the driver sees the GPU => nvidia-smi
    cure set the size of the pool, in bytes => tritonserver --pinned-memory-pool-byte-size=268435456
  finding cuda-out-of-memory certain first_cure_meets_cause when needed_bytes
    title CuPy reached the GPU memory limit that the program set: the program asked for {requested_bytes}
    cause CuPy's pool reached the limit that the program set: it held {allocated_bytes} of {limit_bytes}.
    cure raise or remove (0) CuPy's limit, also in CUPY_GPU_MEMORY_LIMIT =>
          cupy.get_default_memory_pool().set_limit(size={needed_bytes:count})
    cure release idle blocks to the GPU => cupy.get_default_memory_pool().free_all_blocks() :: when
          allocated_bytes
    cure use managed memory, which moves to the host what does not fit (slower) =>
          rmm.reinitialize(managed_memory=True) :: when library=RMM
    cure allocate memory on demand, so that other processes get memory too =>
          FLAGS_allocator_strategy=auto_growth :: when library=Paddle
    cure search for fewer vectors at once: the temporary buffer of Faiss grows with their number =>
          index.search(queries[i:i + 1024], k) :: when library=Faiss
    cure @of-server
    cure @see-holders-now
    cure measure how much memory the program needs, on the host and on the GPU => headroom trace -- COMMAND
    cure @drop-page-cache-on-jetson :: when may_be_jetson, !needed_bytes
  finding cuda-out-of-memory possible when library=NVENC
    title {library|CUDA} ran out of {device}[[: the program asked for {requested_bytes}]]
    cause The GPU's memory was full, or the GPU runs as many encoding sessions as its driver allows. The
          driver reports both with the same error.
  finding cuda-out-of-memory when used_bytes, free_bytes
    cause {used_bytes} of the GPU's memory were in use, by this program and others; {free_bytes} were free.
  finding cuda-out-of-memory possible when allocated_bytes
    cause The program itself held {allocated_bytes}. Other processes held the rest, or the rest was too small.
  finding cuda-out-of-memory possible when requested_bytes
    cause The message does not say which process held the memory.
  finding cuda-out-of-memory possible
    cause The message says neither how much was requested nor which process held the memory.

# cuDNN found no way to run a convolution. Most often the GPU had no memory for a workspace, which the
# message does not say.
rule cudnn-engine
  line Unable to find a valid cuDNN algorithm to run convolution -> told_by=PyTorch; subject=PyTorch;
        check=tells_missing_engine
  line was unable to find an engine to execute this computation -> told_by=PyTorch; subject=PyTorch;
        check=tells_missing_engine
  line Failed to get convolution algorithm. This is probably because cuDNN failed to -> told_by=TensorFlow;
        subject=TensorFlow; check=tells_missing_engine
  finding cudnn-no-engine possible
    title cuDNN could not run a convolution for {told_by}: most often the GPU is full
    cause Most often the GPU has no memory left for a workspace. Other causes: cuDNN's libraries do not match
          each other or the GPU, or the GPU does not support the data type (bfloat16 needs Ampere or later).
    cure allocate memory on demand => TF_FORCE_GPU_ALLOW_GROWTH=true :: when told_by=TensorFlow
    cure @see-holders-now
    cure @smaller-batch :: when told_by=PyTorch
    cure disable the algorithm search, which tries algorithms with large workspaces =>
          torch.backends.cudnn.benchmark = False :: when told_by=PyTorch
    cure if GPU memory is free: check whether this PyTorch supports the GPU, and which cuDNN it has => python3
          -c "import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list(),
          torch.backends.cudnn.version())" :: when told_by=PyTorch
)rules";

}  // namespace

RuleFamily cuda_rules() {
  return {kCudaText,
          {{"tells_rmm_memory", tells_rmm_memory},
           {"add_cuda_library", add_cuda_library},
           {"tells_cuda_memory", tells_cuda_memory},
           {"derive_cuda", derive_cuda},
           {"tells_missing_engine", tells_missing_engine},
           {"add_library_of_name", add_library_of_name}}};
}

}  // namespace headroom::doctor
