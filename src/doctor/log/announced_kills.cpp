#include "doctor/log/announced_kills.h"

#include <algorithm>

#include "base/text.h"
#include "doctor/log/limit_cures.h"
#include "doctor/log/log_retry.h"
#include "doctor/log/message_text.h"
#include "doctor/log/recent_kills.h"

namespace headroom::doctor {
namespace {

constexpr std::string_view kSignal = "sending signal 'SIGKILL' to process[";
constexpr std::string_view kEscalates = "escalating to 'SIGKILL'";
constexpr std::string_view kStarts = "process started with pid [";
constexpr std::string_view kContainer = "Container ";
constexpr std::string_view kGracefully = "racefully stopping... (press";
// systemd: a unit did not stop in time, or is killed at once, or by a user.
constexpr std::string_view kTimedOut = "out. Killing", kStopping = ": Stopping ", kStopped = ": Stopped ";
// A part with rare letters, which is fast to search for.
constexpr std::string_view kOfSigkill = "l SIGKILL";
constexpr std::string_view kAborting = "Aborting on container exit";

// Whether this program is the announced one. docker compose prints the project's name before the service's in
// its announcement, "ws-detector-1", but not when the container has ended.
bool is_same(std::string_view announced, std::string_view program) {
  if (!announced.ends_with(program)) return false;
  announced.remove_suffix(program.size());
  return announced.empty() || announced.ends_with('-') || announced.ends_with('_');
}

// " Container ws-detector-1  Killed".
struct ContainerState {
  std::string_view name, state;
};
ContainerState container_state(std::string_view line) {
  const auto words = split_words(line);
  const auto at = std::ranges::find(words, "Container");
  return words.end() - at < 3 ? ContainerState{} : ContainerState{at[1], at[2]};
}

// "Stopping vision.service - Vision...". Older versions do not print the unit.
std::string_view stopped_unit(std::string_view rest) {
  const std::string_view unit = rest.substr(0, rest.find(' '));
  return unit.ends_with(".service") || unit.ends_with(".scope") ? without_service(unit) : std::string_view();
}

}  // namespace

const std::vector<std::string_view>& AnnouncedKills::anchors() {
  static const std::vector<std::string_view> kAnchors{kSignal,     kEscalates, kStarts,   kContainer,
                                                      kGracefully, kAborting,  kTimedOut, kOfSigkill,
                                                      kStopping,   kStopped};
  return kAnchors;
}

void AnnouncedKills::read(std::string_view line, std::int64_t number) {
  if (const auto program = text_after(line, kSignal)) {
    announce(program->substr(0, program->find(']')), number);
  } else if (has(line, kEscalates)) {
    announce(source_of(line), number);
  } else if (has(line, kStarts)) {
    announced_.erase(std::string(source_of(line)));
  } else if (has(line, kTimedOut) || has(line, " with signal SIGKILL") || has(line, "Sent signal SIGKILL")) {
    announce(unit_of(line), number);
  } else if (const auto stopped = text_after(line, kStopping)) {
    announce(stopped_unit(*stopped), number);
  } else if (const auto unit = text_after(line, kStopped)) {
    announced_.erase(std::string(stopped_unit(*unit)));
  } else if (has(line, kGracefully) || has(line, kAborting)) {
    all_stop_ = number;
  } else if (has(line, kContainer)) {
    const auto [name, state] = container_state(line);
    if (state == "Stopping" || state == "Killing" || state == "Killed") announce(name, number);
    if (state == "Starting" || state == "Started") announced_.erase(std::string(name));
  }
}

void AnnouncedKills::announce(std::string_view program, std::int64_t number) {
  if (program.empty()) return;
  if (announced_.size() >= kMost) announced_.clear();
  announced_.insert_or_assign(std::string(program), number);
}

bool AnnouncedKills::explain(const LogMessage& killed, std::int64_t number) {
  const std::string who = killed.text("told_by");
  if (who != kLaunch && who != kCompose && who != kSystemd) return false;
  const auto is_near = [number](std::int64_t line) { return line >= 0 && number - line <= kNearLines; };
  const std::size_t explained = std::erase_if(announced_, [&](const auto& each) {
    return is_same(each.first, killed.subject) && is_near(each.second);
  });
  return explained > 0 || (who == kCompose && is_near(all_stop_));
}

}  // namespace headroom::doctor
