#include "trace/device_account.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "cuda/visible_devices.h"
#include "ledger/account_page.h"

namespace headroom::trace {
namespace fs = std::filesystem;
namespace {

using ledger::Account;
using ledger::kMaxDevices;
using ledger::kNoLimit;
using ledger::Limits;

Result<std::uint64_t> parse_limit(std::string_view text) {
  auto size = parse_size(text);
  if (!size) {
    const Error& error = size.error();
    return usage_error(
        fmt::format("invalid GPU limit {}", text), error.why.empty() ? error.what : error.why,
        "give a size with a unit, for example 4GiB, or one per device, for example 0=4GiB,1=8GiB");
  }
  if (size->count <= 0)
    return usage_error(fmt::format("the GPU limit {} is not above zero", text), "", "give a size above zero");
  return static_cast<std::uint64_t>(size->count);
}

bool are_equal(const Limits& limits) {
  return std::all_of(std::begin(limits.bytes), std::end(limits.bytes),
                     [&](std::uint64_t limit) { return limit == limits.bytes[0]; });
}

std::string limits_text(const Limits& limits) {
  std::string words;
  const auto size = [](std::uint64_t bytes) { return format_bytes(Bytes{static_cast<std::int64_t>(bytes)}); };
  if (are_equal(limits)) return limits.bytes[0] == kNoLimit ? "no limit" : size(limits.bytes[0]);
  for (unsigned device = 0; device < kMaxDevices; ++device)
    if (limits.bytes[device] != kNoLimit)
      words += fmt::format("{}{}={}", words.empty() ? "" : ",", device, size(limits.bytes[device]));
  return words;
}

// Locked while an account is looked up, created or removed. So no account is created twice, and none is
// removed while another process is joining it.
UniqueFd lock_folder(const fs::path& folder) {
  const fs::path file = folder / fmt::format("headroom-{}.lock", ::geteuid());
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd && ::flock(fd.get(), LOCK_EX) != 0) return {};
  return fd;
}

Limits limits_of(const Account& account) {
  Limits limits;
  for (unsigned device = 0; device < kMaxDevices; ++device) limits.bytes[device] = account.limit(device);
  return limits;
}

void identify(Account& account, const std::vector<cuda::VisibleDevice>& devices) {
  unsigned number = 0;
  for (const cuda::VisibleDevice& device : devices) {
    std::uint8_t uuid[16];
    std::copy(device.uuid.begin(), device.uuid.end(), uuid);
    account.identify(number++, uuid);
  }
}

// A limit for a missing device has no effect, so it is an error. The number is too high, or was meant for a
// program that sees other devices (CUDA_VISIBLE_DEVICES). `devices`: the number that the driver reports; 0:
// unknown.
Status check_devices(const Limits& limits, std::size_t devices) {
  if (devices == 0 || are_equal(limits)) return {};
  for (std::size_t device = devices; device < kMaxDevices; ++device)
    if (limits.bytes[device] != kNoLimit)
      return usage_error(
          fmt::format("the GPU limit {} names device {}, which does not exist", limits_text(limits), device),
          fmt::format("the driver reports {}",
                      devices == 1 ? "one device" : fmt::format("{} devices", devices)),
          fmt::format("give a limit for {}",
                      devices == 1 ? "device 0" : fmt::format("devices 0 to {}", devices - 1)));
  return {};
}

// Device numbers matter only if limits differ between devices, or several GPUs are present.
bool needs_device_numbers(const Limits& limits, const InheritedLimit& around) {
  std::error_code code;
  const auto gpus =
      std::distance(fs::directory_iterator("/proc/driver/nvidia/gpus", code), fs::directory_iterator());
  return !are_equal(limits) || !are_equal(around.limits) || gpus > 1;
}

// Uses the device numbers of this process, which may differ from those of the process that set the limit.
Limits limits_around(const InheritedLimit& around, const std::vector<cuda::VisibleDevice>& devices) {
  if (are_equal(around.limits) || devices.empty()) return around.limits;
  Limits limits;
  for (const std::string& file : around.accounts) {
    Account account;
    if (!account.open_shared(file.c_str())) continue;
    identify(account, devices);
    for (unsigned device = 0; device < kMaxDevices; ++device)
      limits.bytes[device] = std::min(limits.bytes[device], account.limit(device));
  }
  return limits;
}

// After a conductor was killed, its command still finds the account by this name.
bool is_used_by_process(const std::string& file) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator("/proc", code)) {
    if (!parse_number<int>(entry.path().filename().string())) continue;
    if (file_contains(entry.path() / "environ", file)) return true;
  }
  return false;
}

// Accounts are created under the folder's lock, so one that begins with zeros belongs to a killed process.
bool is_unfinished(const fs::path& file) {
  char magic[8] = {};
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  return fd && ::read(fd.get(), magic, sizeof magic) >= 0 &&
         std::all_of(std::begin(magic), std::end(magic), [](char byte) { return byte == 0; });
}

// Removes accounts that killed conductors left behind; requires the folder's lock. Accounts of other Headroom
// versions cannot be read, and stay.
void remove_abandoned(const fs::path& folder) {
  const std::string ours = fmt::format("headroom-{}-", ::geteuid());
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (!entry.path().filename().string().starts_with(ours)) continue;
    Account account;
    const bool is_abandoned = account.open_shared(entry.path().c_str())
                                  ? account.members() == 0 && !is_used_by_process(entry.path().string())
                                  : is_unfinished(entry.path());
    if (is_abandoned) ::unlink(entry.path().c_str());
  }
}

// The process's own membership; a conductor needs only one account at a time.
struct Membership {
  Account account;
  fs::path file;
  Limits limits;
  int users = 0;
};
Membership& membership() {
  static Membership own;
  return own;
}
Account& joined() { return membership().account; }

}  // namespace

Result<Limits> parse_device_limits(const std::string& text) {
  Limits limits;
  if (text.find('=') == std::string::npos) {
    auto limit = parse_limit(text);
    if (!limit) return forward_error(limit);
    for (std::uint64_t& device : limits.bytes) device = *limit;
    return limits;
  }
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    const auto device = parse_number<unsigned>(part.substr(0, std::min(equals, part.size())));
    if (equals == std::string_view::npos || !device || *device >= kMaxDevices)
      return usage_error(
          fmt::format("the GPU limit {} has no valid device in '{}'", text, part), "",
          fmt::format("write DEVICE=SIZE with a device from 0 to {}, for example 0=4GiB,1=8GiB",
                      kMaxDevices - 1));
    if (limits.bytes[*device] != kNoLimit)
      return usage_error(fmt::format("the GPU limit {} names device {} twice", text, *device), "",
                         "give each device one size");
    auto limit = parse_limit(part.substr(equals + 1));
    if (!limit) return forward_error(limit);
    limits.bytes[*device] = *limit;
  }
  return limits;
}

Status check_share_name(const std::string& name) {
  if (is_plain_name(name)) return {};
  return usage_error(fmt::format("--share {} is not a valid account name", name), "",
                     fmt::format("use up to {} letters, digits, '.', '_' and '-'", kLongestPlainName));
}

Result<DeviceAccount> DeviceAccount::open(const Limits& limits, const std::string& name,
                                          const fs::path& folder) {
  DeviceAccount result;
  result.name_ = name;
  const std::string owner =
      name.empty() ? fmt::format("{}-{}", ::getpid(), ledger::this_process().start_ticks) : "share-" + name;
  const fs::path file = folder / fmt::format("headroom-{}-{}", ::geteuid(), owner);
  if (Membership& own = membership(); own.users > 0 && own.file == file) {
    ++own.users;
    result.file_ = file;
    result.limits_ = own.limits;
    return result;
  }
  const InheritedLimit around = inherited_limit();
  if (around.accounts.size() + 1 >= ledger::kMaxAccounts)
    return usage_error("cannot create a GPU memory account",
                       fmt::format("{} GPU limits are already nested", around.accounts.size()),
                       "set only the smallest of them, in one headroom command");
  const auto devices =
      needs_device_numbers(limits, around) ? cuda::visible_devices() : std::vector<cuda::VisibleDevice>();
  if (auto there = check_devices(limits, devices.size()); !there) return forward_error(there);
  const Limits outer = limits_around(around, devices);
  // A named account has the same limit for all members; an enclosing limit applies to this command only.
  result.limits_ = name.empty() ? smaller_of(limits, outer) : limits;
  if (limits.any() && std::memcmp(result.limits_.bytes, limits.bytes, sizeof limits.bytes) != 0)
    log::warning("the enclosing GPU limit of {} applies instead of {}", limits_text(outer),
                 limits_text(limits));
  const std::string what = fmt::format("cannot create the GPU memory account {}", file.string());
  const UniqueFd lock = lock_folder(folder);
  if (!lock) return failure(what, errno_text(errno), "make /dev/shm writable, or run without the limit");

  remove_abandoned(folder);
  Account& account = joined();
  if (account.open_shared(file.c_str())) {
    if (account.uncheckable_members() > 0) {
      account.close();
      return usage_error(
          fmt::format("--share {} is in use in another container (PID namespace)", name),
          "this container cannot see whether those processes are alive, so their memory would stay charged "
          "forever",
          fmt::format(
              "start all of them in one container, use another name, or, if they have ended, remove {}",
              file.string()));
    }
    if (account.members() > 0) {
      // the limits use the creator's device numbers, the calls use this process's
      identify(account, devices);
      const Limits theirs = limits_of(account);
      if (limits.any() && std::memcmp(theirs.bytes, limits.bytes, sizeof limits.bytes) != 0) {
        account.close();
        return usage_error(
            fmt::format("the GPU limit {} differs from that of --share {}", limits_text(limits), name),
            fmt::format("its processes already share {}", limits_text(theirs)),
            "give the same limit, omit it, or use another name");
      }
      result.limits_ = smaller_of(theirs, outer);
    } else {
      // All its processes were killed.
      account.close();
      ::unlink(file.c_str());
    }
  }
  if (!account.is_open()) {
    if (!limits.any() && !name.empty())
      return usage_error(fmt::format("--share {} has no limit to share", name),
                         "no running command of this user shares GPU memory under this name",
                         "give the first command a GPU limit");
    if (!Account::create_shared(file.c_str(), result.limits_) || !account.open_shared(file.c_str()))
      return failure(what, errno_text(errno), "free space in /dev/shm, or remove the file");
    result.limits_ = smaller_of(result.limits_, outer);
    identify(account, devices);
  }
  if (!account.ensure_joined()) {
    account.close();
    return failure(what, fmt::format("{} processes share it already", ledger::kMaxMembers),
                   "wait for one to end, or use another name");
  }
  Membership& own = membership();
  own.file = result.file_ = file;
  own.limits = result.limits_;
  own.users = 1;
  return result;
}

DeviceAccount::DeviceAccount(DeviceAccount&& other) noexcept
    : file_(std::exchange(other.file_, {})), name_(std::move(other.name_)), limits_(other.limits_) {}

std::uint64_t DeviceAccount::peak(unsigned device) const { return joined().peak(device); }
std::uint64_t DeviceAccount::refused(unsigned device) const { return joined().refused(device); }
std::uint32_t DeviceAccount::unhooked_drivers() const { return joined().unhooked_drivers(); }
void DeviceAccount::reset_peaks() { joined().reset_peaks(); }
bool DeviceAccount::has_kept_limit(unsigned device) const { return joined().has_kept_limit(device); }
bool DeviceAccount::has_kept_limits() const {
  for (unsigned device = 0; device < kMaxDevices; ++device)
    if (!has_kept_limit(device)) return false;
  return true;
}

DeviceAccount::~DeviceAccount() {
  if (file_.empty() || --membership().users > 0) return;
  const UniqueFd lock = lock_folder(file_.parent_path());
  Account& account = joined();
  account.leave();
  // Processes that the command left running find their limit in the file, perhaps at a first call still to
  // come. The next command removes the file when no process needs it.
  if (account.members() == 0 && (!name_.empty() || !is_used_by_process(file_.string())))
    ::unlink(file_.c_str());
  account.close();
}

InheritedLimit inherited_limit() {
  constexpr std::string_view kDevice = "device";
  InheritedLimit inherited;
  const char* settings = std::getenv("HEADROOM_TRACE_OPTIONS");
  for (const std::string_view setting : split(settings != nullptr ? settings : "", ',')) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = setting.substr(0, equals), value = setting.substr(equals + 1);
    if ((key == "account" || key == "within") && !value.empty()) inherited.accounts.emplace_back(value);
    const auto bytes = parse_number<std::uint64_t>(value);
    if (!key.starts_with(kDevice) || !bytes) continue;
    const auto device = parse_number<unsigned>(key.substr(kDevice.size()));
    if (key == kDevice)
      std::fill(std::begin(inherited.limits.bytes), std::end(inherited.limits.bytes), *bytes);
    else if (device && *device < ledger::kMaxDevices)
      inherited.limits.bytes[*device] = *bytes;
  }
  return inherited;
}

ledger::Limits smaller_of(const ledger::Limits& a, const ledger::Limits& b) {
  ledger::Limits smaller;
  for (unsigned device = 0; device < ledger::kMaxDevices; ++device)
    smaller.bytes[device] = std::min(a.bytes[device], b.bytes[device]);
  return smaller;
}

}  // namespace headroom::trace
