// The account that the processes of a traced command share, so that a GPU memory limit applies to all of them
// together. It belongs to one command, or to all commands with the same --share NAME.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "ledger/account.h"

namespace headroom::trace {

// Accepts "4GiB" for every device, or "0=4GiB,1=8GiB" for individual devices.
Result<ledger::Limits> parse_device_limits(const std::string& text);

// Allows letters, digits, '.', '_' and '-', because the name becomes part of a file name.
Status check_share_name(const std::string& name);

class DeviceAccount {
 public:
  // Creates the account, or joins the existing one of that name; `limits` must be the same or unset. With an
  // empty `name` the account belongs to this command alone, perhaps without a limit. A process has one
  // account at a time: opening it again by the same name returns the same account and limits. Removes
  // accounts whose processes have all ended. If devices have different limits, or the machine has several
  // GPUs, a child process asks the driver for the devices. So the account uses this process's device numbers.
  static Result<DeviceAccount> open(const ledger::Limits& limits, const std::string& name,
                                    const std::filesystem::path& folder = "/dev/shm");
  DeviceAccount(DeviceAccount&& other) noexcept;
  DeviceAccount& operator=(DeviceAccount&&) = delete;
  // When the process's last DeviceAccount is destroyed, the process leaves the account. The last process
  // removes the file.
  ~DeviceAccount();

  const std::filesystem::path& file() const { return file_; }
  const ledger::Limits& limits() const { return limits_; }
  // The name given by --share; empty: the account belongs to this command alone.
  const std::string& name() const { return name_; }
  // The largest charge of all members together at any time since the last reset.
  std::uint64_t peak(unsigned device) const;
  void reset_peaks();
  // Whether the peak stayed within the account's limit: of one device, and of all. If not, the probe's proof
  // does not hold.
  bool has_kept_limit(unsigned device) const;
  bool has_kept_limits() const;
  // Requests that were refused to any member.
  std::uint64_t refused(unsigned device) const;
  // Drivers that members loaded and that the limit does not cover.
  std::uint32_t unhooked_drivers() const;

 private:
  DeviceAccount() = default;
  std::filesystem::path file_;
  std::string name_;
  ledger::Limits limits_;
};

// The GPU memory limit of this process itself, if `headroom run --gpu-limit` or `headroom trace` started it.
// Every command that it starts stays within that limit, whatever limit it is given.
struct InheritedLimit {
  ledger::Limits limits;
  std::vector<std::string> accounts;  // files, innermost first
};

// Reads the limit from HEADROOM_TRACE_OPTIONS.
InheritedLimit inherited_limit();

// The smaller limit of each device.
ledger::Limits smaller_of(const ledger::Limits& a, const ledger::Limits& b);

}  // namespace headroom::trace
