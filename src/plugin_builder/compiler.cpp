#include "plugin_builder/compiler.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "base/log.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "sources/system_sampler.h"

namespace headroom::plugin_builder {
namespace {

constexpr int kOldest = 9;  // JetPack 5 has this one
constexpr Bytes kMostOutput = kibibytes(16);

// What a child wrote to a file in memory.
std::string content_of(int file) {
  ::lseek(file, 0, SEEK_SET);
  auto text = read_descriptor(file, "the output", mebibytes(16));
  return text ? std::move(*text) : std::string();
}

std::string first_error(std::string_view output) {
  for (const std::string_view line : split(output, '\n'))
    if (line.find("error: ") != line.npos || line.find("undefined reference") != line.npos)
      return std::string(line);
  return std::string(trim(output.substr(0, output.find('\n'))));
}

// One gigabyte and a half of what is left for each: what the compiler needs for LibTorch's headers.
std::size_t jobs_at_once() {
  const SystemSample now = sources::SystemSampler().sample();
  Bytes left = now.ram_available.value_or(Bytes{});
  if (now.cgroup && now.cgroup->limit)
    left = std::min(left, *now.cgroup->limit - now.cgroup->current.value_or(Bytes{}) +
                              now.cgroup->inactive_file.value_or(Bytes{}));
  const auto for_memory =
      static_cast<std::size_t>(static_cast<double>(std::max(left, Bytes{}).count) / 1.5e9);
  return std::clamp<std::size_t>(for_memory, 1, std::max(1U, std::thread::hardware_concurrency()));
}

struct Job {
  Subprocess child;
  UniqueFd output;
  const std::vector<std::string>* command;

  static Result<Job> start(const std::vector<std::string>& command) {
    UniqueFd output(::memfd_create("output", MFD_CLOEXEC));
    if (!output) return internal_error("cannot keep the compiler's output", errno_text(errno));
    log::debug("{}", shell_command(command));
    SpawnOptions options;
    options.command = command;
    options.stdout_fd = options.stderr_fd = output.get();
    auto child = Subprocess::spawn(options);
    if (!child) return forward_error(child);
    return Job{std::move(*child), std::move(output), &command};
  }
  tl::unexpected<Error> failure_with(const ExitStatus& status) const {
    std::string text = content_of(output.get());
    const std::string why = text.empty() ? status.describe() : first_error(text);
    if (text.size() > static_cast<std::size_t>(kMostOutput.count)) {
      text.resize(static_cast<std::size_t>(kMostOutput.count));
      text += "\n…";
    }
    log::info("{}\n{}", shell_command(*command), text);
    return failure("the compiler failed", why);
  }
};

}  // namespace

std::string output_of(const std::vector<std::string>& command) {
  const UniqueFd output(::memfd_create("output", MFD_CLOEXEC)), errors(::memfd_create("errors", MFD_CLOEXEC));
  if (!output || !errors) return {};
  SpawnOptions options;
  options.command = command;
  options.stdout_fd = output.get();
  options.stderr_fd = errors.get();
  auto child = Subprocess::spawn(options);
  if (!child) return {};
  const auto ended = child->wait_for(Nanoseconds{30'000'000'000});
  return ended && ended->success() ? std::string(trim(content_of(output.get()))) : std::string();
}

Result<Compiler> find_compiler() {
  const char* chosen = std::getenv("CXX");
  Compiler compiler;
  compiler.program = chosen != nullptr && *chosen != '\0' ? chosen : "g++";
  for (const std::string_view word : split_words(compiler.program)) compiler.command.emplace_back(word);
  std::vector<std::string> ask = compiler.command;
  ask.insert(ask.end(), {"-dumpfullversion", "-dumpversion"});
  compiler.version = output_of(ask);
  if (compiler.version.empty())
    return input_error(fmt::format("the compiler {} does not answer -dumpfullversion", compiler.program),
                       "it is missing, or no g++", "sudo apt install g++");
  const auto major = parse_number<int>(compiler.version.substr(0, compiler.version.find('.')));
  if (major && *major < kOldest)
    return input_error(fmt::format("{} {} is too old", compiler.program, compiler.version),
                       fmt::format("the plug-ins need g++ {} or newer", kOldest),
                       fmt::format("install g++-{} and set CXX=g++-{}", kOldest, kOldest));
  return compiler;
}

Status run_compiler(const std::vector<std::vector<std::string>>& commands,
                    const std::function<bool(std::size_t ended)>& progress) {
  std::vector<Job> jobs;
  std::size_t started = 0, ended = 0;
  const std::size_t most = jobs_at_once();
  while (ended < commands.size()) {
    while (jobs.size() < most && started < commands.size()) {
      auto job = Job::start(commands[started++]);
      if (!job) return forward_error(job);
      jobs.push_back(std::move(*job));
    }
    if (!progress(ended)) return failure("the build was stopped");
    jobs.front().child.wait_for(Nanoseconds{100'000'000});
    for (Job& job : jobs) {
      const auto status = job.child.poll();
      if (status && !status->success()) return job.failure_with(*status);
    }
    ended += std::erase_if(jobs, [](const Job& job) { return !job.child.running(); });
  }
  return {};
}

}  // namespace headroom::plugin_builder
