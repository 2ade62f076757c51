#include "serve/ros2/publisher.h"

#include <fmt/format.h>
#include <array>
#include <cstdlib>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "serve/ros2/plugin_publisher.h"

namespace headroom::ros2 {
namespace {

constexpr std::array<std::string_view, 2> kPublisherNames = {"rclcpp", "cyclonedds"};

// DDS computes port numbers from the domain: 7400 + 250 × domain + …, up to 65535.
constexpr int kLargestDomain = 232;
constexpr std::size_t kLongestTopic = 240;  // DDS allows 255, including the prefix "rt"

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

constexpr std::string_view kDigits = "0123456789";
const std::string kOfNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_" + std::string(kDigits);

// The text becomes part of an XML document, so only characters of addresses and host names are allowed.
bool is_peer(std::string_view text) { return text.find_first_not_of(kOfNames + ".:-[]%") == text.npos; }

}  // namespace

Result<std::unique_ptr<DiagnosticsPublisher>> load_diagnostics_publisher(std::string_view name) {
  std::optional<Error> first_error;
  std::string files;
  for (const std::string_view each : kPublisherNames) {
    if (name != "auto" && name != each) continue;
    const std::string file_name = fmt::format("libheadroom_ros2_{}.so", each);
    files += (files.empty() ? "" : " or ") + file_name;
    const auto file = find_plugin(file_name);
    if (!file) continue;
    auto create = load_plugin(*file, HEADROOM_PUBLISHER_SYMBOL,
                              "set up ROS 2's environment (source /opt/ros/DISTRIBUTION/setup.sh)");
    if (create) {
      if (first_error) log::warning("{}", first_error->sentence());
      log::debug("ROS 2 publisher: {}", file->string());
      return publisher_of(reinterpret_cast<hr_publisher_function>(*create)());
    }
    if (!first_error) first_error = create.error();
  }
  if (first_error) return tl::unexpected(*first_error);
  return internal_error("cannot publish for ROS 2",
                        fmt::format("{} not found in {}", files, plugin_folders_text()),
                        "set up ROS 2's environment and run: headroom build-plugin rclcpp");
}

bool is_topic_name(std::string_view name) {
  if (name.size() < 2 || name.size() > kLongestTopic || name.front() != '/') return false;
  for (const std::string_view part : split(name.substr(1), '/'))
    if (part.empty() || kDigits.find(part.front()) != kDigits.npos || part.find("__") != part.npos ||
        part.find_first_not_of(kOfNames) != part.npos)
      return false;
  return true;
}

Result<PublisherOptions> publisher_options_from_environment() {
  PublisherOptions options;
  if (const std::string_view domain = variable("ROS_DOMAIN_ID"); !domain.empty()) {
    const auto number = parse_number<int>(domain);
    if (!number || *number < 0 || *number > kLargestDomain)
      return usage_error(fmt::format("invalid ROS_DOMAIN_ID={}", domain), "",
                         fmt::format("use a number from 0 to {}", kLargestDomain));
    options.domain = *number;
  }
  const std::string_view localhost = variable("ROS_LOCALHOST_ONLY");
  const std::string_view range = variable("ROS_AUTOMATIC_DISCOVERY_RANGE");
  options.localhost_only = localhost == "1" || (localhost != "0" && range == "LOCALHOST");
  if (localhost.empty() && range == "OFF")
    return usage_error("with ROS_AUTOMATIC_DISCOVERY_RANGE=OFF no node can find the publisher", "",
                       "set it to LOCALHOST or SUBNET");
  for (const std::string_view peer : split(variable("ROS_STATIC_PEERS"), ';')) {
    if (peer.empty()) continue;
    if (!is_peer(peer))
      return usage_error(fmt::format("invalid address '{}' in ROS_STATIC_PEERS", peer), "",
                         "use addresses or host names, separated by semicolons");
    options.static_peers.emplace_back(peer);
  }
  return options;
}

}  // namespace headroom::ros2
