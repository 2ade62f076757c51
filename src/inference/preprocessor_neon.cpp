// NEON kernels (aarch64, including Jetson). Only the horizontal step is written by hand: the compiler
// vectorises the portable vertical step well.
#include "inference/preprocessor_kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace headroom::inference {
namespace {

// One output pixel: blue, green, red · 128, and one unused lane.
inline int16x4_t across_neon(const std::uint8_t* left, const std::int16_t* weights) {
  const int16x8_t bytes = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(left)));
  const int16x4_t right = vget_low_s16(vextq_s16(bytes, bytes, 3));
  int32x4_t sum = vmull_n_s16(vget_low_s16(bytes), weights[0]);
  sum = vmlal_n_s16(sum, right, weights[1]);
  return vmovn_s32(vshrq_n_s32(sum, 4));
}

void planes_neon(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out, std::ptrdiff_t plane) {
  int x = 0;
  for (; x + 4 <= taps.wide; x += 4) {
    const std::int32_t* offset = taps.offset.data() + x;
    const std::int16_t* weights = taps.weights.data() + std::ptrdiff_t{2} * x;
    // 4×4 transposition: four pixels become four blues, four greens, four reds.
    const int16x4x2_t a =
        vtrn_s16(across_neon(row + offset[0], weights), across_neon(row + offset[1], weights + 2));
    const int16x4x2_t b =
        vtrn_s16(across_neon(row + offset[2], weights + 4), across_neon(row + offset[3], weights + 6));
    const int32x2x2_t even = vtrn_s32(vreinterpret_s32_s16(a.val[0]), vreinterpret_s32_s16(b.val[0]));
    const int32x2x2_t odd = vtrn_s32(vreinterpret_s32_s16(a.val[1]), vreinterpret_s32_s16(b.val[1]));
    vst1_s16(out + x, vreinterpret_s16_s32(even.val[0]));
    vst1_s16(out + plane + x, vreinterpret_s16_s32(odd.val[0]));
    vst1_s16(out + 2 * plane + x, vreinterpret_s16_s32(even.val[1]));
  }
  finish_planes(row, taps, x, out, plane);
}

void pixels_neon(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out, int pitch, bool swap) {
  const std::uint8_t none = 255;  // an index out of range, for which the table look-up returns 0
  const std::uint8_t swapped[8] = {4, 5, 2, 3, 0, 1, none, none};
  const std::uint8_t straight[8] = {0, 1, 2, 3, 4, 5, none, none};
  const uint8x8_t lanes = vld1_u8(swap ? swapped : straight);
  int x = 0;
  for (; x < taps.wide; ++x) {
    const int16x4_t pixel = across_neon(row + taps.offset[static_cast<std::size_t>(x)],
                                        taps.weights.data() + std::ptrdiff_t{2} * x);
    vst1_s16(out + std::ptrdiff_t{x} * pitch,
             vreinterpret_s16_u8(vtbl1_u8(vreinterpret_u8_s16(pixel), lanes)));
  }
  finish_pixels(row, taps, x, out, pitch, swap);
}

}  // namespace

const RowKernels* neon_kernels() {
  static const RowKernels kNeon{"neon", planes_neon, pixels_neon, portable_kernels().blend_to_levels,
                                portable_kernels().blend_to_float};
  return &kNeon;
}

}  // namespace headroom::inference

#else

namespace headroom::inference {
const RowKernels* neon_kernels() { return nullptr; }
}  // namespace headroom::inference

#endif
