// Memory of the host that a program could not allocate, in the words of languages and libraries; shared
// memory; and Ray, which ends tasks before the kernel has to.
#include <algorithm>

#include "base/text.h"
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

void add_node_and_threshold_of_ray(std::string_view line, LogMessage& message) {
  add_node_of_ray(line, message);
  message.may_go_on = message.text("threshold").empty();
}

constexpr std::string_view kHostText = R"rules(
rule host-memory
  line DefaultCPUAllocator && you tried to allocate {requested_bytes} -> told_by=PyTorch
  line seems to have been called with negative number: {requested_bytes} -> told_by=PyTorch
  line Unable to allocate {requested_bytes} && array with shape -> told_by=NumPy
  line .ArrowMemoryError: …alloc of size {requested_bytes} failed -> told_by=Arrow
    none failed over
  line .ArrowMemoryError -> told_by=Arrow; check=is_memory_error
  line MemoryError -> told_by=Python; check=is_memory_error
  line std::bad_alloc -> told_by=C++; check=tells_bad_alloc; add=set_part_of_bad_alloc
  line runtime: out of memory -> check=is_runtime_word
    figures cannot allocate {requested_bytes} || told_by=Go
  line out of memory allocating heap arena -> told_by=Go
  line annot allocate vector of size {requested_bytes} -> told_by=R
  line malloc failed (tried to allocate {requested_bytes} -> told_by=git
  line x264…alloc of size {requested_bytes} failed -> told_by=libx264
  line alloc of size {requested_bytes} failed -> told_by=malloc
    none failed over
  line memory allocation of {requested_bytes} bytes failed -> told_by=Rust
    none failed over
  line : out of memory allocating {requested_bytes} -> told_by=a compiler
  line LLVM ERROR: out of memory -> told_by=a compiler
  line "virtual memory exhausted: " -> told_by=a compiler
  line mkl_malloc: failed to allocate memory -> told_by=Intel MKL
  line annot allocate memory -> told_by=the system; check=tells_enomem
    none alling back || ontinuing anyway
  finding host-out-of-memory when wrong_size
    title A program could not allocate host memory[[: it asked for {requested}]] (reported by {told_by})
    cause {cause_of_wrong_size}
    cure check the shapes and indices at that line of the program
  finding host-out-of-memory possible
    cause The kernel refused the request. Possible reasons: a limit of the process (ulimit -v, a control
          group), strict overcommit, or a request larger than memory and swap.
    cure compile one file at a time: each compiler process takes one GiB or more => MAX_JOBS=1
          CMAKE_BUILD_PARALLEL_LEVEL=1 MAKEFLAGS=-j1 COMMAND :: when told_by=a compiler
    cure @shell-limits
    cure @trace-stacks :: when told_by!=a compiler
    cure process the data in smaller pieces, or map the file => numpy.load(path, mmap_mode='r') :: saves
          requested_bytes :: when told_by=NumPy
    cure process the data in smaller pieces, or map the file => numpy.load(path, mmap_mode='r') :: when
          told_by=Python
    cure read in batches, or map the file => pyarrow.dataset.dataset(path).to_batches();
          pyarrow.memory_map(path) :: saves requested_bytes :: when told_by=Arrow

# Most often /dev/shm is full, through which processes exchange data: containers give it 64 MiB by default.
# PyTorch's DataLoader ends with a bus error then.
rule shared-memory
  line Unexpected bus error encountered in worker && insufficient shared memory -> told_by=PyTorch's
        DataLoader; part=bus error
  line out of shared memory && dataloader -> told_by=PyTorch's DataLoader; part=killed
  line Failed to increase the shared memory pool size… to {:word} bytes -> told_by=Triton's Python backend;
        part=triton
    figures pool size… to {requested_bytes} bytes
  line Unable to initialize shared memory key '…requested size ({:word} -> told_by=Triton's Python backend;
        part=triton
    figures requested size ({requested_bytes}
  line /dev/shm && No space left on device -> told_by=the system; part=file; check=tells_full
  line unable to resize file < -> told_by=PyTorch; part=file
  line unable to allocate shared memory(shm) -> told_by=PyTorch; part=file
  line unable to write to file </torch_ -> told_by=PyTorch; part=file; check=tells_no_place
  line unable to open shared memory object < && No space left on device -> told_by=PyTorch; part=file;
        check=tells_full
  finding shared-memory-full
    title Shared memory (/dev/shm) was full (reported by {told_by})
    cause Processes exchange data through /dev/shm, above all the batches of a data loader. Its size is half
          of the machine's memory, or 64 MiB in a container. The kernel charges its pages to the process that
          wrote them.
    cure give the container more shared memory => docker run --shm-size=1g …
    cure or use the host's shared memory => docker run --ipc=host …
    cure load data in the main process, or with fewer workers => DataLoader(…, num_workers=0) :: when
          told_by!=Triton's Python backend
    cure start each model instance with less (at least 1 MiB), and run fewer instances => tritonserver
          --backend-config=python,shm-default-byte-size=1048576 :: when told_by=Triton's Python backend
    cure see how full it is, and which files fill it => df -h /dev/shm; ls -lS /dev/shm | head

# An order of imports that fails on AArch64, and no want of memory.
rule static-tls
  line cannot allocate memory in static TLS block
    figures rror: {library}: cannot allocate || ^{library}: cannot allocate
  finding static-tls-block note certain
    title A library was loaded too late for its thread-local storage; memory did not run out
    cause The loader reserves a small block of thread-local storage for libraries that are loaded later. Other
          libraries used it up first.
    cure load the library at the start, or import it first =>
          LD_PRELOAD={library:shell|/usr/lib/aarch64-linux-gnu/libgomp.so.1}

figures of-ray
  , name={task},
  (name={task},
  pid={pid:int}
  memory used={resident_bytes}
  " was running was {used_bytes} / {total_bytes}"
  memory usage threshold of {threshold:decimal}
# Ray ends tasks and actors where the node's memory is used up to a threshold of its own. Its GB are GiB.
rule ray
  flags from_outside repeats_kills
  line System memory low at node && killing latest task && Used memory ({:word} -> part=node
    figures " with IP {node:word} Used" || " with name {task} and actor " || " with name {task} to avoid " ||
          " with name {task}, " || " with name {task}$" || Used memory ({used_bytes} || total capacity
          ({total_bytes} || exceeds threshold {threshold:decimal}
  line "ray.exceptions.OutOfMemoryError: " && " killed due to the node running low on memory" ->
        figures=@of-ray; part=exception; add=add_node_of_ray
  line Memory on the node ( && " where the " -> figures=@of-ray; part=node; add=add_node_and_threshold_of_ray
  line {workers:int>0} Workers (tasks / actors) killed due to memory pressure (OOM) -> part=raylet;
        add=add_node_of_ray
  finding process-killed-for-memory certain
    title Ray killed [[the task {task}]][[if !task, workers>1:{workers} workers]][[if !task, !workers>1:a task
          or an actor]]: the node[[ {node}]] ran low on memory
    cause [[{used_bytes} of {total_bytes} of the node's memory were used]][[if !used_bytes:More of the node's
          memory was used]][[, above the share of {threshold} that Ray allows]][[if !threshold, used_bytes:,
          more than Ray allows]][[if !threshold, !used_bytes: than Ray allows]].[[ The task held
          {resident_bytes}.]] Ray then kills the most recent task that it can restart, and retries it. That
          task is not always the one that grew.
    cure declare the memory of a task, so that Ray runs fewer at once =>
          @ray.remote(memory={resident_bytes/4*5:count|BYTES})
    cure run fewer tasks at once: reserve one more CPU for each => @ray.remote(num_cpus=2)
    cure @see-holders
    cure raise Ray's threshold, if no other program needs the rest => RAY_memory_usage_threshold=0.98 ray
          start --head
)rules";

}  // namespace

RuleFamily host_rules() {
  return {kHostText,
          {{"is_memory_error", is_memory_error},
           {"tells_bad_alloc", tells_bad_alloc},
           {"set_part_of_bad_alloc", set_part_of_bad_alloc},
           {"tells_enomem", tells_enomem},
           {"tells_full", tells_full},
           {"tells_no_place", tells_no_place},
           {"is_runtime_word", is_runtime_word},
           {"add_node_of_ray", add_node_of_ray},
           {"add_node_and_threshold_of_ray", add_node_and_threshold_of_ray}}};
}

}  // namespace headroom::doctor
