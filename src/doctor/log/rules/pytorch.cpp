// PyTorch's caching allocator ran out of GPU memory, in the wordings of 1.x and 2.x, also without their end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/line_pattern.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"
#include "doctor/log/rules/torch_cause.h"
#include "doctor/log/rules/torch_servers.h"

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
    const auto held = size_with_unit_after(line.substr(0, line.find("in use")), " has ");
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
  // In a message that is cut off, one of the named processes may be the program itself: in a container it
  // does not find itself by its number.
  const bool are_others =
      message.bytes("allocated_bytes") || message.bytes("process_bytes") || has(line, "Including non-");
  double sum = 0;  // hostile figures would overflow an integer
  std::string pids;
  for (const NamedProcess& process : processes) {
    sum += static_cast<double>(process.held.count);
    pids += fmt::format("{}{}", pids.empty() ? "" : " ", process.pid);
  }
  constexpr double kMostBytes = 9e18;
  if (sum < kMostBytes)
    message.add(are_others ? "other_processes_bytes" : "named_processes_bytes", Bytes{std::llround(sum)});
  message.add(are_others ? "other_processes" : "named_processes", pids);
}

// Two GPUs, and two causes, have findings of their own.
void set_torch_subject(LogMessage& message) {
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
  match_pattern("; {allowed_bytes:unit} allowed;", line, message);
  match_pattern("({allowed_bytes:unit} allowed;", line, message);
  match_pattern(". {allowed_bytes:unit} allowed;", line, message);
  match_pattern("max allowed: {allowed_bytes:unit}", line, message);  // on a Mac
  const auto allocated = message.bytes("allocated_bytes"), reserved = message.bytes("reserved_bytes");
  message.add("unallocated_bytes", message.bytes("cached_bytes"));  // up to 1.3
  if (allocated && reserved && *reserved >= *allocated && !message.bytes("unallocated_bytes"))
    message.add("unallocated_bytes", *reserved - *allocated);
  for (const std::string_view library : {"HIP", "XPU", "MPS"})
    if (has(line, fmt::format("{}{} out of memory", library, library == "MPS" ? " backend" : "")))
      message.add("library", library);
  // The allocator's variable, where it is not the usual one of the library.
  const std::string_view usual =
      message.text("library") == "HIP" ? "PYTORCH_HIP_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
  for (const std::string_view named :
       {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"})
    if (has(line, named)) {
      if (named != usual) message.add("setting", named);
      break;
    }
  message.add("runtime", torch_server_of_message(line));
  message.may_go_on = message.text("library") == "MPS" ? !has(line, " pool")
                                                       : !has(line, "reserved") && !has(line, " cached)");
  set_torch_subject(message);
}

// "dtype=torch.bfloat16", "torch_dtype: float16", "--dtype half". The type of a cache tells nothing of the
// weights.
std::string_view half_precision(std::string_view line) {
  constexpr std::string_view kTypes[] = {"bfloat16", "float16", "half", "bf16", "fp16", "float8", "fp8"};
  constexpr std::string_view kName = "dtype";
  for (std::size_t at = line.find(kName); at != line.npos; at = line.find(kName, at + 1)) {
    if (line.substr(0, at).ends_with("cache_") || line.substr(0, at).ends_with("cache-")) continue;
    std::string_view value = line.substr(at + kName.size());
    value.remove_prefix(std::min(value.find_first_not_of("\"'=: "), value.size()));
    if (value.starts_with("torch.")) value.remove_prefix(std::string_view("torch.").size());
    for (const std::string_view type : kTypes)
      if (value.starts_with(type)) return type;
  }
  return {};
}

std::optional<LogMessage> read_torch_context(std::string_view line) {
  LogMessage message;
  message.add("runtime", torch_server_of(line));
  message.add("precision", half_precision(line));
  match_pattern("Using max model len {context_length:int}", line, message);
  match_pattern("LLM engine…max_seq_len={context_length:int}", line, message);
  if (match_pattern("model_runner.py:…] Starting to load model ", line, message))
    message.add("phase", "load");
  // Before 0.8 "Loading model weights took".
  if (match_pattern("model_runner.py:…] Model loading took {weights_bytes}", line, message) ||
      match_pattern("model_runner.py:…] Loading model weights took {weights_bytes}", line, message))
    message.add("phase", "run");
  return message.figures.empty() ? std::nullopt : std::optional(message);
}

// The exception's name and no more, of programs that print only that: behind a prefix, or alone.
bool is_torch_name_alone(std::string_view line) {
  std::string_view text = trim(line);
  while (text.ends_with(':') || text.ends_with(' ')) text.remove_suffix(1);
  constexpr std::string_view kNames[] = {"torch.OutOfMemoryError", "torch.cuda.OutOfMemoryError"};
  return std::any_of(std::begin(kNames), std::end(kNames), [text](std::string_view name) {
    if (!text.ends_with(name)) return false;
    const std::string_view before = text.substr(0, text.size() - name.size());
    return before.empty() || before.ends_with("] ") || before.ends_with(": ") || before.ends_with("| ");
  });
}

// "torch.OutOfMemoryError: Allocation on device 0", without the rest.
bool ends_in_device(std::string_view line) {
  const auto rest = text_after(line, "Allocation on device");
  return rest && trim(*rest).find_first_not_of("0123456789") == rest->npos;
}

void set_bare_part(std::string_view line, LogMessage& message) {
  message.part = has(line, "OutOfMemoryError") ? "exception" : "log";
  set_torch_subject(message);
}

std::vector<CureRow> batch_cures() {
  constexpr std::string_view kPart = "batch_size = max(1, int({batch_part} * batch_size))";
  return {
      {kSmallerBatch.what, kSmallerBatch.command, "", "batch=half"},
      {"use a much smaller batch or input: this request is {batch_times} times the available memory",
       "batch_size = 1", "", "batch=one"},
      {"use a smaller batch or input: {batch_percent} % of this request fits in the free memory, and it may "
       "grow with the batch",
       kPart, "", "batch=free"},
      {"use a smaller batch or input: this request fits at {batch_percent} % of the current size or less, if "
       "it grows with the batch",
       kPart, "", "batch=part"}};
}

std::vector<CureRow> splitting_cures() {
  constexpr std::string_view kMaxSplit = "{variable}=max_split_size_mb:{max_split}",
                             kIdle = "unallocated_bytes";
  return {
      {"release idle blocks between steps; PyTorch 1.10 and later can also avoid splitting large blocks",
       "torch.cuda.empty_cache()", kIdle, "splitting=up to 1.3"},
      {"release idle blocks between steps", "torch.xpu.empty_cache()", kIdle, "splitting=xpu"},
      {"let PyTorch expand its segments (not on a Jetson)", "{variable}=expandable_segments:True", kIdle,
       "splitting=segments"},
      {"keep PyTorch from splitting large blocks (expandable_segments has no effect in most builds for AMD)",
       kMaxSplit, kIdle, "splitting=amd"},
      {"keep PyTorch from splitting large blocks (1.10 and later)", kMaxSplit, kIdle, "splitting=up to 2.0"}};
}

constexpr CureRow kEndOtherProcesses{"end or move the other processes on the GPU (process {other_processes})",
                                     "nvidia-smi --query-compute-apps=pid,used_memory --format=csv",
                                     "other_processes_bytes"};

// What helps whatever the cause: a program of one's own is changed, a server has settings.
std::vector<CureRow> torch_cures(const std::vector<CureRow>& batch) {
  const std::vector<CureRow> program{
      // At most half of what is allocated, and nothing of a model that is in half precision already.
      {"load the model in half precision (saves at most half of the allocated memory)", "model.half()",
       "allocated_bytes/2", "is_program, allocated_bytes>1, !precision"},
      {"run without gradients", "with torch.inference_mode():", "", "is_program"}};
  const CureRow end_others{kEndOtherProcesses.what, kEndOtherProcesses.command, kEndOtherProcesses.saves,
                           "cause!=other_processes"};
  return joined(
      {splitting_cures(),
       {end_others},
       server_cures(),
       program,
       batch,
       {{"see which layer held the memory", "headroom trace -- python3 app.py", "", "is_program"}}});
}

constexpr std::string_view kTorchTitle =
    "[[{server} (]]PyTorch[[{closing}]] ran out of {which|GPU} memory[[: it asked for {requested}]]"
    "[[, {free_bytes} were free]][[ of {total_bytes}]]";

Explanation explained_torch(std::string_view when, Confidence confidence, std::string_view cause,
                            std::vector<CureRow> cures, bool first_cure_meets_cause = false) {
  return {.when = when,
          .id = "pytorch-out-of-memory",
          .confidence = confidence,
          .title = kTorchTitle,
          .cause = cause,
          .cures = std::move(cures),
          .first_cure_meets_cause = first_cure_meets_cause};
}

// The rows that begin with the cure of their cause.
std::vector<Explanation> torch_explanations_by_cause(const std::vector<CureRow>& tail) {
  const auto after = [&tail](const std::vector<CureRow>& first) { return joined<CureRow>({first, tail}); };
  const Confidence certain = Confidence::certain, likely = Confidence::likely;
  return {
      explained_torch(
          "cause=too_large", certain,
          "One allocation is larger than the whole GPU memory: the input or the batch is too large.",
          joined<CureRow>({batch_cures(), torch_cures({})}), true),
      explained_torch(
          "cause=own_share", certain,
          "The program used up its own share of the GPU ({allowed_bytes}), while {free_bytes} were free.",
          after({{"give the program a larger share: this request needs {share_needed} of the GPU, up to "
                  "{share_most} are free (now {share_now})",
                  "torch.{torch_device}.set_per_process_memory_fraction({share_needed})"},
                 {"give the program a larger share: at most {share_most} of the GPU, which is all that is "
                  "free (now {share_now})",
                  "torch.{torch_device}.set_per_process_memory_fraction({share_most})", "", "!share_needed"},
                 {"give the program a larger share",
                  "torch.{torch_device}.set_per_process_memory_fraction(SHARE)", "", "!share_now"}}),
          true),
      explained_torch("cause=other_processes, own_bytes", likely,
                      "Other processes held {other_processes_bytes} of the GPU, this process "
                      "{process_bytes}.",
                      joined<CureRow>({{kEndOtherProcesses}, tail}), true),
      explained_torch("cause=other_processes", likely,
                      "Other processes held {other_processes_bytes} of the GPU, this process at most "
                      "{own_at_most_bytes}.",
                      joined<CureRow>({{kEndOtherProcesses}, tail}), true),
      explained_torch(
          "cause=rest_of_system", likely,
          "Something outside this program held the memory: it held only {own_bytes} of {total_bytes}. On "
          "a Jetson, that is the rest of the system, which shares the memory with the GPU.",
          after({{"find the process that holds the rest, and end it", "headroom top", "rest_bytes"},
                 {"on a Jetson, drop the page cache before models are loaded", kDropPageCache, "",
                  "!library"}}),
          true),
      explained_torch(
          "cause=fragmentation", likely,
          "Fragmentation: PyTorch held {unallocated_bytes} of unused blocks, but none of them was large "
          "enough.",
          tail, true)};
}

// What the message leaves open.
std::vector<Explanation> other_torch_explanations(const std::vector<CureRow>& tail) {
  const Confidence likely = Confidence::likely, possible = Confidence::possible;
  constexpr std::string_view kGrepShare = "grep -rn set_per_process_memory_fraction .";
  return {
      explained_torch(
          "cause=spilled", likely,
          "{own_bytes} are allocated on a GPU of {total_bytes}. The driver had already moved memory to "
          "the host, and none was left.",
          tail),
      explained_torch("cause=cut_off, other_processes_bytes", possible,
                      "The message is cut off before the figure for this program. This program held at most "
                      "{own_at_most_bytes}, because other processes held {other_processes_bytes}.",
                      tail),
      explained_torch(
          "cause=cut_off", possible,
          "The message is cut off. The processes in it held {named_processes_bytes}, and one of them may "
          "be this program.",
          joined<CureRow>({{{"find out which of them is this program, and end or move the others (process "
                             "{named_processes})",
                             kEndOtherProcesses.command}},
                           tail}),
          true),
      explained_torch("cause=own_tensors, allocated_bytes", likely,
                      "The program's own tensors filled the memory: {allocated_bytes} were allocated[[, "
                      "{private_pools_bytes} of them in private pools (CUDA graphs)]].[[{loading}]]",
                      tail),
      explained_torch(
          "cause=own_tensors", likely,
          "The program itself filled the memory: it held {own_bytes} of {total_bytes}.[[{loading}]]", tail),
      explained_torch(
          "cause=refused", possible,
          "The memory was not full: {free_bytes} were free, far more than requested. The request may have "
          "hit a limit of the driver[[{or_nvmap}]], of the control group or of the program "
          "(set_per_process_memory_fraction), or on a Jetson fragmented free memory. Or another process "
          "held the memory for a moment.",
          {{"see which processes allocate memory at that moment", "headroom top"},
           {"read the driver's messages", "sudo dmesg | grep -iE 'nvmap|nvgpu|NVRM|amdgpu|xe '"},
           {"check for limits: of the control group, or a share that the program sets",
            "cat /sys/fs/cgroup/memory.max; grep -rn set_per_process_memory_fraction ."},
           {"on a Jetson, drop the page cache before models are loaded: free memory then has larger "
            "blocks",
            kDropPageCache, "", "!library"}},
          true),
      explained_torch(
          "cause=not_its_own", possible,
          "The program's own tensors did not fill the memory: it held {held_bytes} of {total_bytes}. "
          "[[{intels_piece}]]Either another program held the rest, or a limit of the driver or of the "
          "program's share was reached. The message does not say which.",
          joined<CureRow>({{{"see which other processes hold the memory while it happens", "headroom top"},
                            {kMoreThanIntelsPiece.what, kMoreThanIntelsPiece.command, "", "intels_piece"},
                            {"check whether the program sets its own share", kGrepShare}},
                           batch_cures()}),
          true),
      explained_torch("", possible, "The message does not say which process held the memory.[[{loading}]]",
                      tail)};
}

}  // namespace

LogRule torch_rule() {
  const std::vector<std::string_view> figures{
      "ried to allocate {requested_bytes:unit}",
      "ried to allocate more than {requested_bytes:unit}",
      "GPU {gpu:int}",
      "; {total_bytes:unit} total capac",  // 1.x
      "total capacity of {total_bytes:unit}",
      "total capacty of {total_bytes:unit}",  // as 2.0 and 2.1 spell it
      "; {free_bytes:unit} free",
      " of which {free_bytes:unit}",
      "this process has {process_bytes:unit}",
      "; {allocated_bytes:unit} already allocated",
      "Of the allocated memory {allocated_bytes:unit}",
      "(MPS allocated: {allocated_bytes:unit}",
      "other allocations: {other_allocations_bytes:unit}",
      "; {reserved_bytes:unit} reserved in total",
      "; {cached_bytes:unit} cached",
      "by PyTorch, with {private_pools_bytes:unit} allocated in private pools",
      "private pools…), and {unallocated_bytes:unit}",
      "by PyTorch, and {unallocated_bytes:unit}"};
  std::vector<Wording> wordings{
      // CUDA's own allocator (backend:cudaMallocAsync), whose figures stand on lines of their own.
      {.all = {"would exceed allowed memory"},
       .figures = {"Allocation on device {gpu:int}", "Currently allocated…: {allocated_bytes:unit}",
                   "Requested …: {requested_bytes:unit}", "Device limit…: {total_bytes:unit}",
                   "Free (according to CUDA)…: {free_bytes:unit}"},
       .add =
           [](std::string_view, LogMessage& message) {
             message.may_go_on = !message.bytes("free_bytes");
             set_torch_subject(message);
           }},
      {.all = {"Allocation on device"},
       .figures = {"Allocation on device {gpu:int}"},
       .check = ends_in_device,
       .add = set_bare_part},
      {.all = {"OutOfMemoryError"}, .check = is_torch_name_alone, .add = set_bare_part}};
  for (const std::string_view library :
       {"CUDA out of memory", "HIP out of memory", "XPU out of memory", "MPS backend out of memory"})
    wordings.push_back(
        {.all = {library, "ried to allocate {:word}"}, .figures = figures, .add = add_torch_figures});
  // The rest of a message that was broken.
  for (const std::string_view capacity : {"total capacity", "total capacty"})
    wordings.push_back({.all = {"GPU", capacity},
                        .any = {" of which", "already allocated"},
                        .figures = figures,
                        .add = add_torch_figures});
  const std::vector<CureRow> tail = torch_cures(batch_cures());
  const std::vector<Explanation> explanations{
      explained_torch("cause=wrong_size", Confidence::likely, "{cause_of_wrong_size}",
                      {{"check the shapes before that line: one dimension is negative or far too large",
                        "print(tensor.shape)"}}),
      explained_torch(
          "cause=limit_of_mac", Confidence::certain,
          "PyTorch held {allocated_bytes}[[ and Metal another {other_allocations_bytes}]], of "
          "{allowed_bytes} that "
          "it allows itself on this Mac.",
          joined<CureRow>(
              {batch_cures(),
               {{"release idle blocks between steps", "torch.mps.empty_cache()"},
                {"run without gradients", "with torch.inference_mode():"},
                {"load the model in half precision (saves at most half of the allocated memory)",
                 "model.half()", "allocated_bytes/2", "!precision"},
                {"raise the limit (default: 1.7; the Mac then swaps, and may hang; 0.0 means no limit)",
                 "PYTORCH_MPS_HIGH_WATERMARK_RATIO={mac_ratio}"}}}))};
  return {.name = "pytorch",
          .wordings = std::move(wordings),
          .explanations = joined<Explanation>(
              {explanations, torch_explanations_by_cause(tail), other_torch_explanations(tail)}),
          .derive = derive_torch};
}

// On a Jetson PyTorch asks NVML for the free memory to put it into its message, and NVML has no such figure
// there. With expandable segments it released a block of such a segment as if it were one of its own.
LogRule tegra_assert_rule() {
  constexpr std::string_view kReleaseObjects = "release the objects of one call before the next call",
                             kReleaseCommand = "del predictor; gc.collect(); torch.cuda.empty_cache()";
  constexpr CureRow kSmallerInput{"use a smaller input", "imgsz = imgsz // 2 // 32 * 32"},
      kSeeLayer{"see which layer holds the memory", "headroom trace -- python3 app.py"};
  return {
      .name = "tegra-assert",
      // "NVML_SUCCESS == r", "NVML_SUCCESS == DriverAPI::get()->nvmlInit_v2_()" of 2.1 to 2.4. The file,
      // CUDACachingAllocator.cpp, may stand on the next line.
      .wordings = {{.all = {"NVML_SUCCESS == ", " INTERNAL ASSERT FAILED"},
                    .add =
                        [](std::string_view line, LogMessage& message) {
                          const std::size_t begin = line.find("NVML_SUCCESS == ");
                          message.add("assertion",
                                      line.substr(begin, line.find(" INTERNAL ASSERT", begin) - begin));
                        }},
                   {.all = {"INTERNAL ASSERT FAILED", "!block->expandable_segment_"},
                    .figures = {"assertion=!block->expandable_segment_"},
                    .subject = "segment"}},
      .explanations = {
          {.when = "subject=segment",
           .id = "pytorch-tegra-out-of-memory",
           .title =
               "PyTorch ran out of GPU memory, and a check of its expandable segments failed (reported as an "
               "internal assertion)",
           .cause = "When memory ran out, PyTorch tried to release an idle block of an expandable segment. "
                    "This is "
                    "a bug up to 2.4 when expandable_segments:True is used with max_split_size_mb or "
                    "garbage_collection_threshold.",
           .cures =
               {{"disable expandable segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False"},
                {"or remove max_split_size_mb and garbage_collection_threshold, and use PyTorch 2.5 or later",
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"},
                {kReleaseObjects, kReleaseCommand},
                kSmallerInput,
                kSeeLayer},
           .first_cure_meets_cause = true},
          {.id = "pytorch-tegra-out-of-memory",
           .title = "PyTorch ran out of GPU memory on a Jetson (reported as an internal assertion)",
           .cause = "cudaMalloc failed. PyTorch then asked NVML for the free memory, but NVML on a Jetson "
                    "does not "
                    "report it, and that check failed. Often, objects of one call were still alive in the "
                    "next call.",
           .cures = {
               {kReleaseObjects, kReleaseCommand},
               {"drop the page cache before models are loaded: NvMap uses free pages only", kDropPageCache},
               kSmallerInput,
               kSeeLayer}}}};
}

// What programs on PyTorch print before they run out of memory, and by which cures are chosen: that they are
// a server with settings of its own, and that the model is in half precision already.
LogRule torch_context_rule() {
  LogRule rule{.name = "pytorch-context",
               .anchors = {"float16", "float8", "torch.half", "e=half", "e half", "pe=bf16", "pe=fp16",
                           "pe bf16", "pe fp16", "pe: bf16", "pe: fp16"},
               .read_first = read_torch_context,
               .context_of = "pytorch"};
  const auto& of_servers = torch_server_anchors();
  rule.anchors.insert(rule.anchors.end(), of_servers.begin(), of_servers.end());
  return rule;
}

}  // namespace headroom::doctor
