#include "doctor/log/recent_kills.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace headroom::doctor {
namespace {

// Services have no ending in messages: "vision" is in "/system.slice/vision.service".
bool is_in(std::string_view path, std::string_view unit) {
  const auto folders = split(path, '/');
  return std::any_of(folders.begin(), folders.end(), [unit](std::string_view folder) {
    constexpr std::string_view kService = ".service";
    if (folder == unit) return true;
    return folder.ends_with(kService) && folder.substr(0, folder.size() - kService.size()) == unit;
  });
}

bool ends_in_unit(std::string_view path) { return path.ends_with(".service") || path.ends_with(".scope"); }

}  // namespace

bool is_near(const LogPlace& before, const LogPlace& at) {
  // Called for hundreds of groups a line: compare the numbers first.
  return at.line - before.line <= kNearLines && before.file == at.file;
}

void RecentKills::add(RecentKill kill) {
  if (kills_.size() >= kMost) kills_.pop_front();
  kills_.push_back(std::move(kill));
}

void RecentKills::add_control_group(const std::string& process, std::string_view path) {
  if (path.empty() || process.empty()) return;
  for (RecentKill& kill : kills_)
    if (kill.process == process && kill.control_group.empty()) kill.control_group = path;
}

RecentKill* RecentKills::of_process(std::string_view process, const LogPlace& at,
                                    const std::optional<LogTime>& time) {
  if (process.empty()) return nullptr;
  return find_last(at, time, [process](const RecentKill& kill) { return kill.process == process; });
}

RecentKill* RecentKills::of_unit(std::string_view unit, const LogPlace& at,
                                 const std::optional<LogTime>& time) {
  if (unit.empty()) return find_last(at, time, [](const RecentKill&) { return true; });
  const auto is_of_it = [unit](const RecentKill& kill) { return is_in(kill.control_group, unit); };
  if (RecentKill* const kill = find_last(at, time, is_of_it)) return kill;
  return find_last(at, time, [unit](const RecentKill& kill) {
    return !ends_in_unit(kill.control_group) && (kill.unit.empty() || kill.unit == unit);
  });
}

RecentKill* RecentKills::told_of(std::string_view unit, const LogPlace& at,
                                 const std::optional<LogTime>& time) {
  return find_last(at, time,
                   [unit](const RecentKill& kill) { return !kill.unit.empty() && kill.unit == unit; });
}

void RecentKills::remove(const RecentKill* kill) {
  const auto is_it = [kill](const RecentKill& each) { return &each == kill; };
  if (const auto at = std::find_if(kills_.begin(), kills_.end(), is_it); at != kills_.end()) kills_.erase(at);
}

}  // namespace headroom::doctor
