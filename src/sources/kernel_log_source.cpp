// Reads /dev/kmsg, starting when it is opened. Each read returns one record, "6,1234,5678,-;message".
// Reading fails if the kernel restricts it to root.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/text.h"
#include "sources/metric_source.h"

namespace headroom::sources {
namespace {

constexpr std::size_t kMostText = 400;
constexpr int kMostRecords = 256;  // per sample, so that a flood of messages cannot delay it

// Parses "123 (python3)" after `words`; the text before it differs between kernel versions.
bool read_victim(std::string_view message, std::string_view words, KernelEvent& event) {
  const std::size_t at = message.find(words);
  if (at == message.npos) return false;
  std::string_view rest = message.substr(at + words.size());
  event.pid = parse_number<std::int64_t>(take_word(rest));
  const std::size_t open = rest.find('('), close = rest.find(')');
  if (!event.pid || open == rest.npos || close == rest.npos || close < open) return false;
  event.process = rest.substr(open + 1, close - open - 1);
  return true;
}

class KernelLog {
 public:
  explicit KernelLog(const fs::path& root)
      : fd_(::open((root / "dev/kmsg").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    if (fd_ && ::lseek(fd_.get(), 0, SEEK_END) < 0) fd_.reset();
  }
  bool exists() const { return static_cast<bool>(fd_); }

  bool operator()(SystemSample& sample) {
    for (int i = 0; i < kMostRecords; ++i) {
      const ssize_t got = ::read(fd_.get(), buffer_.data(), buffer_.size());
      if (got < 0 && errno == EPIPE) continue;  // records were overwritten before they were read
      if (got <= 0) return got == 0 || errno == EAGAIN;
      for (const std::string_view line : split({buffer_.data(), static_cast<std::size_t>(got)}, '\n'))
        add(line, sample);
    }
    return true;
  }

 private:
  void add(std::string_view line, SystemSample& sample) {
    const std::size_t semicolon = line.find(';');
    auto event = kernel_event_of(semicolon == line.npos ? line : line.substr(semicolon + 1));
    if (!event) return;
    // The kernel logs a kill in two or three lines.
    if (event->kind == KernelEventKind::oom_kill && event->pid) {
      if (event->pid == last_victim_) return;
      last_victim_ = event->pid;
    }
    sample.kernel_events.push_back(std::move(*event));
  }

  UniqueFd fd_;
  std::array<char, 8192> buffer_;
  std::optional<std::int64_t> last_victim_;
};

}  // namespace

std::optional<KernelEvent> kernel_event_of(std::string_view message) {
  KernelEvent event;
  event.text = trim(message).substr(0, kMostText);
  if (read_victim(message, "Killed process ", event) ||
      (message.find("Out of memory") != message.npos && read_victim(message, "Kill process ", event)))
    return event;
  if (message.starts_with("oom-kill:")) {
    const std::size_t task = message.find(",task="), pid = message.find(",pid=");
    if (task == message.npos || pid == message.npos) return std::nullopt;
    const std::string_view name = message.substr(task + 6);
    event.process = name.substr(0, name.find(','));
    const std::string_view number = message.substr(pid + 5);
    event.pid = parse_number<std::int64_t>(trim(number.substr(0, number.find(','))));
    if (event.pid) return event;
    return std::nullopt;
  }
  const auto has = [message](std::string_view words) { return message.find(words) != message.npos; };
  const bool failed = has("error") || has("ailed") || has("FAILED");
  event.kind = KernelEventKind::nvmap_error;
  if (failed && (has("NvMap") || has("nvmap") || has("NvRmMem"))) return event;
  event.kind = KernelEventKind::gpu_error;
  if (has("nvgpu") && (has("alloc FAILED") || has("Failed to alloc"))) return event;
  return std::nullopt;
}

SourcePointer make_kernel_log_source(const fs::path& root) {
  KernelLog kernel_log(root);
  return kernel_log.exists() ? make_source("kernel log", std::move(kernel_log)) : nullptr;
}

}  // namespace headroom::sources
