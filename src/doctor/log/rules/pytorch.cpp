// PyTorch's caching allocator ran out of GPU memory, in the wordings of 1.x and 2.x, also without their end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "doctor/log/message_text.h"
#include "doctor/log/rule_text.h"
#include "doctor/log/rules/torch_cause.h"

namespace headroom::doctor {
namespace {

struct NamedProcess {
  std::int64_t pid;
  Bytes held;
};

// "Process 608946 has 14.91 GiB memory in use. Process 734147 has …": all on the same GPU.
std::vector<NamedProcess> processes_in(std::string_view line) {
  std::vector<NamedProcess> processes;
  constexpr std::size_t kMost = 64;
  while (processes.size() < kMost) {
    const auto rest = text_after(line, "Process ");
    if (!rest) break;
    line = *rest;
    const auto pid = integer_after(line, "");
    const auto held = size_with_unit(text_after(line.substr(0, line.find("in use")), " has ").value_or(""));
    if (pid && held) processes.push_back({*pid, *held});
  }
  return processes;
}

// Versions that do not say "this process has" list it among the others: it is the smallest one that holds
// what PyTorch has reserved.
void take_own_process(std::vector<NamedProcess>& processes, LogMessage& message) {
  const auto allocated = message.bytes("allocated_bytes");
  if (message.bytes("process_bytes") || !allocated) return;
  const Bytes reserved = *allocated + message.bytes("unallocated_bytes").value_or(Bytes{});
  auto own = processes.end();
  for (auto at = processes.begin(); at != processes.end(); ++at)
    if (at->held >= reserved && (own == processes.end() || at->held < own->held)) own = at;
  if (own == processes.end()) return;
  message.add("process_bytes", own->held);
  processes.erase(own);
}

void add_processes(std::string_view line, LogMessage& message) {
  std::vector<NamedProcess> processes = processes_in(line);
  take_own_process(processes, message);
  if (processes.empty()) return;
  // In a message that is cut off, one of them may be the program itself: in a container it does not find
  // itself by its number.
  if (!message.bytes("allocated_bytes") && !message.bytes("process_bytes") && !has(line, "Including non-"))
    return;
  double sum = 0;  // hostile figures would overflow an integer
  std::string pids;
  for (const NamedProcess& process : processes) {
    sum += static_cast<double>(process.held.count);
    pids += fmt::format("{}{}", pids.empty() ? "" : " ", process.pid);
  }
  constexpr double kMostBytes = 9e18;
  if (sum < kMostBytes) message.add("other_processes_bytes", Bytes{std::llround(sum)});
  message.add("other_processes", pids);
}

// Two GPUs, and two causes, have findings of their own.
void set_torch_subject(std::string_view, LogMessage& message) {
  const std::string_view cause = torch_cause_of(message);
  message.is_vague = cause == "unknown" || cause == "cut_off";
  const std::int64_t gpu = message.number("gpu").value_or(0);
  if (message.is_vague && gpu == 0) return;
  message.subject = fmt::format("GPU {} ", gpu);
  if (!message.is_vague)
    message.subject += fmt::format("{} {}", cause, message.number("total_bytes").value_or(0));
}

void add_torch_figures(std::string_view line, LogMessage& message) {
  add_processes(line, message);
  const auto allocated = message.bytes("allocated_bytes"), reserved = message.bytes("reserved_bytes");
  message.add("unallocated_bytes", message.bytes("cached_bytes"));  // up to 1.3
  if (allocated && reserved && *reserved >= *allocated && !message.bytes("unallocated_bytes"))
    message.add("unallocated_bytes", *reserved - *allocated);
}

// "dtype=torch.bfloat16", "torch_dtype: float16", "--dtype half". The type of a cache tells nothing of the
// weights.
void add_precision(std::string_view line, LogMessage& message) {
  constexpr std::string_view kTypes[] = {"bfloat16", "float16", "half", "bf16", "fp16", "float8", "fp8"};
  constexpr std::string_view kName = "dtype";
  for (std::size_t at = line.find(kName); at != line.npos; at = line.find(kName, at + 1)) {
    if (line.substr(0, at).ends_with("cache_") || line.substr(0, at).ends_with("cache-")) continue;
    std::string_view value = line.substr(at + kName.size());
    value.remove_prefix(std::min(value.find_first_not_of("\"'=: "), value.size()));
    if (value.starts_with("torch.")) value.remove_prefix(std::string_view("torch.").size());
    for (const std::string_view type : kTypes)
      if (value.starts_with(type)) return message.add("precision", type);
  }
}

}  // namespace

RuleFamily pytorch_rules() {
  return {R"rules(
cures smaller-batches
  cure @smaller-batch :: when batch=half
  cure use a much smaller batch or input: this request is {batch_times} times the available memory =>
        batch_size = 1 :: when batch=one
  cure use a smaller batch or input: {batch_percent} % of this request fits in the free memory, and it may
        grow with the batch => batch_size = max(1, int({batch_part} * batch_size)) :: when batch=free
  cure use a smaller batch or input: this request fits at {batch_percent} % of the current size or less, if it
        grows with the batch => batch_size = max(1, int({batch_part} * batch_size)) :: when batch=part
# In the order in which to try them. No message says how much each saves. Before the weights are in, nothing
# else has been allocated.
cures of-server
  cure use a quantized model (AWQ, GPTQ), or quantize it while it loads => {fewer_bits} :: when phase=load
  cure split the model across several GPUs => {more_gpus} :: when phase=load
  cure [[if phase=load:after the weights fit: ]]give the server a smaller share, because a step needs more
        memory outside it => {share_flag} SHARE, below the current one
  cure [[if phase=load:after the weights fit: ]]shorten the context => {context_flag} {context_length/2} ::
        when context_length>1
  cure [[if phase=load:after the weights fit: ]]shorten the context => {context_flag} N, half of the value in
        its log :: when !context_length>1
  cure [[if phase=load:after the weights fit: ]]serve fewer requests at once => {requests_flag} N, half of the
        current number
  cure use a quantized model (AWQ, GPTQ), or quantize it while it loads => {fewer_bits} :: when phase!=load
  cure split the model across several GPUs => {more_gpus} :: when phase!=load
cures move-others: end or move the other processes on the GPU (process {other_processes}) => nvidia-smi
      --query-compute-apps=pid,used_memory --format=csv :: saves other_processes_bytes
cures of-torch-program
  cure release idle blocks between steps; PyTorch 1.10 and later can also avoid splitting large blocks =>
        torch.cuda.empty_cache() :: saves unallocated_bytes :: when max_split, cached_bytes
  cure release idle blocks between steps => torch.xpu.empty_cache() :: saves unallocated_bytes :: when
        max_split, library=XPU
  cure let PyTorch expand its segments (not on a Jetson) =>
        {setting|PYTORCH_CUDA_ALLOC_CONF}=expandable_segments:True :: saves unallocated_bytes :: when
        max_split, !cached_bytes, !reserved_bytes, !library
  cure keep PyTorch from splitting large blocks (expandable_segments has no effect in most builds for AMD) =>
        {setting|PYTORCH_HIP_ALLOC_CONF}=max_split_size_mb:{max_split} :: saves unallocated_bytes :: when
        max_split, library=HIP
  cure keep PyTorch from splitting large blocks (1.10 and later) =>
        {setting|PYTORCH_CUDA_ALLOC_CONF}=max_split_size_mb:{max_split} :: saves unallocated_bytes :: when
        max_split, reserved_bytes, !library
  cure @move-others :: when cause!=other_processes
  cure @of-server
  cure load the model in half precision (saves at most half of the allocated memory) => model.half() :: saves
        allocated_bytes/2 :: when is_program, allocated_bytes>1, !precision
  cure run without gradients => with torch.inference_mode(): :: when is_program
cures of-torch
  cure @of-torch-program @smaller-batches
  cure see which layer held the memory => headroom trace -- python3 app.py :: when is_program
# "capacty" is how 2.0 and 2.1 spell it; "already allocated" and "cached" are of 1.x.
figures of-pytorch
  ried to allocate {requested_bytes:unit} || ried to allocate more than {requested_bytes:unit}
  GPU {gpu:int} || ; {total_bytes:unit} total capac || total capacity of {total_bytes:unit}
  total capacty of {total_bytes:unit} || ; {free_bytes:unit} free || " of which {free_bytes:unit}"
  this process has {process_bytes:unit}
  ; {allocated_bytes:unit} already allocated || Of the allocated memory {allocated_bytes:unit}
  ; {reserved_bytes:unit} reserved in total || ; {cached_bytes:unit} cached
  by PyTorch, with {private_pools_bytes:unit} allocated in private pools
  private pools…), and {unallocated_bytes:unit} || by PyTorch, and {unallocated_bytes:unit}
  ; {allowed_bytes:unit} allowed; || ({allowed_bytes:unit} allowed; || ". {allowed_bytes:unit} allowed;"
  if !reserved_bytes, !unallocated_bytes, !cached_bytes => may_go_on
# By what stands around a message or where its code lies. A program that only borrows vLLM's layers, as SGLang
# did, has "/vllm/model_executor/" in its tracebacks.
figures of-torch-server
  runtime=SGLang <= /sglang/srt/ || server_args=ServerArgs(
  text_generation_ => runtime=TGI
  runtime=vLLM <= EngineCore || VllmWorker || vLLM API server version || " vllm[" || "Using max model len " ||
        /vllm/v1/ || /vllm/engine/ || /vllm/entrypoints/ || /vllm/worker/ || /vllm/executor/
# As vLLM's own logger begins each line: "ERROR 05-12 10:11:12 [core.py:396] ". Of lines that are no messages
# that says nothing: programs that borrow vLLM's layers log lines like it.
figures of-torch-message
  runtime=vLLM <= [core.py: || multiproc_executor.py: || gpu_worker.py: || gpu_model_runner.py:
rule pytorch: derive=derive_torch call=set_torch_subject
  # The allocator's variable, where it is not the usual one of the library.
  figures HIP out of memory => library=HIP || XPU out of memory => library=XPU || PYTORCH_ALLOC_CONF =>
        setting=PYTORCH_ALLOC_CONF || HIP out of memory…PYTORCH_CUDA_ALLOC_CONF =>
        setting=PYTORCH_CUDA_ALLOC_CONF || @of-torch-server || @of-torch-message
  # CUDA's own allocator (backend:cudaMallocAsync), whose figures stand on lines of their own.
  line would exceed allowed memory
    figures Allocation on device {gpu:int} || Currently allocated…: {allocated_bytes:unit} || Requested …:
          {requested_bytes:unit} || Device limit…: {total_bytes:unit} || Free (according to CUDA)…:
          {free_bytes:unit} || if !free_bytes => may_go_on
  line Allocation on device$ || Allocation on device {gpu:int}$
    figures OutOfMemoryError => part=exception || part=log
  # The exception's name and no more, of programs that print only that: behind a prefix, or alone.
  line ^torch.…OutOfMemoryError || ] torch.…OutOfMemoryError || : torch.…OutOfMemoryError || |
        torch.…OutOfMemoryError -> part=exception
    any OutOfMemoryError$ || OutOfMemoryError:$
  line CUDA out of memory && ried to allocate {:word} -> figures=@of-pytorch; call=add_torch_figures
  or HIP out of memory && ried to allocate {:word}
  or XPU out of memory && ried to allocate {:word}
  # The rest of a message that was broken.
  line GPU && total capac -> figures=@of-pytorch; call=add_torch_figures; any=" of which" || already allocated
  finding pytorch-out-of-memory when cause=wrong_size
    title [[{server} (]]PyTorch[[if server:)]] ran out of [[if gpu>0:GPU {gpu}'s]][[if !gpu>0:GPU]] memory[[:
          it asked for {requested}]][[, {free_bytes} were free]][[ of {total_bytes}]]
    cause {cause_of_wrong_size}
    cure check the shapes before that line: one dimension is negative or far too large => print(tensor.shape)
  finding pytorch-out-of-memory first_cure_meets_cause when whole_video
    cause The failed line moves a whole video to the GPU[[: {frames} frames of {frame_bytes} each make up
          this request]]. A smaller batch, half precision and inference mode don't change that.
    cure keep the frames in host memory: SAM 2 then moves one at a time => predictor.init_state(video_path,
          offload_video_to_cpu=True) :: when runtime=SAM 2
    cure keep the video in host memory, and move a few frames at a time[[: {frames_that_fit} fit in the
          {free_bytes} that are free]] => for part in torch.split(video, {frames_at_once|N}): part.cuda()
    cure or split the video into shorter ones, or read fewer or smaller frames
    cure @move-others :: when other_processes_bytes>1073741824
    cure see which layer held the memory => headroom trace -- python3 app.py
  finding pytorch-out-of-memory certain first_cure_meets_cause when cause=too_large
    cause One allocation is larger than the whole GPU memory: the input or the batch is too large.
    cure @smaller-batches @of-torch-program
    cure see which layer held the memory => headroom trace -- python3 app.py :: when is_program
  finding pytorch-out-of-memory certain first_cure_meets_cause when cause=own_share
    cause The program used up its own share of the GPU ({allowed_bytes}), while {free_bytes} were free.
    cure give the program a larger share: this request needs {share_needed} of the GPU, up to {share_most} are
          free (now {share_now}) => torch.{torch_device}.set_per_process_memory_fraction({share_needed})
    cure give the program a larger share: at most {share_most} of the GPU, which is all that is free (now
      {share_now}) => torch.{torch_device}.set_per_process_memory_fraction({share_most}) :: when !share_needed
    cure give the program a larger share => torch.{torch_device}.set_per_process_memory_fraction(SHARE) ::
          when !share_now
    cure @of-torch
  finding pytorch-out-of-memory first_cure_meets_cause when cause=other_processes, own_bytes
    cause Other processes held {other_processes_bytes} of the GPU, this process {process_bytes}.
    cure @move-others
    cure @of-torch
  finding pytorch-out-of-memory first_cure_meets_cause when cause=other_processes
    cause Other processes held {other_processes_bytes} of the GPU, this process at most {own_at_most_bytes}.
  finding pytorch-out-of-memory first_cure_meets_cause when cause=rest_of_system, unified_memory,
      page_cache_bytes>requested_bytes
    cause CPU and GPU share this machine's memory. This program held {own_bytes} of {total_bytes}, and the
          page cache {page_cache_bytes}. CUDA's "free" is the kernel's MemFree, so the page cache counts as
          used.
    cure @drop-page-cache
    cure @end-holder-of-rest
    cure @of-torch
  finding pytorch-out-of-memory first_cure_meets_cause when cause=rest_of_system
    cause Something outside this program held the memory: it held only {own_bytes} of {total_bytes}. On a
          Jetson, that is the rest of the system, which shares the memory with the GPU.
    cure @end-holder-of-rest :: saves rest_bytes
    cure on a Jetson, drop the page cache before models are loaded => sync; echo 1 | sudo tee
          /proc/sys/vm/drop_caches :: when !library
    cure @of-torch
  finding pytorch-out-of-memory first_cure_meets_cause when cause=fragmentation
    cause Fragmentation: PyTorch held {unallocated_bytes} of unused blocks, but none of them was large enough.
    cure @of-torch
  finding pytorch-out-of-memory when cause=spilled
    cause {own_bytes} are allocated on a GPU of {total_bytes}. The driver had already moved memory to the
          host, and none was left.
  finding pytorch-out-of-memory possible when cause=cut_off, other_processes_bytes
    cause The message is cut off before the figure for this program. This program held at most
          {own_at_most_bytes}, because other processes held {other_processes_bytes}.
  finding pytorch-out-of-memory when cause=own_tensors, allocated_bytes
    cause The program's own tensors filled the memory: {allocated_bytes} were allocated[[,
          {private_pools_bytes} of them in private pools (CUDA graphs)]].[[if phase=load: The program was
          loading the model's weights.]]
    cure @of-torch
  finding pytorch-out-of-memory when cause=own_tensors
    cause The program itself filled the memory: it held {own_bytes} of {total_bytes}.[[if phase=load: The
          program was loading the model's weights.]]
  finding pytorch-out-of-memory possible first_cure_meets_cause when cause=refused
    cause The memory was not full: {free_bytes} were free, far more than requested. The request may have hit a
          limit of the driver[[if !library: or NvMap]], of the control group or of the program
          (set_per_process_memory_fraction), or on a Jetson fragmented free memory. Or another process held
          the memory for a moment.
    cure see which processes allocate memory at that moment => headroom top
    cure read the driver's messages => sudo dmesg | grep -iE 'nvmap|nvgpu|NVRM|amdgpu|xe '
    cure check for limits: of the control group, or a share that the program sets => cat
          /sys/fs/cgroup/memory.max; grep -rn set_per_process_memory_fraction .
    cure on a Jetson, drop the page cache before models are loaded: free memory then has larger blocks =>
          sync; echo 1 | sudo tee /proc/sys/vm/drop_caches :: when !library
  finding pytorch-out-of-memory possible first_cure_meets_cause when cause=not_its_own
    cause The program's own tensors did not fill the memory: it held {held_bytes} of {total_bytes}. Either
          another program held the rest, or a limit of the driver or of the program's share was reached. The
          message does not say which.
    cure see which other processes hold the memory while it happens => headroom top
    cure check whether the program sets its own share => grep -rn set_per_process_memory_fraction .
    cure @smaller-batches
  finding pytorch-out-of-memory possible
    cause The message does not say which process held the memory.[[if phase=load: The program was loading the
          model's weights.]]
    cure @of-torch

# On a Jetson PyTorch asks NVML for the free memory to put it into its message, and NVML has no such figure
# there. With expandable segments it released a block of such a segment as if it were one of its own.
rule tegra-assert
  line "NVML_SUCCESS == " && " INTERNAL ASSERT FAILED"
    figures NVML_SUCCESS == r INTERNAL => assertion=NVML_SUCCESS == r || "Error: {assertion} INTERNAL ASSERT"
  line INTERNAL ASSERT FAILED && !block->expandable_segment_ -> assertion=!block->expandable_segment_;
        subject=segment
  finding pytorch-tegra-out-of-memory first_cure_meets_cause when subject=segment
    title PyTorch ran out of GPU memory, and a check of its expandable segments failed (reported as an
          internal assertion)
    cause When memory ran out, PyTorch tried to release an idle block of an expandable segment. This is a bug
      up to 2.4 when expandable_segments:True is used with max_split_size_mb or garbage_collection_threshold.
    cure disable expandable segments => PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False :: when
          subject=segment
    cure or remove max_split_size_mb and garbage_collection_threshold, and use PyTorch 2.5 or later =>
          PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True :: when subject=segment
    cure release the objects of one call before the next call => del predictor; gc.collect();
          torch.cuda.empty_cache()
    cure drop the page cache before models are loaded: NvMap uses free pages only => sync; echo 1 | sudo tee
          /proc/sys/vm/drop_caches :: when subject!=segment
    cure use a smaller input => imgsz = imgsz // 2 // 32 * 32
    cure see which layer holds the memory => headroom trace -- python3 app.py
  finding pytorch-tegra-out-of-memory
    title PyTorch ran out of GPU memory on a Jetson (reported as an internal assertion)
    cause cudaMalloc failed. PyTorch then asked NVML for the free memory, but NVML on a Jetson does not report
          it, and that check failed. Often, objects of one call were still alive in the next call.

# What programs on PyTorch print before they run out of memory, and by which cures are chosen: that they are
# a server with settings of its own, and that the model is in half precision already.
rule pytorch-context: context_of=pytorch
  # The precision's names.
  anchors float16 || float8 || torch.half || e=half || e half || pe=bf16 || pe=fp16 || pe bf16 || pe fp16 ||
        pe: bf16 || pe: fp16
  # A loader's bar of progress, and the line of a traceback that moves the frames.
  line "frame loading (" && | {:int}/{frames:int} [ -> moved=video
  line load_video_frames( || init_state(…video_path -> moved=video; runtime=SAM 2
  line video.cuda() || video.to( || videos.cuda() || frames.cuda() || frames.to( || rgb'].cuda() || rgb.cuda()
        -> moved=video
  line -> call=add_precision
    # Before 0.8 "Loading model weights took".
    figures LLM engine…max_seq_len={context_length:int} || Using max model len {context_length:int} ||
          model_runner.py:…] Starting to load model => phase=load || model_runner.py:…] Model loading took
          {weights_bytes} => phase=run || model_runner.py:…] Loading model weights took {weights_bytes} =>
          phase=run || @of-torch-server
)rules",
          {{"derive_torch", derive_torch},
           {"set_torch_subject", set_torch_subject},
           {"add_torch_figures", add_torch_figures},
           {"add_precision", add_precision}}};
}

}  // namespace headroom::doctor
