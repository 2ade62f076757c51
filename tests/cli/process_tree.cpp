#include "cli/process_tree.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "support/test_support.h"

namespace headroom::test {
namespace fs = std::filesystem;
namespace {

constexpr int kLongestWaitMs = 60'000;

int parent_of(const fs::path& process) {
  const std::string status = read_text(process / "status");
  constexpr std::string_view kKey = "\nPPid:\t";
  const std::size_t at = status.find(kKey);
  if (at == std::string::npos) return 0;
  const std::string_view rest = std::string_view(status).substr(at + kKey.size());
  return parse_number<int>(rest.substr(0, rest.find('\n'))).value_or(0);
}

// The second word of its command line.
std::string verb_of(const fs::path& process) {
  const std::string command = read_text(process / "cmdline");
  const std::vector<std::string_view> words = split(command, '\0');
  return words.size() > 1 && words[1].starts_with('_') ? std::string(words[1]) : std::string();
}

}  // namespace

std::vector<Child> descendants_of(int pid) {
  std::map<int, int> parents;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc", code))
    if (const auto number = parse_number<int>(entry.path().filename().string()))
      parents[*number] = parent_of(entry.path());
  const auto descends = [&](int process) {
    for (std::size_t step = 0; process > 1 && step < parents.size(); ++step)
      if ((process = parents[process]) == pid) return true;
    return false;
  };
  std::vector<Child> children;
  for (const auto& [process, parent] : std::map(parents)) {
    if (!descends(process)) continue;
    Child child;
    child.pid = process;
    child.handle = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    child.verb = verb_of(fs::path("/proc") / std::to_string(process));
    if (child.handle && !child.verb.empty()) children.push_back(std::move(child));
  }
  return children;
}

const Child* find_child(const std::vector<Child>& children, const std::string& verb) {
  const auto found =
      std::find_if(children.begin(), children.end(), [&](const Child& child) { return child.verb == verb; });
  return found == children.end() ? nullptr : &*found;
}

bool ends(const Child& child) {
  pollfd ended{child.handle.get(), POLLIN, 0};
  return ::poll(&ended, 1, kLongestWaitMs) == 1;
}

}  // namespace headroom::test
