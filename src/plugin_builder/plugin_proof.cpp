#include "plugin_builder/plugin_proof.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files.h"
#include "base/subprocess.h"
#include "inference/backend_plugin.h"
#include "serve/ros2/publisher_plugin.h"

namespace headroom::plugin_builder {
namespace {

// The first byte of the child's answer; its text follows.
enum class Answer : char { started = 's', not_started = 'n', refused = 'r' };

std::string answer_text(Answer answer, std::string_view text) {
  return static_cast<char>(answer) + std::string(text);
}

std::string answer_of_backend(void* function) {
  const hr_backend* backend = reinterpret_cast<hr_backend_function>(function)();
  if (backend == nullptr || backend->abi_version != HEADROOM_BACKEND_ABI)
    return answer_text(Answer::refused, "it has another plug-in interface");
  hr_error error{};
  if (backend->start(&error) != 0) {
    error.message[sizeof error.message - 1] = '\0';
    return answer_text(Answer::not_started, error.message);
  }
  return answer_text(Answer::started, backend->version());
}

std::string answer_of_publisher(void* function) {
  const hr_publisher_plugin* plugin = reinterpret_cast<hr_publisher_function>(function)();
  if (plugin == nullptr || plugin->abi_version != HEADROOM_PUBLISHER_ABI)
    return answer_text(Answer::refused, "it has another plug-in interface");
  return answer_text(Answer::started, plugin->version);
}

std::string answer_for(const std::filesystem::path& file, PluginInterface interface) {
  const char* const name = interface == PluginInterface::backend     ? HEADROOM_BACKEND_SYMBOL
                           : interface == PluginInterface::publisher ? HEADROOM_PUBLISHER_SYMBOL
                                                                     : "headroom_memory_tracer_begin";
  const auto function = load_plugin(file, name, "");
  if (!function) return answer_text(Answer::refused, function.error().why);
  if (interface == PluginInterface::memory_tracer) return answer_text(Answer::started, "");
  return interface == PluginInterface::backend ? answer_of_backend(*function)
                                               : answer_of_publisher(*function);
}

// Reads to the end of the pipe; whole is false if the child took too long.
std::string read_answer(int from, bool& whole) {
  constexpr Nanoseconds kPatience{120'000'000'000};  // LibTorch with CUDA takes half a minute on an SD card
  const Nanoseconds deadline = monotonic_now() + kPatience;
  std::string answer;
  char piece[1024];
  for (;;) {
    const std::int64_t left_ms = (deadline - monotonic_now()).count / 1'000'000;
    pollfd ready{from, POLLIN, 0};
    const int polled = left_ms <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left_ms));
    if (polled < 0 && errno == EINTR) continue;
    whole = polled > 0;
    if (!whole) return answer;
    const ssize_t got = ::read(from, piece, sizeof piece);
    if (got <= 0) return answer;
    answer.append(piece, static_cast<std::size_t>(got));
  }
}

std::string ending_of(int status) {
  ExitStatus ended;
  if (WIFEXITED(status)) ended.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended.describe();
}

}  // namespace

Result<Proof> prove(const std::filesystem::path& file, PluginInterface interface) {
  auto pipe = Pipe::create();
  if (!pipe) return forward_error(pipe);
  const pid_t child = ::fork();
  if (child < 0) return internal_error("cannot start a process", errno_text(errno));
  if (child == 0) {
    const std::string answer = answer_for(file, interface);
    const bool written = write_all(pipe->write_end.get(), answer).has_value();
    ::_exit(written ? 0 : 1);  // without the exit handlers of the program and of the library
  }
  pipe->write_end.reset();
  bool whole = false;
  const std::string answer = read_answer(pipe->read_end.get(), whole);
  if (!whole) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const std::string what = fmt::format("{} cannot be used", file.filename().string());
  if (!whole) return failure(what, "its process did not answer in two minutes");
  if (answer.empty())
    return failure(what, fmt::format("the process that loaded it ended with {}", ending_of(status)));
  const auto kind = static_cast<Answer>(answer.front());
  if (kind == Answer::refused) return failure(what, answer.substr(1));
  if (kind == Answer::not_started) return Proof{"", answer.substr(1)};
  return Proof{answer.substr(1), ""};
}

}  // namespace headroom::plugin_builder
