// A process that ends or continues in the way that its first argument selects. It allocates and frees blocks
// of distinct sizes: 77701 bytes before, 77702 after.
#include <link.h>
#include <setjmp.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

void* volatile kept;

void allocate(std::size_t size, int times) {
  for (int i = 0; i < times; ++i) {
    void* volatile pointer = std::malloc(size);
    std::free(pointer);
  }
}

jmp_buf back;
volatile int* volatile unreadable = nullptr;
void on_fault(int) { siglongjmp(back, 1); }

// A crash inside a signal handler that the program survives.
void fault_and_recover() {
  struct sigaction action {};
  action.sa_handler = on_fault;
  sigaction(SIGSEGV, &action, nullptr);
  for (int i = 0; i < 10; ++i) {
    if (sigsetjmp(back, 1) == 0) {
      kept = std::malloc(77703);
      *unreadable = 1;
    }
    std::free(kept);
  }
}

void allocate_in_handler(int) { allocate(77704, 1); }

int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A child that allocates and ends.
pid_t fork_child() {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // kills a child that hangs
    allocate(77705, 5);
    _exit(0);
  }
  return child;
}

int run(const std::string& mode, char** argv) {
  if (mode == "exit") std::exit(7);
  if (mode == "_exit") _exit(7);
  if (mode == "_Exit") std::_Exit(7);
  if (mode == "quick_exit") std::quick_exit(7);
  if (mode == "abort") std::abort();
  if (mode == "kill") raise(SIGKILL);
  if (mode == "fault") fault_and_recover();
  if (mode == "handler") {
    std::signal(SIGUSR1, allocate_in_handler);
    for (int i = 0; i < 10; ++i) raise(SIGUSR1);
  }
  if (mode == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      allocate(77705, 5);
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        allocate(77706, 6);
        std::_Exit(0);
      }
      _exit(wait_for(grandchild));
    }
    return wait_for(child);
  }
  if (mode == "clone") {  // a child process that no library is notified of
    allocate(77705, 5);
    const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
    if (child == 0) {
      allocate(77706, 600);
      _exit(0);
    }
    return wait_for(child);
  }
  if (mode == "fork-cleared") {
    clearenv();
    return wait_for(fork_child());
  }
  if (mode == "fork-loading") {  // while a thread holds the loader's lock most of the time
    volatile bool stop = false;
    std::thread other([&stop] {
      while (!stop) dl_iterate_phdr([](dl_phdr_info*, std::size_t, void*) { return 0; }, nullptr);
    });
    for (int i = 0; i < 50; ++i)
      if (wait_for(fork_child()) != 0) _exit(1);
    stop = true;
    other.join();
  }
  if (mode == "fork-many") {  // while other threads allocate
    std::thread others[2];
    volatile bool stop = false;
    for (auto& other : others)
      other = std::thread([&stop] {
        while (!stop) allocate(5000, 10);
      });
    int worst = 0;
    for (int i = 0; i < 50; ++i) worst = std::max(worst, wait_for(fork_child()));
    stop = true;
    for (auto& other : others) other.join();
    return worst;
  }
  if (mode == "exec" || mode == "exec-by-syscall") {  // the second bypasses the hooks
    char last[] = "exit";
    char* arguments[] = {argv[0], last, nullptr};
    if (mode == "exec") execv("/proc/self/exe", arguments);
    syscall(SYS_execve, "/proc/self/exe", arguments, environ);
    return 1;
  }
  if (mode.rfind("exec-untraced-", 0) == 0) {  // all forms of exec of a program that is not traced
    char first[] = "test", second[] = "abc", third[] = "=", fourth[] = "abc";
    char* arguments[] = {first, second, third, fourth, nullptr};
    char* const nothing[] = {nullptr};
    const std::string way = mode.substr(14);
    if (way == "execle") execle("/usr/bin/test", first, second, third, fourth, nullptr, nothing);
    if (way == "execve") execve("/usr/bin/test", arguments, nothing);
    clearenv();
    if (way == "execl") execl("/usr/bin/test", first, second, third, fourth, nullptr);
    if (way == "execlp") execlp("test", first, second, third, fourth, nullptr);
    if (way == "execv") execv("/usr/bin/test", arguments);
    if (way == "execvp") execvp("test", arguments);
    if (way == "fails") {
      execl("/nonexistent", first, second, nullptr);
      allocate(77707, 1);
      raise(SIGKILL);
    }
    return 9;
  }
  if (mode == "break") {
    kept = sbrk(3'000'000);
    kept = sbrk(0);
    if (brk(static_cast<char*>(kept) + 1'000'000) != 0) return 1;
    kept = sbrk(-2'000'000);
  }
  if (mode == "vfork") {
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/true", "true", nullptr);
      _exit(9);
    }
    return wait_for(child);
  }
  if (mode == "spawn") {
    char name[] = "true";
    char* arguments[] = {name, nullptr};
    pid_t child = 0;
    if (posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) != 0) return 1;
    return wait_for(child);
  }
  if (mode == "close-all") {  // as daemons do; then a file of the program reuses the descriptors
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    std::FILE* file = std::fopen(argv[2], "w");
    for (int fd = 3; fd < 1024; ++fd) dup2(fileno(file), fd);
    for (int i = 0; i < 300'000; ++i) allocate(64, 1);  // enough to need more segments
    std::fputs("mine alone\n", file);
    std::fclose(file);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  allocate(77701, 3);
  const int status = argc > 1 ? run(argv[1], argv) : 0;
  allocate(77702, 4);
  return status;
}
