// Reads one file per process (stat: name, parent, CPU time, resident pages) through an open /proc. For the
// chosen processes it reads more files (status, oom_score, smaps_rollup). On a machine with 200 processes,
// reading these for all would cost four times as much.

#include "sources/process_table.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/files.h"
#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {

namespace {

struct Process {
  pid_t pid = 0, parent = 0;
  std::array<char, 64> name{};  // names of kernel threads may exceed 15 characters
  std::int64_t ticks = 0, started = 0, threads = 0, resident_pages = 0;
  bool chosen = false;
  std::string_view name_view() const { return name.data(); }
};

// "123 (a name) S 1 …": the name may contain spaces and parentheses.
bool read_stat(std::string_view text, Process& process) {
  const std::size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return false;
  const std::string_view name = text.substr(open + 1, std::min(close - open - 1, process.name.size() - 1));
  std::copy(name.begin(), name.end(), process.name.begin());
  process.name[name.size()] = '\0';
  std::string_view rest = text.substr(close + 1);
  std::int64_t user = 0;
  for (int field = 3; field <= 24; ++field) {  // field numbers of proc(5)
    const std::string_view word = take_word(rest);
    const auto number = [word] { return parse_number<std::int64_t>(word).value_or(0); };
    if (word.empty()) return false;
    if (field == 4) process.parent = static_cast<pid_t>(number());
    if (field == 14) user = number();
    if (field == 15) process.ticks = user + number();
    if (field == 20) process.threads = number();
    if (field == 22) process.started = number();
    if (field == 24) process.resident_pages = number();
  }
  return true;
}

constexpr std::pair<std::string_view, std::optional<Bytes> ProcessMemory::*> kStatusFigures[] = {
    {"VmRSS", &ProcessMemory::rss},         {"VmHWM", &ProcessMemory::rss_peak},
    {"RssAnon", &ProcessMemory::anonymous}, {"RssFile", &ProcessMemory::file_backed},
    {"RssShmem", &ProcessMemory::shared},   {"VmSwap", &ProcessMemory::swapped},
    {"VmData", &ProcessMemory::data}};

void read_process_status(std::string_view text, ProcessMemory& memory) {
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (line.starts_with("Threads:")) memory.threads = parse_number<std::int64_t>(trim(line.substr(8)));
    for (const auto& [key, figure] : kStatusFigures)
      if (line.starts_with(key)) memory.*figure = kib_line(line, key);
  }
}

std::optional<Process> stat_of(const std::filesystem::path& folder) {
  const auto text = read_small_file(folder / "stat");
  Process process;
  return text && read_stat(*text, process) ? std::optional(process) : std::nullopt;
}

// smaps has a Pss line per mapping, smaps_rollup one line for all. Only smaps_rollup has the parts
// (Pss_File, Pss_Shmem).
void read_shares(const std::filesystem::path& path, ProcessMemory& memory) {
  const auto text = read_small_file(path);
  if (!text) return;
  for (const std::string_view line : split(*text, '\n'))
    if (const auto pss = kib_line(line, "Pss")) memory.pss = memory.pss.value_or(Bytes{}) + *pss;
  memory.pss_file = kib_line(*text, "Pss_File");
  memory.pss_shared = kib_line(*text, "Pss_Shmem");
}

}  // namespace

// User names from /etc/passwd, never from a directory service, which may block.
class UserNames {
 public:
  explicit UserNames(const std::filesystem::path& root) {
    const auto text = read_file(root / "etc/passwd", mebibytes(4));
    if (!text) return;
    for (const std::string_view line : split(*text, '\n')) {  // "name:x:1000:…"
      const auto fields = split(line, ':');
      const auto id = fields.size() > 2 ? parse_number<std::int64_t>(fields[2]) : std::nullopt;
      if (id) names_.emplace(*id, fields[0]);
    }
  }
  // Sets the user's name from the line "Uid:\t1000\t…" of a status file.
  void set_user(std::string_view status, std::string& user) const {
    constexpr std::string_view kKey = "\nUid:";
    const std::size_t at = status.find(kKey);
    if (at == status.npos) return user.clear();
    std::string_view rest = status.substr(at + kKey.size());
    const std::string_view word = take_word(rest);
    const auto id = parse_number<std::int64_t>(word);
    const auto known = id ? names_.find(*id) : names_.end();
    user = known != names_.end() ? std::string_view(known->second) : word;
  }

 private:
  std::unordered_map<std::int64_t, std::string> names_;
};

struct ProcessTable::State {
  explicit State(const std::filesystem::path& root) : users(root) {}

  UserNames users;
  DIR* folder = nullptr;
  bool is_proc = false;                               // not a copy of another machine's files
  std::vector<Process> now, before;                   // sorted by pid
  std::vector<std::size_t> chosen;                    // indices into `now`
  std::vector<std::pair<pid_t, std::int64_t>> roots;  // followed processes and their start times
  std::vector<std::pair<std::int64_t, Bytes>> gpu;
  std::vector<char> buffer = std::vector<char>(8192);
  Nanoseconds time, time_before;
  std::int64_t page = ::sysconf(_SC_PAGESIZE);
  double tick_seconds = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));

  ~State() {
    if (folder != nullptr) ::closedir(folder);
  }

  // Reads a file of one process; empty if it has ended or is not readable.
  std::string_view read_file(pid_t pid, const char* name) {
    std::array<char, 64> path;
    const auto end = fmt::format_to_n(path.data(), path.size() - 1, "{}/{}", pid, name);
    *end.out = '\0';
    const UniqueFd fd(::openat(::dirfd(folder), path.data(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!fd) return {};
    std::size_t size = 0;
    for (;;) {
      const ssize_t got = ::read(fd.get(), buffer.data() + size, buffer.size() - size);
      if (got <= 0) break;
      size += static_cast<std::size_t>(got);
      if (size < buffer.size()) break;  // a file of /proc returns all its content in one read
      if (size >= kLargestFigures) break;
      buffer.resize(2 * buffer.size());
    }
    return {buffer.data(), size};
  }

  // The entries of PID/fd. Since Linux 6.2 their number is the folder's size.
  std::optional<std::int64_t> count_descriptors(pid_t pid) const {
    std::array<char, 64> path;
    const auto end = fmt::format_to_n(path.data(), path.size() - 1, "{}/fd", pid);
    *end.out = '\0';
    UniqueFd fd(::openat(::dirfd(folder), path.data(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return std::nullopt;
    struct stat info {};
    if (is_proc && ::fstat(fd.get(), &info) == 0 && info.st_size > 0) return info.st_size;
    DIR* const list = ::fdopendir(fd.release());
    if (list == nullptr) return std::nullopt;
    std::int64_t count = 0;
    while (const dirent* entry = ::readdir(list)) count += entry->d_name[0] != '.';
    ::closedir(list);
    return count;
  }

  void scan() {
    before.swap(now);
    time_before = time;
    time = monotonic_now();
    now.clear();
    ::rewinddir(folder);
    while (const dirent* entry = ::readdir(folder)) {
      const std::string_view name = entry->d_name;
      const auto pid = parse_number<pid_t>(name);
      if (!pid) continue;
      Process process;
      process.pid = *pid;
      if (read_stat(read_file(*pid, "stat"), process)) now.push_back(process);
    }
    std::ranges::sort(now, {}, &Process::pid);
  }

  static Process* find(std::vector<Process>& list, pid_t pid) {
    const auto at = std::ranges::lower_bound(list, pid, {}, &Process::pid);
    return at != list.end() && at->pid == pid ? &*at : nullptr;
  }
  // The same process in the previous sample; not another one that reuses its pid.
  Process* earlier(const Process& process) {
    Process* same = find(before, process.pid);
    return same != nullptr && same->started == process.started ? same : nullptr;
  }

  // Compares the pid, and once it was seen also the start time: the pid may be reused by another process.
  bool is_root(const Process& process, const ProcessChoice& choice) {
    if (std::ranges::find(choice.roots, process.pid) == choice.roots.end()) return false;
    const auto known =
        std::ranges::find_if(roots, [&](const auto& root) { return root.first == process.pid; });
    if (known != roots.end()) return known->second == process.started;
    roots.emplace_back(process.pid, process.started);
    return true;
  }

  void choose(const ProcessChoice& choice) {
    chosen.clear();
    if (choice.follows()) {
      for (Process& process : now) {
        const Process* same = earlier(process);
        process.chosen =
            (same != nullptr && same->chosen) || is_root(process, choice) ||
            (!choice.name.empty() && process.name_view().find(choice.name) != std::string_view::npos);
      }
      // Children usually have higher pids than their parents. If pids have wrapped around, another pass is
      // needed.
      for (bool changed = true; changed;) {
        changed = false;
        for (Process& process : now) {
          if (process.chosen) continue;
          const Process* parent = find(now, process.parent);
          if (parent != nullptr && parent->chosen) process.chosen = changed = true;
        }
      }
      for (std::size_t i = 0; i < now.size(); ++i)
        if (now[i].chosen && now[i].resident_pages > 0)
          chosen.push_back(i);  // processes without memory are zombies
    } else {
      for (std::size_t i = 0; i < now.size(); ++i)
        if (now[i].resident_pages > 0 || gpu_of(now[i].pid)) chosen.push_back(i);
    }
    const auto larger = [this](std::size_t a, std::size_t b) { return weight(now[a]) > weight(now[b]); };
    if (choice.largest > 0 && chosen.size() > choice.largest) {
      std::nth_element(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(choice.largest),
                       chosen.end(), larger);
      chosen.resize(choice.largest);
    }
    std::ranges::sort(chosen, larger);
  }

  std::int64_t weight(const Process& process) const {
    const auto device = gpu_of(process.pid);
    return std::max(process.resident_pages * page, device ? device->count : 0);
  }

  std::optional<Bytes> gpu_of(std::int64_t pid) const {
    std::optional<Bytes> sum;
    for (const auto& [owner, bytes] : gpu)
      if (owner == pid) sum = sum.value_or(Bytes{}) + bytes;
    return sum;
  }

  // A process may be in several lists of one device, each time with its total.
  void collect_gpu(SystemSample& sample) {
    gpu.clear();
    for (const ProcessSample& process : sample.processes)
      if (process.gpu) gpu.emplace_back(process.pid, *process.gpu);
    for (const GpuSample& device : sample.gpus) {
      if (!device.processes) continue;
      const auto begin = static_cast<std::ptrdiff_t>(gpu.size());
      for (const GpuProcess& process : *device.processes) {
        if (!process.used) continue;
        const auto same = std::find_if(gpu.begin() + begin, gpu.end(),
                                       [&](const auto& known) { return known.first == process.pid; });
        if (same == gpu.end())
          gpu.emplace_back(process.pid, *process.used);
        else
          same->second = std::max(same->second, *process.used);
      }
    }
  }

  ProcessSample detail(const Process& process, bool with_pss) {
    ProcessSample row;
    row.pid = process.pid;
    row.parent = process.parent;
    row.name = process.name_view();
    row.rss = Bytes{process.resident_pages * page};
    row.threads = process.threads;
    row.start_ticks = process.started;
    row.gpu = gpu_of(process.pid);
    if (const Process* same = earlier(process); same != nullptr && time > time_before)
      row.cpu_percent = 100.0 * static_cast<double>(process.ticks - same->ticks) * tick_seconds /
                        (time - time_before).seconds();
    // Only the first lines of this long file are needed: CPU masks follow.
    const std::string_view status = read_file(process.pid, "status");
    users.set_user(status, row.user);
    row.swapped = kib_line(status, "VmSwap");
    // The same figure as in stat, but since Linux 6.17 it lacks updates that are pending on each processor.
    if (const auto resident = kib_line(status, "VmRSS")) row.rss = resident;
    row.oom_score = parse_number<std::int64_t>(trim(read_file(process.pid, "oom_score")));
    row.oom_score_adj = parse_number<std::int64_t>(trim(read_file(process.pid, "oom_score_adj")));
    row.descriptors = count_descriptors(process.pid);
    if (!with_pss) return row;
    const std::string_view walked = read_file(process.pid, "smaps_rollup");
    row.pss = kib_line(walked, "Pss");
    if (const auto resident = kib_line(walked, "Rss")) row.rss = resident;  // exact to the page
    return row;
  }
};

ProcessTable::ProcessTable(const std::filesystem::path& root) : state_(std::make_unique<State>(root)) {
  state_->folder = ::opendir((root / "proc").c_str());
  struct statfs info {};
  state_->is_proc = state_->folder != nullptr && ::fstatfs(::dirfd(state_->folder), &info) == 0 &&
                    info.f_type == PROC_SUPER_MAGIC;
}
ProcessTable::~ProcessTable() = default;
ProcessTable::ProcessTable(ProcessTable&&) noexcept = default;

void ProcessTable::read(SystemSample& sample, const ProcessChoice& choice) {
  if (state_->folder == nullptr) return;
  state_->scan();
  state_->collect_gpu(sample);
  state_->choose(choice);
  sample.processes.clear();
  for (const std::size_t i : state_->chosen)
    sample.processes.push_back(state_->detail(state_->now[i], choice.with_pss));
}

std::size_t ProcessTable::count() const { return state_->now.size(); }

ProcessMemory read_process_memory(pid_t pid, ProcessDetail detail, const std::filesystem::path& root) {
  ProcessMemory memory;
  const std::filesystem::path folder = root / "proc" / std::to_string(pid);
  const auto status = read_small_file(folder / "status");
  if (!status) return memory;
  read_process_status(*status, memory);
  if (const auto stat = stat_of(folder)) {
    static const std::int64_t ticks_per_second = ::sysconf(_SC_CLK_TCK);
    memory.cpu_time = Nanoseconds{stat->ticks * (1'000'000'000 / ticks_per_second)};
  }
  if (detail == ProcessDetail::status) return memory;
  read_shares(folder / "smaps_rollup", memory);
  // Linux before 4.14 (Jetson Nano, TX2) has no rollup, so sum over the mappings.
  if (!memory.pss) read_shares(folder / "smaps", memory);
  return memory;
}

std::optional<std::int64_t> read_process_start(pid_t pid, const std::filesystem::path& root) {
  const auto stat = stat_of(root / "proc" / std::to_string(pid));
  return stat ? std::optional(stat->started) : std::nullopt;
}

bool reset_peak_rss(pid_t pid) {
  UniqueFd fd(::open(fmt::format("/proc/{}/clear_refs", pid).c_str(), O_WRONLY | O_CLOEXEC));
  return fd && write_all(fd.get(), "5").has_value();
}

}  // namespace headroom::sources
