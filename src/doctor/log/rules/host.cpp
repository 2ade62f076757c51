// Memory of the host that a program could not allocate, in the words of languages and libraries; shared
// memory; and Ray, which ends tasks before the kernel has to.
#include <algorithm>

#include "base/text.h"
#include "doctor/log/common_cures.h"
#include "doctor/log/message_text.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

// "2026-11-23 10:00:00 ERROR worker: "
bool is_logged_as_error(std::string_view before) {
  for (const std::string_view level : {"ERROR", "CRITICAL", "FATAL", "EXCEPTION"}) {
    const auto rest = text_after(before, level);
    if (rest && (rest->empty() || rest->ends_with(": ") || rest->ends_with("- ") || trim(*rest).empty()))
      return true;
  }
  return before.ends_with("xception: ") || before.ends_with("rror: ");
}

// RAPIDS' allocator throws Python's and C++'s errors for the GPU's memory (cuda_rule()).
bool is_of_gpu(std::string_view line) {
  return has(line, "/rmm/") || has(line, "RMM failure") || has(line, "CUDA error") ||
         has(line, "_OUT_OF_MEMORY:");
}

// "MemoryError", or "MemoryError: …", at the begin of a line as Python prints it, or behind a prefix.
bool is_memory_error(std::string_view line) {
  constexpr std::string_view kName = "MemoryError";
  const std::size_t at = line.find(kName);
  const std::string_view before = line.substr(0, at), rest = line.substr(at + kName.size());
  constexpr std::string_view kPrefixes[] = {
      "_exceptions._Array", "builtins.", "] ", "]: ", "pyarrow.lib.Arrow", "| "};
  const bool begins = trim(before).empty() || is_logged_as_error(before) || ends_with_any(before, kPrefixes);
  return begins && !is_of_gpu(line) && (trim(rest).empty() || rest.front() == ':');
}

// "what():  std::bad_alloc", "caught std::bad_alloc"; source code has it as a type: "catch (const
// std::bad_alloc&)".
bool tells_bad_alloc(std::string_view line) {
  constexpr std::string_view kName = "std::bad_alloc";
  const std::size_t at = line.find(kName);
  if (is_of_gpu(line) || trim(line).starts_with("Fix")) return false;
  const std::string_view before = line.substr(0, at), rest = line.substr(at + kName.size());
  if (!rest.empty() && std::string_view("&({;>,:").find(rest.front()) != std::string_view::npos &&
      !rest.starts_with(": "))
    return false;
  if (rest.starts_with(" &") || before.ends_with("const ") || has(before, "catch (")) return false;
  const std::string_view word = trim(before);
  return word.ends_with(':') || word.ends_with('\'') || word.ends_with('=') || word.ends_with('"') ||
         word.ends_with("caught") || has(before, "xception") || has(before, "rror");
}

void set_part_of_bad_alloc(std::string_view line, LogMessage& message) {
  message.part = has(line, "throwing an instance") ? "terminate" : has(line, "what()") ? "what" : "";
}

// What the C library says of ENOMEM. earlyoom says at each start "Could not lock memory - continuing anyway:
// …".
bool tells_enomem(std::string_view line) {
  const std::string_view text = trim(line);
  constexpr std::string_view kWords[] = {"Errno 12", "mmap",      "fork",  "errno=12",
                                         "ailed: ",  "ailed to ", "rror: "};
  return has_any(line, kWords) || text.ends_with(": Cannot allocate memory") ||
         text.ends_with(": cannot allocate memory");
}

// As an error ends, or is followed by where it was; not "… device test for /dev/shm passed".
bool tells_full(std::string_view line) {
  const auto rest = text_after(line, "No space left on device");
  return rest && (trim(*rest).empty() || std::string_view(":;.,'\")]").find(rest->front()) != rest->npos ||
                  rest->starts_with(" ("));
}

// "unable to write to file </torch_31911_952036340_6686>: No space left on device (28)"; older versions say
// only where in the source it was.
bool tells_no_place(std::string_view line) {
  const auto file = text_after(line, "unable to write to file </torch_");
  const std::string_view rest = trim(file->substr(std::min(file->find('>'), file->size())));
  return rest == ">" || rest.starts_with("> at /") || tells_full(rest);
}

bool is_runtime_word(std::string_view line) { return is_word(line, "runtime: out of memory"); }

void add_node_of_ray(std::string_view line, LogMessage& message) {
  for (const std::string_view words : {"IP: ", " with IP "})
    if (const auto rest = text_after(line, words)) {
      std::string_view address = rest->substr(0, rest->find_first_not_of("0123456789abcdef.:"));
      while (address.ends_with('.') || address.ends_with(':')) address.remove_suffix(1);
      message.add_absent(Figure{"node", std::string(address)});
      return;
    }
}

}  // namespace

LogRule host_memory_rule() {
  constexpr std::string_view kId = "host-out-of-memory";
  constexpr std::string_view kTitle =
      "A program could not allocate host memory[[: it asked for {requested}]] (reported by {told_by})";
  LogRule rule{
      .name = "host-memory",
      .wordings = {{.all = {"DefaultCPUAllocator", "you tried to allocate {requested_bytes}"},
                    .figures = {"told_by=PyTorch"}},
                   {.all = {"seems to have been called with negative number: {requested_bytes}"},
                    .figures = {"told_by=PyTorch"}},
                   {.all = {"Unable to allocate {requested_bytes}", "array with shape"},
                    .figures = {"told_by=NumPy"}},
                   {.all = {".ArrowMemoryError: …alloc of size {requested_bytes} failed"},
                    .none = {"failed over"},
                    .figures = {"told_by=Arrow"}},
                   {.all = {".ArrowMemoryError"}, .figures = {"told_by=Arrow"}, .check = is_memory_error},
                   {.all = {"MemoryError"}, .figures = {"told_by=Python"}, .check = is_memory_error},
                   {.all = {"std::bad_alloc"},
                    .figures = {"told_by=C++"},
                    .check = tells_bad_alloc,
                    .add = set_part_of_bad_alloc},
                   // A library has the like in its name: "cuda_runtime: out of memory".
                   {.all = {"runtime: out of memory"},
                    .figures = {"cannot allocate {requested_bytes}", "told_by=Go"},
                    .check = is_runtime_word},
                   {.all = {"out of memory allocating heap arena"}, .figures = {"told_by=Go"}},
                   {.all = {"annot allocate vector of size {requested_bytes}"}, .figures = {"told_by=R"}},
                   {.all = {"malloc failed (tried to allocate {requested_bytes}"},
                    .figures = {"told_by=git"}},
                   {.all = {"x264…alloc of size {requested_bytes} failed"}, .figures = {"told_by=libx264"}},
                   {.all = {"alloc of size {requested_bytes} failed"},
                    .none = {"failed over"},
                    .figures = {"told_by=malloc"}},
                   {.all = {"memory allocation of {requested_bytes} bytes failed"},
                    .none = {"failed over"},
                    .figures = {"told_by=Rust"}},
                   {.all = {": out of memory allocating {requested_bytes}"},
                    .figures = {"told_by=a compiler"}},
                   {.all = {"LLVM ERROR: out of memory"}, .figures = {"told_by=a compiler"}},
                   {.all = {"virtual memory exhausted: "}, .figures = {"told_by=a compiler"}},
                   {.all = {"mkl_malloc: failed to allocate memory"}, .figures = {"told_by=Intel MKL"}},
                   {.all = {"annot allocate memory"},
                    .none = {"alling back", "ontinuing anyway"},
                    .figures = {"told_by=the system"},
                    .check = tells_enomem}},
      .explanations = {{.when = "wrong_size",
                        .id = kId,
                        .title = kTitle,
                        .cause = "{cause_of_wrong_size}",
                        .cures = {{"check the shapes and indices at that line of the program"}}},
                       {.id = kId,
                        .confidence = Confidence::possible,
                        .title = kTitle,
                        .cause = "The kernel refused the request. Possible reasons: a limit of the process "
                                 "(ulimit -v, a control "
                                 "group), strict overcommit, or a request larger than memory and swap.",
                        .cures = {{"compile one file at a time: each compiler process takes one GiB or more",
                                   "MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND", "",
                                   "told_by=a compiler"},
                                  kShellLimits,
                                  {kTraceStacks.what, kTraceStacks.command, "", "told_by!=a compiler"},
                                  {"process the data in smaller pieces, or map the file",
                                   "numpy.load(path, mmap_mode='r')", "requested_bytes", "told_by=NumPy"},
                                  {"process the data in smaller pieces, or map the file",
                                   "numpy.load(path, mmap_mode='r')", "", "told_by=Python"},
                                  {"read in batches, or map the file",
                                   "pyarrow.dataset.dataset(path).to_batches(); pyarrow.memory_map(path)",
                                   "requested_bytes", "told_by=Arrow"}}}}};
  return rule;
}

// Most often /dev/shm is full, through which processes exchange data: containers give it 64 MiB by default.
// PyTorch's DataLoader ends with a bus error then.
LogRule shared_memory_rule() {
  const std::vector<std::string_view> torch{"told_by=PyTorch"}, loader{"told_by=PyTorch's DataLoader"};
  return {
      .name = "shared-memory",
      .wordings = {{.all = {"Unexpected bus error encountered in worker", "insufficient shared memory"},
                    .figures = loader,
                    .part = "bus error"},
                   {.all = {"out of shared memory", "dataloader"}, .figures = loader, .part = "killed"},
                   // Triton's models in Python. The size is that of the whole region.
                   {.all = {"Failed to increase the shared memory pool size… to {:word} bytes"},
                    .figures = {"told_by=Triton's Python backend", "pool size… to {requested_bytes} bytes"},
                    .part = "triton"},
                   {.all = {"Unable to initialize shared memory key '…requested size ({:word}"},
                    .figures = {"told_by=Triton's Python backend", "requested size ({requested_bytes}"},
                    .part = "triton"},
                   {.all = {"/dev/shm", "No space left on device"},
                    .figures = {"told_by=the system"},
                    .part = "file",
                    .check = tells_full},
                   {.all = {"unable to resize file <"}, .figures = torch, .part = "file"},
                   {.all = {"unable to allocate shared memory(shm)"}, .figures = torch, .part = "file"},
                   {.all = {"unable to write to file </torch_"},
                    .figures = torch,
                    .part = "file",
                    .check = tells_no_place},
                   {.all = {"unable to open shared memory object <", "No space left on device"},
                    .figures = torch,
                    .part = "file",
                    .check = tells_full}},
      .explanations = {
          {.id = "shared-memory-full",
           .title = "Shared memory (/dev/shm) was full (reported by {told_by})",
           .cause = "Processes exchange data through /dev/shm, above all the batches of a data loader. Its "
                    "size is half "
                    "of the machine's memory, or 64 MiB in a container. The kernel charges its pages to the "
                    "process "
                    "that wrote them.",
           .cures = {
               {"give the container more shared memory", "docker run --shm-size=1g …"},
               {"or use the host's shared memory", "docker run --ipc=host …"},
               {"load data in the main process, or with fewer workers", "DataLoader(…, num_workers=0)", "",
                "told_by!=Triton's Python backend"},
               {"start each model instance with less (at least 1 MiB), and run fewer instances",
                "tritonserver --backend-config=python,shm-default-byte-size=1048576", "",
                "told_by=Triton's Python backend"},
               {"see how full it is, and which files fill it", "df -h /dev/shm; ls -lS /dev/shm | head"}}}}};
}

// An order of imports that fails on AArch64, and no want of memory.
LogRule static_tls_rule() {
  return {
      .name = "static-tls",
      // "ImportError: /usr/lib/…: cannot allocate …": a path may have spaces in it.
      .wordings = {{.all = {"cannot allocate memory in static TLS block"},
                    .figures = {"rror: {library}: cannot allocate", "^{library}: cannot allocate"}}},
      .explanations =
          {{.id = "static-tls-block",
            .severity = Severity::note,
            .confidence = Confidence::certain,
            .title = "A library was loaded too late for its thread-local storage; memory did not run out",
            .cause = "The loader reserves a small block of thread-local storage for libraries that are "
                     "loaded later. "
                     "Other libraries used it up first.",
            .cures = {{"load the library at the start, or import it first", "LD_PRELOAD={library_word}"}}}},
      .derive = [](LogMessage& message) {
        const std::string library = message.text("library");
        message.add("library_word",
                    library.empty() ? "/usr/lib/aarch64-linux-gnu/libgomp.so.1" : shell_word(library));
      }};
}

// Ray ends tasks and actors where the node's memory is used up to a threshold of its own. Its GB are GiB.
LogRule ray_rule() {
  const std::vector<std::string_view> node{", name={task},",
                                           "(name={task},",
                                           "pid={pid:int}",
                                           "memory used={resident_bytes}",
                                           " was running was {used_bytes} / {total_bytes}",
                                           "memory usage threshold of {threshold:decimal}"};
  return {
      .name = "ray",
      .from_outside = true,
      .repeats_kills = true,
      .wordings =
          {// Ray 2.0 and 2.1.
           {.all = {"System memory low at node", "killing latest task", "Used memory ({:word}"},
            .figures = {" with IP {node:word} Used", " with name {task} and actor ",
                        " with name {task} to avoid ", " with name {task}, ", " with name {task}$",
                        "Used memory ({used_bytes}", "total capacity ({total_bytes}",
                        "exceeds threshold {threshold:decimal}"},
            .part = "node"},
           {.all = {"ray.exceptions.OutOfMemoryError: ", " killed due to the node running low on memory"},
            .figures = node,
            .part = "exception",
            .add = add_node_of_ray},
           {.all = {"Memory on the node (", " where the "},
            .figures = node,
            .part = "node",
            .add =
                [](std::string_view line, LogMessage& message) {
                  add_node_of_ray(line, message);
                  message.may_go_on = message.text("threshold").empty();
                }},
           {.all = {"{workers:int>0} Workers (tasks / actors) killed due to memory pressure (OOM)"},
            .part = "raylet",
            .add = add_node_of_ray}},
      .explanations =
          {{.id = "process-killed-for-memory",
            .confidence = Confidence::certain,
            .title = "Ray killed [[the task {task}]][[{no_task}]]: the node[[ {node}]] ran low on memory",
            .cause = "[[{used_bytes} of {total_bytes} of the node's memory were used]][[{more_used}]]"
                     "[[, above the share of {threshold} that Ray allows]][[{more_than}]].[[ The task held "
                     "{resident_bytes}.]] Ray then kills the most recent task that it can restart, and "
                     "retries it. That "
                     "task is not always the one that grew.",
            .cures = {{"declare the memory of a task, so that Ray runs fewer at once",
                       "@ray.remote(memory={resident_bytes/4*5:count|BYTES})"},
                      {"run fewer tasks at once: reserve one more CPU for each", "@ray.remote(num_cpus=2)"},
                      kSeeHolders,
                      {"raise Ray's threshold, if no other program needs the rest",
                       "RAY_memory_usage_threshold=0.98 ray start --head"}}}},
      .derive = [](LogMessage& message) {
        const auto workers = message.number("workers").value_or(1);
        const bool is_used_told = message.bytes("used_bytes").has_value();
        if (!is_used_told) message.add("more_used", "More of the node's memory was used");
        if (message.text("threshold").empty())
          message.add("more_than", is_used_told ? ", more than Ray allows" : " than Ray allows");
        if (message.text("task").empty())
          message.add("no_task", workers > 1 ? std::to_string(workers) + " workers" : "a task or an actor");
      }};
}

}  // namespace headroom::doctor
