#include "cli/command.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>

#include "base/subprocess.h"

namespace headroom::test {
namespace fs = std::filesystem;
namespace {

const fs::path kBinary = fs::path(test::built_path("bin/headroom"));

// A 16 × 16 24-bit bitmap: the smallest picture format that needs no library to write.
std::string small_bitmap() {
  constexpr unsigned kSide = 16;
  constexpr unsigned kPixels = kSide * kSide * 3;
  std::string file = "BM";
  const auto number = [&](unsigned value, int bytes) {
    for (int i = 0; i < bytes; ++i) file += static_cast<char>((value >> (8 * i)) & 0xFFU);
  };
  number(54 + kPixels, 4);
  number(0, 4);
  number(54, 4);
  number(40, 4);
  number(kSide, 4);
  number(kSide, 4);
  number(1, 2);
  number(24, 2);
  for (int i = 0; i < 6; ++i) number(0, 4);
  for (unsigned i = 0; i < kPixels; ++i) file += static_cast<char>(i % 251);
  return file;
}

void drain(int fd, std::string& text) {
  std::array<char, 65536> buffer;
  for (ssize_t got = 0; (got = ::read(fd, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
}

}  // namespace

CommandResult run_headroom(const std::vector<std::string>& arguments, const CommandOptions& options) {
  auto out = Pipe::create();
  auto err = Pipe::create();
  SpawnOptions spawn;
  spawn.command = {options.binary.empty() ? kBinary.string() : options.binary.string()};
  spawn.command.insert(spawn.command.end(), arguments.begin(), arguments.end());
  spawn.environment = options.environment;
  spawn.stdout_fd = options.stdout_fd >= 0 ? options.stdout_fd : out->write_end.get();
  spawn.stderr_fd = err->write_end.get();
  spawn.before_exec = [folder = options.folder.string(), most = rlim_t{options.most_file_bytes}] {
    const rlimit file_size{most, most};
    if (most != 0 && ::setrlimit(RLIMIT_FSIZE, &file_size) != 0) return errno;
    return folder.empty() || ::chdir(folder.c_str()) == 0 ? 0 : errno;
  };
  auto child = Subprocess::spawn(spawn);
  CommandResult result;
  if (!child) {
    result.err = child.error().sentence();
    return result;
  }
  out->write_end.reset();
  err->write_end.reset();
  ::fcntl(out->read_end.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(err->read_end.get(), F_SETFL, O_NONBLOCK);
  bool watch = static_cast<bool>(options.while_running);
  std::optional<ExitStatus> status;
  while (!status) {
    status = child->wait_for(Nanoseconds{20'000'000});
    drain(out->read_end.get(), result.out);
    drain(err->read_end.get(), result.err);
    if (!status && watch) watch = options.while_running(child->pid());
  }
  result.exit_code = status->exit_code;
  result.signal = status->signal;
  return result;
}

Bench::Bench() {
  fs::create_directories(folder_ / "models");
  fs::create_directories(folder_ / "pictures");
  write_text(folder_ / "pictures/small.bmp", small_bitmap());
}

std::string Bench::pictures() { return (folder_ / "pictures").string(); }

std::string Bench::model(const std::string& name, const std::string& commands) {
  const fs::path path = folder_.path() / "models" / (name + ".misbehave");
  write_text(path, commands.empty() ? "behave\n" : commands);
  return path.string();
}

CommandResult Bench::run(std::vector<std::string> arguments, CommandOptions options) {
  std::vector<std::string> all{"bench", "--output-dir", (folder_ / "outputs").string(), "--prepared-dir",
                               (folder_ / "prepared").string()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  options.environment.emplace_back("HEADROOM_BACKEND_PATH",
                                   (fs::path(test::built_path("test-plugins"))).string());
  // A sanitizer's own handler would turn a crash into an exit.
  options.environment.emplace_back("ASAN_OPTIONS", "handle_segv=0:handle_abort=0");
  if (options.folder.empty()) options.folder = folder_.path();
  return run_headroom(all, options);
}

fs::path Bench::run_folder() const {
  fs::path newest;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "outputs", code)) {
    const std::string name = entry.path().filename().string();
    const bool is_a_trial = name.starts_with('.');  // of whether the folder can be written to
    if (!is_a_trial && (newest.empty() || name > newest.filename().string())) newest = entry.path();
  }
  return newest;
}

Json Bench::report() const {
  const auto document = parse_json(read_text(run_folder() / "report.json"), "report.json");
  return document ? *document : Json();
}

Json model_of(const Json& report, const std::string& name) {
  for (const Json& model : get_member(report, "models"))
    if (get_text(model, "name") == name) return model;
  return {};
}

bool hard_limits_work() {
  static const bool works = [] {
    Bench bench;
    bench.run({"--source", bench.pictures(), "--backend", "misbehaving", "--model",
               "m=" + bench.model("m", ""), "--max-frames", "2", "--mem-limit", "512MiB"});
    return get_text(get_member(bench.report(), "limit"), "type") == "hard";
  }();
  return works;
}

}  // namespace headroom::test
