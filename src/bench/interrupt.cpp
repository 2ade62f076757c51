#include "bench/interrupt.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

namespace headroom::bench {

Result<Interrupt> Interrupt::listen() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    // A signal that the shell or nohup set to be ignored stays ignored. Blocking it would deliver it to the
    // descriptor.
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    sigaddset(&signals, number);
  }
  if (::sigprocmask(SIG_BLOCK, &signals, nullptr) != 0)
    return internal_error("cannot block signals", errno_text(errno));
  ::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return internal_error("cannot listen for signals", errno_text(errno));
  return Interrupt(std::move(fd));
}

bool Interrupt::requested() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info))
    signal_ = static_cast<int>(info.ssi_signo);
  return signal_ != 0;
}

}  // namespace headroom::bench
