// Functions of glibc newer than 2.27, for the portable build (cmake/HeadroomPortable.cmake). The linker's
// --wrap replaces each call of NAME by __wrap_NAME. The mathematical functions only got a new version in
// glibc 2.29, which does not set errno through a wrapper; the version before it computes the same.
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <time.h>

#ifdef __aarch64__
#define BASE_VERSION "GLIBC_2.17"
#else
#define BASE_VERSION "GLIBC_2.2.5"
#endif

#define OLD_FUNCTION(name) __asm__(".symver old_" #name "," #name "@" BASE_VERSION)

OLD_FUNCTION(exp);
OLD_FUNCTION(exp2);
OLD_FUNCTION(log);
OLD_FUNCTION(log2);
OLD_FUNCTION(pow);
OLD_FUNCTION(fcntl);
double old_exp(double);
double old_exp2(double);
double old_log(double);
double old_log2(double);
double old_pow(double, double);
int old_fcntl(int, int, ...);

double __wrap_exp(double x) { return old_exp(x); }
double __wrap_exp2(double x) { return old_exp2(x); }
double __wrap_log(double x) { return old_log(x); }
double __wrap_log2(double x) { return old_log2(x); }
double __wrap_pow(double x, double y) { return old_pow(x, y); }

// On 64-bit machines fcntl is the same function.
int __wrap_fcntl64(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return old_fcntl(fd, command, argument);
}

static long long nanoseconds_of(const struct timespec* time) {
  return time->tv_sec * 1000000000LL + time->tv_nsec;
}

// glibc 2.30. Waits on the real-time clock for as long as `deadline` is away on `clock`. If someone sets the
// clock meanwhile, the wait is shorter or longer by that; callers check their own clock and wait again.
int __wrap_pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* deadline) {
  struct timespec now, real;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &real);
  long long left = nanoseconds_of(deadline) - nanoseconds_of(&now);
  if (left < 0) left = 0;
  const long long end = nanoseconds_of(&real) + left;
  const struct timespec real_deadline = {.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
  return pthread_cond_timedwait(condition, mutex, &real_deadline);
}
