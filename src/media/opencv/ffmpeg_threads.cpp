// One thread for FFmpeg's decoders. With frame threads, its default, the frames after the one that was asked
// for are decoded in the background: the decoder's process would work while the worker measures, and the time
// of those frames would be in no `decode` figure.
//
// OpenCV has no way to say so before 4.7 (it gives avcodec_open2() as many threads as there are cores and no
// options). But this plug-in is loaded with a scope of its own, in which it comes before its libraries: this
// function is found in the place of libavcodec's by libopencv_videoio, which calls it, and by nobody else.
// Where OpenCV has its own copy of FFmpeg inside, it is not called, and nothing changes.
#include <dlfcn.h>

#include <cerrno>
#include <cstdint>

namespace {

using Open = int (*)(void*, const void*, void**);
using SetInteger = int (*)(void*, const char*, std::int64_t, int);

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): FFmpeg's name; its structs stay closed here, as in all
// versions
extern "C" __attribute__((visibility("default"))) int avcodec_open2(void* context, const void* codec,
                                                                    void** options) {
  static const auto open = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "avcodec_open2"));
  static const auto set = reinterpret_cast<SetInteger>(::dlsym(RTLD_NEXT, "av_opt_set_int"));
  if (open == nullptr) return -ENOSYS;  // FFmpeg's errors are negative errno values
  if (set != nullptr) set(context, "threads", 1, 0);
  return open(context, codec, options);
}
