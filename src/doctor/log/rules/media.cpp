// GStreamer, DeepStream and OpenCV.
#include "doctor/log/common_cures.h"
#include "doctor/log/rules.h"

namespace headroom::doctor {

LogRule gstreamer_rule() {
  return {
      .name = "gstreamer",
      // "Error in NvDsInferContextImpl::allocateBuffers() … Failed to allocate cuda output buffer during …"
      .wordings = {{.all = {"Failed to allocate cuda output buffer"}, .figures = {"told_by=DeepStream"}},
                   {.all = {"Failed to allocate cuda input buffer"}, .figures = {"told_by=DeepStream"}},
                   {.all = {"NvBufSurfaceAllocate failed"}, .figures = {"told_by=NvBufSurface"}},
                   {.all = {"NvBufSurfaceCreate failed"}, .figures = {"told_by=NvBufSurface"}},
                   {.all = {"nvbufsurface: Failed to allocate buffer"}, .figures = {"told_by=NvBufSurface"}},
                   {.all = {"Failed to allocate required memory"},
                    .any = {"element", "gst", "Gst", "GST"},
                    .figures = {"told_by=GStreamer"}}},
      .explanations = {
          {.id = "gstreamer-allocation-failed",
           .confidence = Confidence::possible,
           .title = "{told_by} could not allocate the buffers of a pipeline",
           .cause =
               "There is too little memory for frames of that size and number, or the driver cannot create "
               "such buffers. The message does not say which.",
           .cures = {kSeeHoldersAtStart,
                     {"use fewer buffers in the decoder", "nvv4l2decoder num-extra-surfaces=0"},
                     {"use a smaller batch and smaller frames",
                      "nvstreammux batch-size=1 width=1280 height=720"}}}}};
}

LogRule opencv_rule() {
  const std::vector<std::string_view> requested{"Failed to allocate {requested_bytes}"};
  return {
      .name = "opencv",
      // The GPU modules' words in OpenCV 3 and 4, and in 2.
      .wordings = {{.all = {"Gpu API call) out of memory"}, .figures = {"memory=GPU"}, .subject = "GPU"},
                   {.all = {"Gpu API call (out of memory)"}, .figures = {"memory=GPU"}, .subject = "GPU"},
                   {.all = {"-4:Insufficient memory"}, .figures = requested},
                   {.all = {"(Insufficient memory)"}, .figures = requested},
                   {.all = {"OpenCV Error: Insufficient memory"}, .figures = requested},
                   {.all = {"in function 'OutOfMemoryError'"}, .figures = requested}},
      .explanations = {
          {.when = "wrong_size",
           .id = "opencv-out-of-memory",
           .title = "OpenCV could not allocate {requested}",
           .cause =
               "No machine has so much memory. A size was not set, or is wrong. More memory would not help.",
           .cures = {{"check that the image is not empty", "if (image.empty()) …"},
                     {"check that OpenCV's headers and library have the same version",
                      "pkg-config --modversion opencv4"}}},
          {.when = "memory=GPU",
           .id = "opencv-out-of-memory",
           .title = "OpenCV's GPU module could not allocate GPU memory",
           .cause =
               "Each cv::cuda::GpuMat allocates its own memory, and the CUDA context needs some too. Other "
               "GPU programs, and on a Jetson the page cache, left too little.",
           .cures = {{"reuse matrices instead of allocating new ones",
                      "cv::cuda::setBufferPoolUsage(true); cv::cuda::setBufferPoolConfig(0, 64 << 20, 2);"},
                     kSeeHolders,
                     kDropPageCacheOnJetson}},
          {.id = "opencv-out-of-memory",
           .title = "OpenCV could not allocate {requested|some memory}",
           .cause = "An image or a batch of images was larger than the free memory.",
           // Half the width and half the height.
           .cures = {{"decode at half the size", "cv2.imread(path, cv2.IMREAD_REDUCED_COLOR_2)",
                      "requested_bytes/4*3"},
                     {"keep fewer frames at once", "cap.set(cv2.CAP_PROP_BUFFERSIZE, 2)"}}}}};
}

}  // namespace headroom::doctor
