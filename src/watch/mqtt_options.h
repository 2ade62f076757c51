// Hides the address of one mosquitto_pub run from other users. The address may contain a password, and all
// users can see a process's arguments. mosquitto_pub cannot read the address from standard input, so it reads
// an options file. The file lies in a private folder, which the destructor removes.
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
  // Writes the user's own mosquitto_pub options and the address.
  static Result<MqttOptions> create(const std::string& address);
  MqttOptions(MqttOptions&& other) noexcept;
  MqttOptions& operator=(MqttOptions&& other) noexcept;
  MqttOptions(const MqttOptions&) = delete;
  MqttOptions& operator=(const MqttOptions&) = delete;
  ~MqttOptions();

  // The value for XDG_CONFIG_HOME; empty if there is no file.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace headroom::watch
