// What Java could not get: of its heap, up to a limit of its own (-Xmx), or of its other memories, of which
// each has a limit and cures of its own. The name of Java's error is the same for all: what stands behind it
// tells which. A larger heap is the cure for a full heap only; threads, direct buffers and classes live
// beside it, and it leaves them less. Other runtimes' limits: script_heap_rule.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "doctor/log/message_text.h"
#include "doctor/log/requested_size.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kJava = "Java", kGradle = "Gradle";
// Of Java, the figure "memory".
constexpr std::string_view kHeap = "heap", kMetaspace = "metaspace", kClassSpace = "class space",
                           kPermGen = "permanent generation", kDirect = "direct buffers",
                           kThreads = "threads", kArray = "array", kNative = "native memory",
                           kMapping = "mapping", kOther = "other";

// Words of OpenJDK's HotSpot, of OpenJ9 and of GraalVM's native images, by what they lack.
constexpr std::pair<std::string_view, std::string_view> kWants[] = {
    {"Java heap space", kHeap},
    {"GC overhead limit exceeded", kHeap},
    {"Garbage-collected heap size exceeded", kHeap},
    {"Metaspace", kMetaspace},
    {"Compressed class space", kClassSpace},
    {"PermGen space", kPermGen},
    {"irect buffer memory", kDirect},
    {"native thread", kThreads},
    {"Failed to create a thread", kThreads},
    {"Requested array size exceeds VM limit", kArray},
    {"Required array", kArray},  // "… length 2147483639 + 8 is too large", "… size too large"
    {"Required length exceeds implementation limit", kArray},
    {"Out of swap space?", kNative},
    {"native memory exhausted", kNative},
    {"Unable to allocate ", kNative},  // "… 16777216 bytes", of Unsafe and so of direct buffers
    {"Map failed", kMapping}};

LogMessage of_java(std::string_view memory) {
  LogMessage message;
  message.subject = fmt::format("{} {}", kJava, memory);
  message.add("runtime", kJava);
  message.add("memory", memory);
  return message;
}

// "Cannot reserve 16777216 bytes of direct buffer memory (allocated: 67108864, limit: 67108864)", "requested
// 32756 bytes for ChunkPool::allocate. Out of swap space?", "Unable to allocate 16777216 bytes".
void add_sizes(LogMessage& message, std::string_view why) {
  for (const std::string_view words : {"Cannot reserve ", "requested ", "Unable to allocate "})
    if (const auto size = text_after(why, words)) {
      add_requested(message, size);
      break;
    }
  message.add("allocated_bytes", size_after(why, "(allocated: "));
  message.add("limit_bytes", size_after(why, ", limit: "));
}

std::optional<LogMessage> read_error(std::string_view line) {
  const auto rest = text_after(line, "java.lang.OutOfMemoryError");
  // Not a setting that names it, nor source code, nor one who quotes it.
  if (!rest || has(line, "-XX:") || has(line, "catch (")) return std::nullopt;
  if (!rest->empty() && std::string_view(": \r").find(rest->front()) == std::string_view::npos)
    return std::nullopt;
  if (!rest->starts_with(':') || trim(rest->substr(1)).empty()) {
    LogMessage message;  // "… thrown from the UncaughtExceptionHandler in thread "main""
    message.subject = kJava;
    message.is_vague = true;
    message.add("runtime", kJava);
    return message;
  }
  const auto* const want = std::find_if(std::begin(kWants), std::end(kWants),
                                        [&](const auto& each) { return has(*rest, each.first); });
  LogMessage message = of_java(want == std::end(kWants) ? kOther : want->second);
  if (message.text("memory") == kThreads) message.part = "error";  // the machine's own words stand before it
  add_sizes(message, *rest);
  return message;
}

// Netty's own account of direct buffers: "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate
// 16777216 byte(s) of direct memory (used: 2130706432, max: 2134900736)".
std::optional<LogMessage> read_netty(std::string_view line) {
  const auto why = text_after(line, "OutOfDirectMemoryError: failed to allocate ");
  if (!why) return std::nullopt;
  LogMessage message = of_java(kDirect);
  add_requested(message, why);
  message.add("allocated_bytes", size_after(*why, "(used: "));
  message.add("limit_bytes", size_after(*why, ", max: "));
  message.add("library", "Netty");
  return message;
}

// The virtual machine itself, at its start or before it gives up, in two lines: "OpenJDK 64-Bit Server VM
// warning: INFO: os::commit_memory(0x00000000c0000000, 1073741824, 0) failed; error='Cannot allocate memory'
// (errno=12)", "# Native memory allocation (mmap) failed to map 1073741824 bytes for committing reserved
// memory."; or "Could not reserve enough space for 2560000KB object heap".
std::optional<LogMessage> read_machine(std::string_view line) {
  LogMessage message = of_java(kNative);
  if (const auto arguments = text_after(line, "os::commit_memory("); arguments && has(line, ") failed; ")) {
    add_requested(message, text_after(*arguments, ", "));
    message.part = "commit";
    return message;
  }
  if (const auto why = text_after(line, "Native memory allocation (")) {
    for (const std::string_view words : {") failed to map ", ") failed to allocate "})
      if (add_requested(message, text_after(*why, words))) {
        message.part = "allocation";
        return message;
      }
    return std::nullopt;
  }
  if (!has(line, " object heap") || !add_requested(message, text_after(line, "reserve enough space for ")))
    return std::nullopt;
  return message;
}

// Without the error's name, which another's may stand in place of: "Caused by: …BuildException: unable to
// create native thread: possibly out of memory or process/resource limits reached". And the virtual
// machine's own words, in two lines: "Failed to start thread "Unknown thread" - pthread_create failed
// (EAGAIN) for attributes: …", "Failed to start the native thread for java.lang.Thread "Thread-86"".
std::optional<LogMessage> read_thread(std::string_view line) {
  LogMessage message = of_java(kThreads);
  if (has(line, "unable to create native thread: possibly out of memory"))
    message.part = "error";
  else if (has(line, "Failed to start thread \"") && has(line, " - pthread_create failed ("))
    message.part = "pthread";
  else if (has(line, "Failed to start the native thread for java.lang.Thread"))
    message.part = "thread";
  else
    return std::nullopt;
  return message;
}

// Gradle's, of the process that builds: "The Daemon will expire after the build after running out of JVM
// Metaspace.", "Expiring Daemon because JVM heap space is exhausted"; and behind the first "The currently
// configured max heap space is '4 GiB' and the configured max metaspace is '1 GiB'."
std::optional<LogMessage> read_gradle(std::string_view line) {
  LogMessage message;
  message.subject = kGradle;
  if (const auto heap = text_after(line, "The currently configured max heap space is '")) {
    message.is_addition = true;
    message.part = "limits";
    message.add("heap_limit_bytes", leading_size(*heap));
    message.add("metaspace_limit_bytes", size_after(*heap, "max metaspace is '"));
    return message;
  }
  const bool will_expire = has(line, "Daemon will expire") && has(line, "running out of JVM ");
  const bool expires = has(line, "Expiring Daemon because JVM ") && has(line, "exhausted");
  if (!will_expire && !expires) return std::nullopt;
  message.part = will_expire ? "will expire" : "expires";
  message.add("runtime", kGradle);
  message.add("memory", has(line, "JVM Metaspace") ? kMetaspace : kHeap);
  return message;
}

std::optional<LogMessage> read(std::string_view line) {
  for (const auto& read_form : {read_error, read_netty, read_machine, read_thread, read_gradle})
    if (auto message = read_form(line)) return message;
  return std::nullopt;
}

constexpr const char* kSmallerHeap = "java -XX:MaxRAMPercentage=25";

Finding explain_heap(const LogMessage&, Finding finding) {
  finding.title = "Java reached its heap limit";
  finding.cause = "This is the runtime's own limit, not the machine's. The program needs more, or it leaks.";
  finding.cures = {
      {"raise the limit to half of the machine's memory, if that is free (if -Xmx is set, raise -Xmx)",
       "java -XX:MaxRAMPercentage=50",
       {}},
      {"check whether its memory keeps growing", "headroom watch -- COMMAND", {}},
      {"see which objects fill it", "jcmd PID GC.class_histogram", {}}};
  return finding;
}

// Its daemon ends behind the build and begins anew, so the build itself may have come through.
Finding explain_gradle(const LogMessage& message, Finding finding) {
  const bool is_heap = message.text("memory") == kHeap;
  const auto limit = message.bytes(is_heap ? "heap_limit_bytes" : "metaspace_limit_bytes");
  finding.severity = Severity::warning;
  finding.title =
      fmt::format("Gradle's daemon reached the limit of its {}{}", is_heap ? "heap" : "class memory",
                  limit ? fmt::format(", {}", format_bytes(*limit)) : "");
  finding.cause =
      "This is a limit of Gradle's settings, not the machine's. The build needs more, or a plug-in keeps "
      "data of each build. Gradle restarts the daemon, which makes the next build slow.";
  const std::string larger = limit && !is_impossible(*limit)
                                 ? fmt::format("{}m", (limit->count + limit->count / 2) / mebibytes(1).count)
                                 : "SIZE";
  finding.cures = {
      {"raise the limit by half (gradle.properties)",
       fmt::format("org.gradle.jvmargs={}{}", is_heap ? "-Xmx" : "-XX:MaxMetaspaceSize=", larger),
       {}},
      {"list the daemons, and end the idle ones", "./gradlew --status; ./gradlew --stop", {}}};
  return finding;
}

// "java.lang.OutOfMemoryError" and no more, or words that are not known.
Finding explain_other(const LogMessage& message, Finding finding) {
  finding = explain_heap(message, std::move(finding));
  finding.title = "Java ran out of memory; its message does not say which kind";
  finding.cause =
      "Most often the heap reached the runtime's own limit. Java also throws this error for an array that is "
      "too long, for threads and from libraries.";
  finding.confidence = Confidence::possible;
  return finding;
}

Finding explain_classes(const LogMessage& message, Finding finding) {
  const std::string memory = message.text("memory");
  finding.title = fmt::format("Java reached the limit of its {} (the memory for classes)", memory);
  finding.cause =
      "The descriptions of loaded classes filled this memory. The limit is too small, or the program keeps "
      "creating classes (redeployments, generated proxies, scripts). A larger heap does not help: classes "
      "are not in the heap.";
  Cure raise{"raise the limit that the program sets (there is none by default)",
             "java -XX:MaxMetaspaceSize=SIZE",
             {}};
  if (memory == kClassSpace)
    raise = {"raise the limit (default: 1 GiB; if -XX:MaxMetaspaceSize is set, raise both)",
             "java -XX:CompressedClassSpaceSize=2g",
             {}};
  if (memory == kPermGen) raise = {"raise the limit", "java -XX:MaxPermSize=512m", {}};
  finding.cures = {std::move(raise),
                   {"see which class loaders hold the most memory, and whether their number grows",
                    memory == kPermGen ? "jmap -clstats PID" : "jcmd PID VM.classloader_stats",
                    {}},
                   {"check whether its memory keeps growing", "headroom watch -- COMMAND", {}}};
  return finding;
}

// A quarter more, and as much as was asked for at least; in MiB, up.
std::string larger_direct_limit(const LogMessage& message) {
  const auto limit = message.bytes("limit_bytes"), requested = message.bytes("requested_bytes");
  if (!limit || is_impossible(*limit) || has_wrong_size(message)) return "SIZE";
  const Bytes needed = message.bytes("allocated_bytes").value_or(*limit) + requested.value_or(Bytes{});
  const Bytes larger = std::max(*limit + Bytes{limit->count / 4}, std::min(needed, Bytes{2 * limit->count}));
  return fmt::format("{}m", (larger.count + mebibytes(1).count - 1) / mebibytes(1).count);
}

Finding explain_direct(const LogMessage& message, Finding finding) {
  const auto limit = message.bytes("limit_bytes"), held = message.bytes("allocated_bytes");
  finding.title = fmt::format("Java reached the limit of its direct buffers{}",
                              limit ? fmt::format(", {}", format_bytes(*limit)) : "");
  finding.cause = fmt::format(
      "Buffers outside the heap{} reached their limit (-XX:MaxDirectMemorySize; default: the size of the "
      "heap). The limit is too small, or the program keeps buffers. Java frees a buffer only after the "
      "garbage collector finds it dead.",
      held ? fmt::format(" held {}. They", format_bytes(*held)) : "");
  if (limit) finding.confidence = Confidence::certain;
  const bool is_netty = message.text("library") == "Netty";
  finding.cures = {{"raise the limit, if that much is free in addition to the heap",
                    fmt::format("java -XX:MaxDirectMemorySize={}", larger_direct_limit(message)),
                    {}},
                   {"check whether the program keeps buffers",
                    is_netty ? "java -Dio.netty.leakDetection.level=paranoid"
                             : "jcmd PID GC.class_histogram | grep DirectByteBuffer",
                    {}},
                   {"cache smaller buffers in each thread", "java -Djdk.nio.maxCachedBufferSize=262144", {}}};
  return finding;
}

Finding explain_threads(const LogMessage&, Finding finding) {
  finding.id = "native-thread-refused";
  finding.title = "Java could not create another thread";
  finding.cause =
      "The system refused to create a thread. Either a limit of tasks was reached (ulimit -u, the control "
      "group's pids.max), or no native memory was left for the thread's stack. The heap was not full; a "
      "larger heap leaves less memory for stacks.";
  finding.confidence = Confidence::possible;
  finding.cures = {
      {"compare the limits of tasks with the number of threads",
       "ulimit -u; cat /proc/sys/kernel/threads-max; cat /sys/fs/cgroup/pids.max; ps -eLf | wc -l",
       {}},
      {"see what its threads do: an unbounded pool keeps creating them", "jcmd PID Thread.print", {}},
      {"raise the limit of tasks, if it was reached",
       "sudo systemctl set-property UNIT TasksMax=NUMBER  # docker update --pids-limit NUMBER",
       {}},
      {"give each thread a smaller stack (default: 1 MiB)", "java -Xss512k", {}},
      {"use a smaller heap, which leaves more memory for stacks", kSmallerHeap, {}}};
  return finding;
}

Finding explain_array(const LogMessage&, Finding finding) {
  finding.title = "The program requested an array longer than Java's maximum";
  finding.cause =
      "A Java array has fewer than 2^31 elements, even in a large heap. The program computed a wrong length, "
      "or the data is too large for one array. More memory would not help.";
  finding.confidence = Confidence::certain;
  finding.cures = {
      {"check how the program computes the length, and which data it reads or writes as a whole", "", {}},
      {"store the data in several arrays, in a stream or in a mapped file", "", {}}};
  return finding;
}

Finding explain_native(const LogMessage& message, Finding finding) {
  const std::string words = words_for_requested(message, "");
  finding.id = "host-out-of-memory";
  finding.title =
      fmt::format("Java could not allocate native memory{}", words.empty() ? "" : ": it asked for " + words);
  if (has_wrong_size(message)) {
    finding.cause = cause_of_wrong_size(message);
    return finding;
  }
  finding.cause =
      "The system refused the allocation: the machine's memory and swap were full, or a limit of the control "
      "group or process (ulimit -v) was reached. A larger heap leaves less memory for everything else.";
  finding.cures = {{"check the shell's limits", "ulimit -a; cat /proc/sys/vm/overcommit_memory", {}},
                   {"see which processes hold the memory", "headroom top", {}},
                   {"use a smaller heap", kSmallerHeap, {}},
                   {"see what Java holds outside the heap (with -XX:NativeMemoryTracking=summary)",
                    "jcmd PID VM.native_memory summary",
                    {}}};
  return finding;
}

Finding explain_mapping(const LogMessage&, Finding finding) {
  finding.id = "host-out-of-memory";
  finding.title = "Java could not map a file";
  finding.cause =
      "The process reached its limit of mappings (vm.max_map_count) or of address space (ulimit -v). A "
      "mapped file needs address space at once, and memory only when it is read.";
  finding.cures = {{"see the limit of mappings for a process", "sysctl vm.max_map_count", {}},
                   {"count the mappings of the process", "wc -l /proc/PID/maps", {}},
                   {"raise the limit of mappings", "sudo sysctl vm.max_map_count=262144", {}},
                   {"remove the limit of the address space", "ulimit -v unlimited", {}}};
  return finding;
}

Finding explain(const LogMessage& message) {
  Finding finding;
  finding.id = "heap-limit-reached";
  finding.severity = Severity::severe;
  finding.confidence = Confidence::likely;
  const std::string memory = message.text("memory");
  if (message.text("runtime") == kGradle) return explain_gradle(message, std::move(finding));
  if (memory == kMetaspace || memory == kClassSpace || memory == kPermGen)
    return explain_classes(message, std::move(finding));
  constexpr std::pair<std::string_view, Finding (*)(const LogMessage&, Finding)> kOthers[] = {
      {kDirect, explain_direct}, {kThreads, explain_threads}, {kArray, explain_array},
      {kNative, explain_native}, {kMapping, explain_mapping}, {kOther, explain_other}};
  for (const auto& [name, explain_it] : kOthers)
    if (memory == name) return explain_it(message, std::move(finding));
  return memory == kHeap ? explain_heap(message, std::move(finding))
                         : explain_other(message, std::move(finding));
}

}  // namespace

LogRule heap_limit_rule() {
  return {"heap-limit",
          {"OutOfMemoryError", "OutOfDirectMemoryError", "os::commit_memory(", "Native memory allocation (",
           "reserve enough space for ", "native thread: possibly", "pthread_create failed (",
           "native thread for ", " of JVM ", "Expiring Daemon because JVM", "max heap space is"},
          read,
          explain};
}

}  // namespace headroom::doctor
