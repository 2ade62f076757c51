// Runs a program under the preload library and opens its recording.
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

// An event with its ids resolved.
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
  // The number of allocations of exactly this size, and how many of those addresses were released later.
  std::size_t allocations_of(std::uint64_t size) const;
  std::size_t released_of(std::uint64_t size) const;
  // The distinct scopes of the allocations of this size.
  std::vector<std::string> scopes_of(std::uint64_t size) const;
};
SeenRecording read_recording(const std::filesystem::path& path);

struct ProgramRun {
  ExitStatus status;
  std::string output;  // standard output
};

class TracedProgram {
 public:
  // `options` that begin with "gpu" select the library that records only GPU memory.
  explicit TracedProgram(std::string options = "full=1") : options_(std::move(options)) {}
  // Also preloads this library (for example an allocator), after the tracer.
  void preload_also(const std::string& library) { also_ = library; }
  void set_environment(const std::string& name, const std::string& value) { environment_[name] = value; }

  ProgramRun run(const std::vector<std::string>& command);
  // Starts the program with its output in a pipe.
  Result<Subprocess> start(const std::vector<std::string>& command, int stdout_fd);

  std::filesystem::path root_path() const { return folder_ / "root.hrec"; }
  SeenRecording root() const { return read_recording(root_path()); }
  // The recordings of the other processes, by name.
  std::map<std::string, SeenRecording> others() const;
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string options_, also_;
  std::map<std::string, std::string> environment_;
};

// Runs a program of tests/cli under the preload library, expects that it succeeds, and reads its recording.
SeenRecording recording_of(const std::vector<std::string>& command, const std::string& options = "full=1");

}  // namespace headroom::test
