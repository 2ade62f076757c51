// The account that the processes of a traced command share, so that a limit on GPU memory holds for all of
// them together: those of one command, or of all commands with the same --share NAME.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "ledger/account.h"

namespace headroom::trace {

// "4GiB" for every device, "0=4GiB,1=8GiB" for some.
Result<ledger::Limits> parse_device_limits(const std::string& text);

// Letters, digits, '.', '_' and '-': it becomes part of a file's name.
Status check_share_name(const std::string& name);

class DeviceAccount {
 public:
  // Makes the account, or joins the one of that name; its limits must be the same, or none be given. `name`
  // empty: an account of this command alone, perhaps without a limit. One at a time in a process: who opens
  // it again by the same name has the same, with its limits. Accounts that nobody is in any more are taken
  // away. Where devices have limits of their own, or the machine has several GPUs, the driver is asked for
  // them (in a child), so that the account has this process' numbers.
  static Result<DeviceAccount> open(const ledger::Limits& limits, const std::string& name,
                                    const std::filesystem::path& folder = "/dev/shm");
  DeviceAccount(DeviceAccount&& other) noexcept;
  DeviceAccount& operator=(DeviceAccount&&) = delete;
  // The last of this process leaves it; the last process takes the file away.
  ~DeviceAccount();

  const std::filesystem::path& file() const { return file_; }
  const ledger::Limits& limits() const { return limits_; }
  // Of --share; empty: this command's alone.
  const std::string& name() const { return name_; }
  // Of all members together: the most that was charged at once since the last reset, and what is charged now.
  std::uint64_t peak(unsigned device) const;
  std::uint64_t charged(unsigned device) const;
  void reset_peaks();
  // Whether the peak stayed within the account's limit: of one device, and of all. What a probe proved is
  // worth no more than that.
  bool has_kept_limit(unsigned device) const;
  bool has_kept_limits() const;
  // Requests that were refused to any member.
  std::uint64_t refused(unsigned device) const;
  // Drivers that members loaded where the limit does not reach.
  std::uint32_t unhooked_drivers() const;

 private:
  DeviceAccount() = default;
  std::filesystem::path file_;
  std::string name_;
  ledger::Limits limits_;
};

}  // namespace headroom::trace
