#include "serve/ros2/plugin_publisher.h"

#include <fmt/format.h>

#include <utility>

namespace headroom::ros2 {
namespace {

// Ends the texts that a plug-in wrote.
void terminate(hr_publisher_error& error) {
  error.why[sizeof error.why - 1] = '\0';
  error.fix[sizeof error.fix - 1] = '\0';
}

class PluginPublisher final : public DiagnosticsPublisher {
 public:
  explicit PluginPublisher(const hr_publisher_plugin& plugin) : plugin_(plugin) {}
  ~PluginPublisher() override {
    if (publisher_ != nullptr) plugin_.close(publisher_);
  }

  Status start(const PublisherOptions& options) override {
    std::vector<const char*> peers;
    for (const std::string& peer : options.static_peers) peers.push_back(peer.c_str());
    const hr_publisher_options plain{sizeof plain,   options.topic.c_str(),
                                     options.domain, options.localhost_only ? 1 : 0,
                                     peers.data(),   peers.size()};
    hr_publisher_error error{};
    if (plugin_.start(&plain, &publisher_, &error) == 0) return {};
    publisher_ = nullptr;
    terminate(error);
    return failure(fmt::format("cannot publish {} in domain {}", options.topic, options.domain), error.why,
                   error.fix);
  }

  Status publish(const DiagnosticArray& array) override {
    std::vector<std::vector<hr_key_value>> values;
    std::vector<hr_diagnostic_status> statuses;
    values.reserve(array.status.size());
    for (const DiagnosticStatus& status : array.status) {
      auto& pairs = values.emplace_back();
      for (const KeyValue& pair : status.values) pairs.push_back({pair.key.c_str(), pair.value.c_str()});
      statuses.push_back({status.name.c_str(), status.message.c_str(), status.hardware_id.c_str(),
                          pairs.data(), pairs.size(), static_cast<std::int32_t>(status.level)});
    }
    const hr_diagnostic_array plain{array.stamp.count, statuses.data(), statuses.size()};
    hr_publisher_error error{};
    if (plugin_.publish(publisher_, &plain, &error) == 0) return {};
    terminate(error);
    return internal_error("cannot send diagnostics", error.why, error.fix);
  }

 private:
  const hr_publisher_plugin& plugin_;
  hr_publisher* publisher_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<DiagnosticsPublisher>> publisher_of(const hr_publisher_plugin* plugin) {
  if (plugin == nullptr || plugin->abi_version != HEADROOM_PUBLISHER_ABI ||
      plugin->struct_size < sizeof(hr_publisher_plugin))
    return internal_error("cannot use the ROS 2 publisher", "it was built for another version of Headroom",
                          "build it again");
  return std::make_unique<PluginPublisher>(*plugin);
}

}  // namespace headroom::ros2
