// Options of one run of mosquitto_pub that other users are not to see: it has no password on its standard
// input, and arguments can be seen by everybody. It reads them from a file, which lies in a folder of its own
// that only this user may enter, and goes with this object.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace headroom::watch {

// "mqtt://user:password@host/topic"
bool has_user(const std::string& mqtt_address);

class MqttOptions {
 public:
  MqttOptions() = default;
  // The options that the user has given mosquitto_pub for always, and the address.
  static Result<MqttOptions> create(const std::string& address);
  MqttOptions(MqttOptions&& other) noexcept;
  MqttOptions& operator=(MqttOptions&& other) noexcept;
  MqttOptions(const MqttOptions&) = delete;
  MqttOptions& operator=(const MqttOptions&) = delete;
  ~MqttOptions();

  // For XDG_CONFIG_HOME; empty if there is none.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace headroom::watch
