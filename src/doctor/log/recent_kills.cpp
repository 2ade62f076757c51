#include "doctor/log/recent_kills.h"

#include <cctype>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "doctor/log/limit_cures.h"

namespace headroom::doctor {
namespace {

// Services have no ending in messages: "vision" is in "/system.slice/vision.service".
bool is_in(std::string_view path, std::string_view unit) {
  const auto folders = split(path, '/');
  return std::ranges::any_of(
      folders, [unit](std::string_view folder) { return folder == unit || without_service(folder) == unit; });
}

bool ends_in_unit(std::string_view path) { return path.ends_with(".service") || path.ends_with(".scope"); }

}  // namespace

bool is_near(const LogPlace& before, const LogPlace& at) {
  // Called for hundreds of groups a line: compare the numbers first.
  return at.line - before.line <= kNearLines && before.file == at.file;
}

std::optional<LogTime> time_of(std::string_view line) {
  constexpr std::size_t kLongestBegin = 40;
  constexpr std::string_view kTime = "00:00:00";
  const std::string_view begin = line.substr(0, kLongestBegin);
  const auto fits = [](char letter, char shape) {
    return shape == '0' ? std::isdigit(static_cast<unsigned char>(letter)) != 0 : letter == shape;
  };
  const auto time = std::search(begin.begin(), begin.end(), kTime.begin(), kTime.end(), fits);
  if (time != begin.end()) {
    const auto number_at = [&](std::ptrdiff_t at) { return (time[at] - '0') * 10 + time[at + 1] - '0'; };
    return LogTime{false, (number_at(0) * 60 + number_at(3)) * 60 + number_at(6)};
  }
  const std::size_t dot = begin.find('.');
  if (!begin.starts_with('[') || dot == begin.npos) return std::nullopt;
  const auto seconds = parse_number<std::int64_t>(trim(begin.substr(1, dot - 1)));
  return seconds ? std::optional(LogTime{true, *seconds}) : std::nullopt;
}

bool are_apart(const std::optional<LogTime>& a, const std::optional<LogTime>& b) {
  // The kernel, systemd, a launch file and a shell report one kill within seconds. A restart takes longer.
  constexpr std::int64_t kApart = 60, kDay = 24 * 60 * 60;
  if (!a || !b || a->is_since_boot != b->is_since_boot) return false;
  const std::int64_t difference = std::abs(a->seconds - b->seconds);
  return difference > kApart && (a->is_since_boot || kDay - difference > kApart);
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

RecentKill* RecentKills::of_process(std::string_view process, const LogPlace& at) {
  if (process.empty()) return nullptr;
  return find_last(at, [process](const RecentKill& kill) { return kill.process == process; });
}

RecentKill* RecentKills::of_unit(std::string_view unit, const LogPlace& at) {
  const auto is_of_it = [unit](const RecentKill& kill) { return is_in(kill.control_group, unit); };
  const auto may_be_of_it = [unit](const RecentKill& kill) {
    return unit.empty() || (!ends_in_unit(kill.control_group) && (kill.unit.empty() || kill.unit == unit));
  };
  RecentKill* const kill = unit.empty() ? nullptr : find_last(at, is_of_it);
  return kill != nullptr ? kill : find_last(at, may_be_of_it);
}

void RecentKills::remove(const RecentKill* kill) {
  const auto is_it = [kill](const RecentKill& each) { return &each == kill; };
  if (const auto at = std::ranges::find_if(kills_, is_it); at != kills_.end()) kills_.erase(at);
}

}  // namespace headroom::doctor
