#include "bench/step_partner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

#include "base/json.h"
#include "base/plain_name.h"

namespace headroom::bench {
namespace {

constexpr int kStepProtocol = 1;
constexpr std::size_t kLargestHello = 64 << 10;  // names of models
constexpr Nanoseconds kTryAgain{20'000'000};

struct Address {
  sockaddr_un address{};
  socklen_t size = 0;
};

// Abstract: a zero byte before the name, and no file.
Address address_of(const std::string& name) {
  Address found;
  found.address.sun_family = AF_UNIX;
  const std::string path = fmt::format("headroom-in-step-{}-{}", ::getuid(), name);
  std::memcpy(found.address.sun_path + 1, path.data(), path.size());
  found.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + path.size());
  return found;
}

bool is_own_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::getuid();
}

enum class Awaited { ready, interrupted, late };

// Until the descriptor can be read, the deadline at the latest (none: 0).
Awaited await(int fd, Interrupt& interrupt, Nanoseconds deadline) {
  for (;;) {
    if (interrupt.signal_number() != 0) return Awaited::interrupted;
    const Nanoseconds left = deadline - monotonic_now();
    if (deadline > Nanoseconds{} && left <= Nanoseconds{}) return Awaited::late;
    std::array<pollfd, 2> ends{pollfd{fd, POLLIN, 0}, pollfd{interrupt.fd(), POLLIN, 0}};
    const int wait_ms = deadline > Nanoseconds{} ? static_cast<int>(left.count / 1'000'000 + 1) : -1;
    if (::poll(ends.data(), ends.size(), wait_ms) < 0 && errno != EINTR) return Awaited::late;
    if (ends[1].revents != 0 && interrupt.requested()) return Awaited::interrupted;
    if (ends[0].revents != 0) return Awaited::ready;
  }
}

tl::unexpected<Error> stopped() { return failure("the wait for the other run was stopped", "interrupted"); }

tl::unexpected<Error> nobody_came(const std::string& name, Nanoseconds timeout) {
  return usage_error(
      fmt::format("--in-step {}: no other run of that name came within {}", name, format_duration(timeout)),
      "", "start two runs of 'headroom bench --in-step NAME' at once, or raise --timeout");
}

// A connection to who listens there, or who connects to us.
struct Meeting {
  UniqueFd fd;
  bool first = false;
};

Result<Meeting> accept_partner(UniqueFd listener, const std::string& name, Nanoseconds timeout,
                               Nanoseconds deadline, Interrupt& interrupt) {
  if (::listen(listener.get(), 1) != 0)
    return internal_error("cannot wait for the other run", errno_text(errno));
  for (;;) {
    const Awaited awaited = await(listener.get(), interrupt, deadline);
    if (awaited == Awaited::interrupted) return stopped();
    if (awaited == Awaited::late) return nobody_came(name, timeout);
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // Whoever waits behind this one is not met, which it sees by the end of its connection.
    if (fd && is_own_user(fd.get()) && ::send(fd.get(), "m", 1, MSG_NOSIGNAL) == 1)
      return Meeting{std::move(fd), true};
  }
}

}  // namespace

Status check_step_name(const std::string& name) {
  if (is_plain_name(name)) return {};
  return usage_error(fmt::format("--in-step {} is no name for two runs", name), "",
                     fmt::format("take up to {} letters, digits, '.', '_' and '-'", kLongestPlainName));
}

Result<StepPartner> StepPartner::meet(const std::string& name, Nanoseconds timeout, Interrupt& interrupt) {
  const Nanoseconds deadline = monotonic_now() + timeout;
  const Address place = address_of(name);
  const auto* address = reinterpret_cast<const sockaddr*>(&place.address);
  // Whoever comes first listens; the other connects. Between two tries the listener may have found another
  // partner, and be gone.
  for (;;) {
    // Not blocking: where others wait already a connection would wait, too, deaf to signals.
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return internal_error("cannot wait for the other run", errno_text(errno));
    if (::bind(fd.get(), address, place.size) == 0) {
      auto met = accept_partner(std::move(fd), name, timeout, deadline, interrupt);
      if (!met) return forward_error(met);
      return StepPartner(std::move(met->fd), true, name);
    }
    if (errno != EADDRINUSE) return internal_error("cannot wait for the other run", errno_text(errno));
    if (::connect(fd.get(), address, place.size) == 0 && is_own_user(fd.get())) {
      const Awaited awaited = await(fd.get(), interrupt, deadline);
      if (awaited == Awaited::interrupted) return stopped();
      char met = 0;
      if (awaited == Awaited::ready && ::recv(fd.get(), &met, 1, 0) == 1) {
        ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
        return StepPartner(std::move(fd), false, name);
      }
    }
    if (interrupt.requested()) return stopped();
    if (monotonic_now() >= deadline) return nobody_came(name, timeout);
    ::usleep(static_cast<useconds_t>(kTryAgain.count / 1000));
  }
}

Status StepPartner::agree(const std::vector<std::string>& models, Interrupt& interrupt) {
  Json own;
  own["protocol"] = kStepProtocol;
  own["models"] = models;
  if (first_) {
    std::random_device random;
    id_ = fmt::format("{:08x}{:08x}", random(), random());
    own["id"] = id_;
  }
  const std::string line = to_line(own);
  const auto measured_alone = [this] {
    why_alone_ = fmt::format("the other run of --in-step {} ended before anything was measured", name_);
    return Status{};
  };
  if (::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
    return measured_alone();
  if (await(fd_.get(), interrupt, {}) != Awaited::ready) return stopped();
  std::string text(kLargestHello, '\0');
  const ssize_t got = ::recv(fd_.get(), text.data(), text.size(), 0);
  if (got <= 0) return measured_alone();
  text.resize(static_cast<std::size_t>(got));
  const auto theirs = parse_json(text, "what the other run says");
  if (!theirs || get_integer(*theirs, "protocol") != kStepProtocol)
    return input_error(fmt::format("the other run of --in-step {} is of another Headroom", name_),
                       "it takes turns in another way", "use the same version for both");
  if (!first_) id_ = get_text(*theirs, "id");
  std::vector<std::string> others;
  for (const Json& model : get_member(*theirs, "models"))
    if (model.is_string()) others.push_back(model.get<std::string>());
  const auto common_of = [](const std::vector<std::string>& from, const std::vector<std::string>& with) {
    std::vector<std::string> common;
    for (const std::string& name : from)
      if (std::find(with.begin(), with.end(), name) != with.end()) common.push_back(name);
    return common;
  };
  common_ = models.size() == 1 && others.size() == 1 ? models : common_of(models, others);
  if (common_.empty())
    why_alone_ = fmt::format("the two runs of --in-step {} have no model in common that works", name_);
  if (models.size() > 1 && common_ != common_of(others, models))
    return input_error(fmt::format("the two runs of --in-step {} have their models in another order", name_),
                       "", "give them in the same order");
  return {};
}

std::optional<std::size_t> StepPartner::place_of(const std::string& model) const {
  const auto found = std::find(common_.begin(), common_.end(), model);
  if (found == common_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - common_.begin());
}

std::string StepPartner::id_of(const std::string& model) const {
  return fmt::format("{}-{}", id_, place_of(model).value_or(0));
}

namespace {

// What the first says of a pair: which of the common models it is for.
using Place = std::uint32_t;

// A descriptor beside the place.
class PairMessage {
 public:
  explicit PairMessage(Place place) : place_(place) {
    message_.msg_iov = &data_;
    message_.msg_iovlen = 1;
    message_.msg_control = room_.data();
    message_.msg_controllen = room_.size();
  }
  PairMessage(const PairMessage&) = delete;
  PairMessage& operator=(const PairMessage&) = delete;

  bool send(int to, int fd) {
    cmsghdr* control = CMSG_FIRSTHDR(&message_);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
    return ::sendmsg(to, &message_, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof place_);
  }
  // Absent at the end of the connection, and of anything else than such a message.
  std::optional<UniqueFd> receive(int from) {
    if (::recvmsg(from, &message_, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof place_))
      return std::nullopt;
    const cmsghdr* control = CMSG_FIRSTHDR(&message_);
    int fd = -1;
    if (control == nullptr || control->cmsg_type != SCM_RIGHTS || control->cmsg_len != CMSG_LEN(sizeof fd))
      return std::nullopt;
    std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return UniqueFd(fd);
  }
  Place place() const { return place_; }

 private:
  Place place_;
  iovec data_{&place_, sizeof place_};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room_{};
  msghdr message_{};
};

}  // namespace

std::optional<UniqueFd> StepPartner::begin_model(const std::string& model, Interrupt& interrupt) {
  const auto place = place_of(model);
  if (!place) return std::nullopt;
  if (first_) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    UniqueFd own(ends[0]);
    const UniqueFd theirs(ends[1]);
    if (!PairMessage(static_cast<Place>(*place)).send(fd_.get(), theirs.get())) return std::nullopt;
    return own;
  }
  // A model that could not be begun on one side is passed over on the other: a pair of an earlier one is
  // dropped, one of a later one is kept for it.
  while (!next_ || next_->first < *place) {
    next_.reset();
    if (await(fd_.get(), interrupt, {}) != Awaited::ready) return std::nullopt;
    PairMessage message(0);
    auto fd = message.receive(fd_.get());
    if (!fd) return std::nullopt;
    next_.emplace(message.place(), std::move(*fd));
  }
  if (next_->first > *place) return std::nullopt;
  UniqueFd own = std::move(next_->second);
  next_.reset();
  return own;
}

}  // namespace headroom::bench
