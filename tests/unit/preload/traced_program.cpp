#include "unit/preload/traced_program.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <unordered_map>

namespace headroom::test {

std::string program_path(const std::string& name) { return test::built_path("tests/") + name; }
std::string trace_library() { return test::built_path("bin/libheadroom_trace.so"); }
std::string gpu_trace_library() { return test::built_path("bin/libheadroom_trace_gpu.so"); }

std::size_t SeenRecording::count(MemoryEventKind kind) const {
  return static_cast<std::size_t>(
      std::ranges::count(events, kind, [](const SeenEvent& seen) { return seen.event.kind; }));
}

std::size_t SeenRecording::allocations_of(std::uint64_t size) const {
  return static_cast<std::size_t>(std::count_if(events.begin(), events.end(), [size](const SeenEvent& seen) {
    return seen.event.kind == MemoryEventKind::allocate && seen.event.size == size;
  }));
}

std::size_t SeenRecording::released_of(std::uint64_t size) const {
  std::unordered_map<std::uint64_t, std::uint64_t> live;
  std::size_t released = 0;
  for (const SeenEvent& seen : events) {
    if (seen.event.kind == MemoryEventKind::allocate) live[seen.event.address] = seen.event.size;
    if (seen.event.kind != MemoryEventKind::release) continue;
    const auto found = live.find(seen.event.address);
    if (found == live.end()) continue;
    if (found->second == size) ++released;
    live.erase(found);
  }
  return released;
}

std::vector<std::string> SeenRecording::scopes_of(std::uint64_t size) const {
  std::set<std::string> scopes;
  for (const SeenEvent& seen : events)
    if (seen.event.kind == MemoryEventKind::allocate && seen.event.size == size) scopes.insert(seen.scope);
  return {scopes.begin(), scopes.end()};
}

SeenRecording read_recording(const std::filesystem::path& path) {
  SeenRecording seen;
  auto recording = recording::Recording::open(path);
  if (!recording) {
    ADD_FAILURE() << recording.error().sentence();
    return seen;
  }
  recording->for_each_event([&](const MemoryEvent& event) {
    const auto frames = recording->stacks().frames(event.stack);
    seen.events.push_back({event, recording->path_of(event.scope), {frames.begin(), frames.end()}});
  });
  seen.info = recording->info();
  seen.problems = recording->problems();
  return seen;
}

Result<Subprocess> TracedProgram::start(const std::vector<std::string>& command, int stdout_fd) {
  SpawnOptions spawn;
  spawn.command = command;
  spawn.stdout_fd = stdout_fd;
  const std::string library = options_.starts_with("gpu") ? gpu_trace_library() : trace_library();
  const std::string preload = also_.empty() ? library : library + ":" + also_;
  std::map<std::string, std::string> environment = {{"LD_PRELOAD", preload},
                                                    {"NVTX_INJECTION64_PATH", library},
                                                    {"HEADROOM_TRACE_FILE", root_path().string()},
                                                    {"HEADROOM_TRACE_OPTIONS", options_}};
  for (const auto& [name, value] : environment_) environment[name] = value;
  spawn.environment.assign(environment.begin(), environment.end());
  return Subprocess::spawn(spawn);
}

ProgramRun TracedProgram::run(const std::vector<std::string>& command) {
  ProgramRun result;
  auto pipe = Pipe::create();
  if (!pipe) {
    ADD_FAILURE() << pipe.error().sentence();
    return result;
  }
  auto process = start(command, pipe->write_end.get());
  if (!process) {
    ADD_FAILURE() << process.error().sentence();
    return result;
  }
  pipe->write_end = UniqueFd();
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(pipe->read_end.get(), buffer, sizeof buffer)) > 0;)
    result.output.append(buffer, static_cast<std::size_t>(size));
  result.status = process->wait();
  return result;
}

SeenRecording recording_of(const std::vector<std::string>& command, const std::string& options) {
  TracedProgram traced(options);
  std::vector<std::string> whole = command;
  whole[0] = program_path(whole[0]);
  EXPECT_TRUE(traced.run(whole).status.success()) << whole[0];
  return traced.root();
}

std::map<std::string, SeenRecording> TracedProgram::others() const {
  std::map<std::string, SeenRecording> recordings;
  const std::filesystem::path folder = root_path().string() + ".d";
  if (!std::filesystem::exists(folder)) return recordings;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    recordings.emplace(entry.path().filename().string(), read_recording(entry.path()));
  return recordings;
}

}  // namespace headroom::test
