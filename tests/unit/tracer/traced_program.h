// Runs a guest program under the preload library and opens what it recorded.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/subprocess.h"
#include "recording/recording.h"
#include "support/test_support.h"

namespace headroom::test {

// "<build>/tests/NAME".
std::string program_path(const std::string& name);
std::string trace_library();
std::string gpu_trace_library();

// An event with what its ids stand for.
struct SeenEvent {
  MemoryEvent event;
  std::string scope;
  std::vector<std::uint64_t> frames;
};

// A recording, read to its end.
struct SeenRecording {
  recording::RecordingInfo info;
  std::vector<SeenEvent> events;
  std::vector<std::string> problems;

  std::size_t count(MemoryEventKind kind) const;
  // Allocations of just this size, and those of them whose address was released later.
  std::size_t allocations_of(std::uint64_t size) const;
  std::size_t released_of(std::uint64_t size) const;
  // Scopes of the allocations of this size, without repetitions.
  std::vector<std::string> scopes_of(std::uint64_t size) const;
};
SeenRecording read_recording(const std::filesystem::path& path);

struct ProgramRun {
  ExitStatus status;
  std::string output;  // what it printed
};

class TracedProgram {
 public:
  // `options` that begin with the word "gpu" are for the library that records GPU memory alone.
  explicit TracedProgram(std::string options = "full=1") : options_(std::move(options)) {}
  // An allocator or other library that the program is to have besides, after the tracer.
  void preload_also(const std::string& library) { also_ = library; }
  void set_environment(const std::string& name, const std::string& value) { environment_[name] = value; }

  ProgramRun run(const std::vector<std::string>& command);
  // Starts it with its output in a pipe, to be killed or waited for.
  Result<Subprocess> start(const std::vector<std::string>& command, int stdout_fd);

  std::filesystem::path root_path() const { return folder_ / "root.hrec"; }
  SeenRecording root() const { return read_recording(root_path()); }
  // Those of the other processes, by name.
  std::map<std::string, SeenRecording> others() const;
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string options_, also_;
  std::map<std::string, std::string> environment_;
};

}  // namespace headroom::test
