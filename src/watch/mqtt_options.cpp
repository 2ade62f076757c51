#include "watch/mqtt_options.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <utility>

#include "base/files.h"

namespace headroom::watch {
namespace fs = std::filesystem;
namespace {

constexpr const char* kFile = "mosquitto_pub";

std::string options_of_the_user() {
  const char* config = ::getenv("XDG_CONFIG_HOME");
  const char* home = ::getenv("HOME");
  fs::path folder;
  if (config != nullptr && *config != '\0')
    folder = config;
  else if (home != nullptr && *home != '\0')
    folder = fs::path(home) / ".config";
  const auto text = folder.empty() ? std::string() : read_file(folder / kFile, kibibytes(64)).value_or("");
  return text.empty() || text.back() == '\n' ? text : text + "\n";
}

}  // namespace

bool has_user(const std::string& mqtt_address) {
  const std::size_t begin = mqtt_address.find("://");
  if (begin == std::string::npos) return false;
  return mqtt_address.substr(begin + 3, mqtt_address.find('/', begin + 3) - begin - 3).find('@') !=
         std::string::npos;
}

Result<MqttOptions> MqttOptions::create(const std::string& address) {
  std::error_code code;
  std::string name = (fs::temp_directory_path(code) / "headroom-XXXXXX").string();
  if (code || ::mkdtemp(name.data()) == nullptr)
    return failure("cannot hide the password of an MQTT address",
                   fmt::format("cannot create {}: {}", name, errno_text(code ? code.value() : errno)));
  MqttOptions options;
  options.folder_ = name;
  const UniqueFd file(
      ::open((options.folder_ / kFile).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return failure("cannot hide the password of an MQTT address", errno_text(errno));
  if (auto written = write_all(file.get(), options_of_the_user() + "-L " + address + "\n"); !written)
    return forward_error(written);
  return options;
}

MqttOptions::MqttOptions(MqttOptions&& other) noexcept : folder_(std::exchange(other.folder_, {})) {}

MqttOptions& MqttOptions::operator=(MqttOptions&& other) noexcept {
  std::swap(folder_, other.folder_);
  return *this;
}

MqttOptions::~MqttOptions() {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::remove(folder_ / kFile, ignored);
  fs::remove(folder_, ignored);
}

}  // namespace headroom::watch
