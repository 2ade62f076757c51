#include "bench/conductor/step_partner.h"

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
#include "base/text.h"

namespace headroom::bench {
namespace {

constexpr int kStepProtocol = 1;
constexpr std::size_t kLargestHello = 64 << 10;  // holds the names of the models
constexpr Nanoseconds kRetryInterval{20'000'000};

struct Address {
  sockaddr_un address{};
  socklen_t size = 0;
};

// An abstract address starts with a zero byte and has no file.
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

enum class WaitResult { ready, interrupted, late };

// Waits until the descriptor is readable, at most until the deadline (0: no deadline).
WaitResult await(int fd, Interrupt& interrupt, Nanoseconds deadline) {
  for (;;) {
    if (interrupt.signal_number() != 0) return WaitResult::interrupted;
    const Nanoseconds left = deadline - monotonic_now();
    if (deadline > Nanoseconds{} && left <= Nanoseconds{}) return WaitResult::late;
    std::array<pollfd, 2> ends{pollfd{fd, POLLIN, 0}, pollfd{interrupt.fd(), POLLIN, 0}};
    const int wait_ms = deadline > Nanoseconds{} ? static_cast<int>(left.count / 1'000'000 + 1) : -1;
    if (::poll(ends.data(), ends.size(), wait_ms) < 0 && errno != EINTR) return WaitResult::late;
    if (ends[1].revents != 0 && interrupt.requested()) return WaitResult::interrupted;
    if (ends[0].revents != 0) return WaitResult::ready;
  }
}

tl::unexpected<Error> interrupted_error() {
  return failure("the wait for the other run was stopped", "interrupted");
}

tl::unexpected<Error> no_partner_error(const std::string& name, Nanoseconds timeout) {
  return usage_error(fmt::format("--in-step {}: no other run with that name started within {}", name,
                                 format_duration(timeout)),
                     "", "start two runs of 'headroom bench --in-step NAME' at once, or raise --timeout");
}

// A connection to the other run. `first`: this run listened.
struct Meeting {
  UniqueFd fd;
  bool first = false;
};

Result<Meeting> accept_partner(UniqueFd listener, const std::string& name, Nanoseconds timeout,
                               Nanoseconds deadline, Interrupt& interrupt) {
  if (::listen(listener.get(), 1) != 0)
    return internal_error("cannot wait for the other run", errno_text(errno));
  for (;;) {
    const WaitResult awaited = await(listener.get(), interrupt, deadline);
    if (awaited == WaitResult::interrupted) return interrupted_error();
    if (awaited == WaitResult::late) return no_partner_error(name, timeout);
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    // Any other run in the queue is not accepted; it sees its connection close.
    if (fd && is_own_user(fd.get()) && ::send(fd.get(), "m", 1, MSG_NOSIGNAL) == 1)
      return Meeting{std::move(fd), true};
  }
}

}  // namespace

Status check_step_name(const std::string& name) {
  if (is_plain_name(name)) return {};
  return usage_error(fmt::format("invalid name '{}' for --in-step", name), "",
                     fmt::format("use up to {} letters, digits, '.', '_' and '-'", kLongestPlainName));
}

Result<StepPartner> StepPartner::meet(const std::string& name, Nanoseconds timeout, Interrupt& interrupt) {
  const Nanoseconds deadline = monotonic_now() + timeout;
  const Address place = address_of(name);
  const auto* address = reinterpret_cast<const sockaddr*>(&place.address);
  // The first run listens, the second connects. Between two attempts, the listener may have found another
  // partner and closed its socket.
  for (;;) {
    // Non-blocking: with a full queue, connect() would block and ignore signals.
    UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return internal_error("cannot wait for the other run", errno_text(errno));
    if (::bind(fd.get(), address, place.size) == 0) {
      auto met = accept_partner(std::move(fd), name, timeout, deadline, interrupt);
      if (!met) return forward_error(met);
      return StepPartner(std::move(met->fd), true, name);
    }
    if (errno != EADDRINUSE) return internal_error("cannot wait for the other run", errno_text(errno));
    if (::connect(fd.get(), address, place.size) == 0 && is_own_user(fd.get())) {
      const WaitResult awaited = await(fd.get(), interrupt, deadline);
      if (awaited == WaitResult::interrupted) return interrupted_error();
      char met = 0;
      if (awaited == WaitResult::ready && ::recv(fd.get(), &met, 1, 0) == 1) {
        ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
        return StepPartner(std::move(fd), false, name);
      }
    }
    if (interrupt.requested()) return interrupted_error();
    if (monotonic_now() >= deadline) return no_partner_error(name, timeout);
    ::usleep(static_cast<useconds_t>(kRetryInterval.count / 1000));
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
  if (await(fd_.get(), interrupt, {}) != WaitResult::ready) return interrupted_error();
  std::string text(kLargestHello, '\0');
  const ssize_t got = ::recv(fd_.get(), text.data(), text.size(), 0);
  if (got <= 0) return measured_alone();
  text.resize(static_cast<std::size_t>(got));
  const auto theirs = parse_json(text, "the other run's message");
  if (!theirs || get_integer(*theirs, "protocol") != kStepProtocol)
    return input_error(fmt::format("the other run of --in-step {} is another version of Headroom", name_),
                       "the two versions cannot take turns", "use the same version for both runs");
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
    why_alone_ = fmt::format("the two runs of --in-step {} have no working model in common", name_);
  if (models.size() > 1 && common_ != common_of(others, models))
    return input_error(
        fmt::format("the two runs of --in-step {} have their models in different order", name_), "",
        "use the same order of --model in both runs");
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

// The first run's message about a socket pair: the index of the common model.
using Place = std::uint32_t;

// A message with the index, and room for a descriptor.
struct PairMessage {
  Place place = 0;
  iovec data{&place, sizeof place};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{nullptr, 0, &data, 1, control.data(), control.size(), 0};
};

bool send_pair(int to, Place place, int fd) {
  PairMessage message{place};
  cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  return ::sendmsg(to, &message.header, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof place);
}

// Absent at the end of the connection, and for any other message.
std::optional<std::pair<Place, UniqueFd>> receive_pair(int from) {
  PairMessage message;
  if (::recvmsg(from, &message.header, MSG_CMSG_CLOEXEC) != static_cast<ssize_t>(sizeof message.place))
    return std::nullopt;
  const cmsghdr* control = CMSG_FIRSTHDR(&message.header);
  int fd = -1;
  if (control == nullptr || control->cmsg_type != SCM_RIGHTS || control->cmsg_len != CMSG_LEN(sizeof fd))
    return std::nullopt;
  std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return std::pair{message.place, UniqueFd(fd)};
}

}  // namespace

std::optional<UniqueFd> StepPartner::begin_model(const std::string& model, Interrupt& interrupt) {
  const auto place = place_of(model);
  if (!place) return std::nullopt;
  if (first_) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
    UniqueFd own(ends[0]);
    const UniqueFd theirs(ends[1]);
    if (!send_pair(fd_.get(), static_cast<Place>(*place), theirs.get())) return std::nullopt;
    return own;
  }
  // If one side cannot start a model, the other side skips it, too. So a pair for an earlier model is
  // dropped, and a pair for a later model is kept.
  while (!next_ || next_->first < *place) {
    next_.reset();
    if (await(fd_.get(), interrupt, {}) != WaitResult::ready) return std::nullopt;
    next_ = receive_pair(fd_.get());
    if (!next_) return std::nullopt;
  }
  if (next_->first > *place) return std::nullopt;
  UniqueFd own = std::move(next_->second);
  next_.reset();
  return own;
}

}  // namespace headroom::bench
