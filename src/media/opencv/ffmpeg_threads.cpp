// Limits FFmpeg's decoders to one thread. By default FFmpeg uses frame threads, which decode the following
// frames in the background. Then the decoder's process would work while the worker measures, and the time
// of those frames would be in no `decode` figure.
//
// OpenCV before 4.7 has no option for this (it calls avcodec_open2() with as many threads as cores and no
// options). But this plug-in is loaded with its own symbol scope, in which it comes before its libraries.
// So libopencv_videoio calls this function instead of libavcodec's; no other code does. If OpenCV contains
// its own copy of FFmpeg, this function is not called, and nothing changes.
#include <dlfcn.h>

#include <cerrno>
#include <cstdint>

namespace {

using Open = int (*)(void*, const void*, void**);
using SetInteger = int (*)(void*, const char*, std::int64_t, int);

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): FFmpeg's name; its structs stay opaque here
extern "C" __attribute__((visibility("default"))) int avcodec_open2(void* context, const void* codec,
                                                                    void** options) {
  static const auto open = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "avcodec_open2"));
  static const auto set = reinterpret_cast<SetInteger>(::dlsym(RTLD_NEXT, "av_opt_set_int"));
  if (open == nullptr) return -ENOSYS;  // FFmpeg's errors are negative errno values
  if (set != nullptr) set(context, "threads", 1, 0);
  return open(context, codec, options);
}
