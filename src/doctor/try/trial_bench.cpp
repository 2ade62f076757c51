#include "doctor/try/trial_bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>

#include <cerrno>

#include "base/files.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "doctor/cure_trials.h"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

std::string last_line_of(const std::string& text) {
  std::string last;
  for (const std::string_view line : split(text, '\n'))
    if (!trim(line).empty()) last = trim(line);
  return last;
}

}  // namespace

Result<TrialFolder> TrialFolder::make() {
  std::error_code code;
  std::string name = (fs::temp_directory_path(code) / "headroom-try-XXXXXX").string();
  if (code || ::mkdtemp(name.data()) == nullptr)
    return failure("cannot create a folder for the trials", code ? code.message() : errno_text(errno),
                   "set TMPDIR to a writable folder");
  return TrialFolder(name);
}

TrialFolder::~TrialFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<std::optional<report::LoadedSide>> TrialBench::run(const BenchResult& run, const ModelResult& model,
                                                          const std::optional<CureSettings>& cure,
                                                          const std::string& label) {
  if (cure && wants_preparing(run, *cure) && prepared_.insert(model.name + ',' + cure->settings).second) {
    auto ended = prepare(run, model, *cure, label);
    if (!ended) return forward_error(ended);
    if (!*ended) return std::optional<report::LoadedSide>();
  }
  const std::string output = (folder_ / std::to_string(++number_)).string();
  auto ended =
      wait_for(bench_arguments(run, model, cure), {"--output-dir", output, "--sample-images", "0"}, label);
  if (!ended) return forward_error(ended);
  if (!*ended) return std::optional<report::LoadedSide>();
  auto loaded = report::load_runs({output});
  if (loaded && !loaded->side.empty()) return std::optional(std::move(*loaded));
  const auto said = read_file(log(), mebibytes(1));
  return failure(fmt::format("the trial of {} wrote no report", label), said ? last_line_of(*said) : "",
                 "run its command manually: " + bench_command(run, model, cure));
}

// A failure is not reported here: the trial itself fails and reports it.
Result<bool> TrialBench::prepare(const BenchResult& run, const ModelResult& model, const CureSettings& cure,
                                 const std::string& label) {
  return wait_for(preparing_arguments(run, model, cure), {"--output-dir", (folder_ / "preparing").string()},
                  label + ", preparing without the limit");
}

Result<bool> TrialBench::wait_for(std::vector<std::string> arguments, const std::vector<std::string>& more,
                                  const std::string& label) {
  constexpr Nanoseconds kPatience{15'000'000'000};  // for a bench after Ctrl-C
  constexpr int kBetween = 100;                     // ms
  const UniqueFd messages(::open(log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  SpawnOptions options;
  options.command = std::move(arguments);
  options.command.insert(options.command.begin(), own_executable().string());
  options.command.insert(options.command.end(), more.begin(), more.end());
  for (const std::string& word :
       {std::string("--prepared-dir"), (folder_ / "prepared").string(), std::string("--quiet")})
    options.command.push_back(word);
  options.stderr_fd = messages.get();
  auto bench = Subprocess::spawn(options);
  if (!bench) return forward_error(bench);
  while (!bench->poll()) {
    line_.update("trying", static_cast<double>(number_ - 1) / static_cast<double>(trials_),
                 fmt::format("{} of {}: {}", number_, trials_, label));
    pollfd signals{interrupt_.fd(), POLLIN, 0};
    ::poll(&signals, 1, kBetween);
    if (!interrupt_.requested()) continue;
    bench->signal(SIGINT);
    if (!bench->wait_for(kPatience)) bench->signal(SIGKILL);
    bench->wait();
    return false;
  }
  return true;
}

}  // namespace headroom::doctor
