#include "inference/preprocessor.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include <cstring>

namespace headroom::inference {
namespace {

std::int16_t across(const std::uint8_t* left, int neighbour, const std::int16_t* weights) {
  return static_cast<std::int16_t>((left[0] * weights[0] + left[neighbour] * weights[1]) >> 4);
}

int level(int top, int bottom, int top_weight, int bottom_weight) {
  return (((top_weight * top) >> 16) + ((bottom_weight * bottom) >> 16) + 2) >> 2;
}

// The portable loops, starting at output pixel `first`. The vector versions use them for the end of a row.
void finish_planes(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out,
                   std::ptrdiff_t plane) {
  for (int x = first; x < taps.width; ++x) {
    const std::uint8_t* left = row + taps.offset[static_cast<std::size_t>(x)];
    const std::int16_t* weights = taps.weights.data() + std::ptrdiff_t{2} * x;
    for (int c = 0; c < 3; ++c) out[c * plane + x] = across(left + c, taps.neighbour, weights);
  }
}

void finish_pixels(const std::uint8_t* row, const ColumnTaps& taps, int first, std::int16_t* out, int pitch,
                   bool swap) {
  for (int x = first; x < taps.width; ++x) {
    const std::uint8_t* left = row + taps.offset[static_cast<std::size_t>(x)];
    const std::int16_t* weights = taps.weights.data() + std::ptrdiff_t{2} * x;
    std::int16_t* pixel = out + std::ptrdiff_t{x} * pitch;
    for (int c = 0; c < 3; ++c) pixel[swap ? 2 - c : c] = across(left + c, taps.neighbour, weights);
    if (pitch == 4) pixel[3] = 0;
  }
}

void columns_to_planes(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                       std::ptrdiff_t plane) {
  finish_planes(row, taps, 0, out, plane);
}

void columns_to_pixels(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out, int pitch,
                       bool swap) {
  finish_pixels(row, taps, 0, out, pitch, swap);
}

void blend_to_levels(const std::int16_t* top, const std::int16_t* bottom, int top_weight, int bottom_weight,
                     std::uint8_t* out, int n) {
  for (int i = 0; i < n; ++i)
    out[i] = static_cast<std::uint8_t>(level(top[i], bottom[i], top_weight, bottom_weight));
}

void blend_to_float(const std::int16_t* top, const std::int16_t* bottom, int top_weight, int bottom_weight,
                    float mean, float scale, float* out, int n) {
  for (int i = 0; i < n; ++i)
    out[i] = (static_cast<float>(level(top[i], bottom[i], top_weight, bottom_weight)) - mean) * scale;
}

constexpr RowKernels kPortable{"portable", columns_to_planes, columns_to_pixels, blend_to_levels,
                               blend_to_float};

#if defined(__x86_64__)

// SSE4.1 and AVX2 kernels. They are chosen at run time, so the program runs on any x86-64 machine.
//
// A pixel and its right neighbour are six bytes, B0 G0 R0 B1 G1 R1, which one eight-byte load fetches. A
// byte shuffle makes 16-bit pairs (B0,B1) (G0,G1) (R0,R1). One multiply-add (pmaddwd) with the pair of
// weights then completes the horizontal step.

#define HEADROOM_SSE41 __attribute__((target("sse4.1,ssse3")))
#define HEADROOM_AVX2 __attribute__((target("avx2")))

HEADROOM_SSE41 inline __m128i load8(const std::uint8_t* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}
// The eight bytes of two output pixels.
HEADROOM_SSE41 inline __m128i load_two(const std::uint8_t* row, const std::int32_t* offset) {
  return _mm_unpacklo_epi64(load8(row + offset[0]), load8(row + offset[1]));
}
HEADROOM_SSE41 inline void store(void* to, __m128i value) {
  _mm_storeu_si128(static_cast<__m128i*>(to), value);
}
HEADROOM_SSE41 inline void store8(void* to, __m128i value) {
  _mm_storel_epi64(static_cast<__m128i*>(to), value);
}
HEADROOM_SSE41 inline __m128i load(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}
HEADROOM_SSE41 inline __m128i
blue_green_pairs() {  // two pixels: blue in the low half, green in the high half
  return _mm_setr_epi8(0, -1, 3, -1, 8, -1, 11, -1, 1, -1, 4, -1, 9, -1, 12, -1);
}
HEADROOM_SSE41 inline __m128i red_pairs() {
  return _mm_setr_epi8(2, -1, 5, -1, 10, -1, 13, -1, -1, -1, -1, -1, -1, -1, -1, -1);
}
HEADROOM_SSE41 inline __m128i pixel_pairs(bool swap) {  // one pixel: three channels and a zero
  return swap ? _mm_setr_epi8(2, -1, 5, -1, 1, -1, 4, -1, 0, -1, 3, -1, -1, -1, -1, -1)
              : _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
}

HEADROOM_SSE41 void planes_sse41(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                                 std::ptrdiff_t plane) {
  const __m128i blue_green = blue_green_pairs();
  const __m128i red = red_pairs();
  int x = 0;
  for (; x + 4 <= taps.wide; x += 4) {
    const std::int32_t* offset = taps.offset.data() + x;
    const __m128i first = load_two(row, offset);
    const __m128i second = load_two(row, offset + 2);
    const __m128i weights = load(taps.weights.data() + std::ptrdiff_t{2} * x);
    const __m128i bg_first = _mm_shuffle_epi8(first, blue_green);
    const __m128i bg_second = _mm_shuffle_epi8(second, blue_green);
    const __m128i r_pairs = _mm_unpacklo_epi64(_mm_shuffle_epi8(first, red), _mm_shuffle_epi8(second, red));
    const __m128i b = _mm_srli_epi32(_mm_madd_epi16(_mm_unpacklo_epi64(bg_first, bg_second), weights), 4);
    const __m128i g = _mm_srli_epi32(_mm_madd_epi16(_mm_unpackhi_epi64(bg_first, bg_second), weights), 4);
    const __m128i r = _mm_srli_epi32(_mm_madd_epi16(r_pairs, weights), 4);
    const __m128i bg = _mm_packs_epi32(b, g);
    store8(out + x, bg);
    store8(out + plane + x, _mm_unpackhi_epi64(bg, bg));
    store8(out + 2 * plane + x, _mm_packs_epi32(r, r));
  }
  finish_planes(row, taps, x, out, plane);
}

HEADROOM_SSE41 void pixels_sse41(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                                 int pitch, bool swap) {
  const __m128i pairs = pixel_pairs(swap);
  int x = 0;
  for (; x < taps.wide; ++x) {
    std::int32_t weight_pair;
    std::memcpy(&weight_pair, taps.weights.data() + std::ptrdiff_t{2} * x, sizeof weight_pair);
    const __m128i bytes = load8(row + taps.offset[static_cast<std::size_t>(x)]);
    const __m128i sums = _mm_madd_epi16(_mm_shuffle_epi8(bytes, pairs), _mm_set1_epi32(weight_pair));
    const __m128i levels = _mm_srli_epi32(sums, 4);
    store8(out + std::ptrdiff_t{x} * pitch, _mm_packs_epi32(levels, levels));
  }
  finish_pixels(row, taps, x, out, pitch, swap);
}

HEADROOM_SSE41 inline __m128i blend8(const std::int16_t* top, const std::int16_t* bottom, __m128i top_weight,
                                     __m128i bottom_weight) {
  const __m128i sum =
      _mm_add_epi16(_mm_mulhi_epi16(load(top), top_weight), _mm_mulhi_epi16(load(bottom), bottom_weight));
  return _mm_srli_epi16(_mm_add_epi16(sum, _mm_set1_epi16(2)), 2);
}

HEADROOM_SSE41 void levels_sse41(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                                 int bottom_weight, std::uint8_t* out, int n) {
  const __m128i w0 = _mm_set1_epi16(static_cast<short>(top_weight));
  const __m128i w1 = _mm_set1_epi16(static_cast<short>(bottom_weight));
  int i = 0;
  for (; i + 16 <= n; i += 16)
    store(out + i,
          _mm_packus_epi16(blend8(top + i, bottom + i, w0, w1), blend8(top + i + 8, bottom + i + 8, w0, w1)));
  blend_to_levels(top + i, bottom + i, top_weight, bottom_weight, out + i, n - i);
}

HEADROOM_SSE41 void float_sse41(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                                int bottom_weight, float mean, float scale, float* out, int n) {
  const __m128i w0 = _mm_set1_epi16(static_cast<short>(top_weight));
  const __m128i w1 = _mm_set1_epi16(static_cast<short>(bottom_weight));
  const __m128 m = _mm_set1_ps(mean);
  const __m128 s = _mm_set1_ps(scale);
  int i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i levels = blend8(top + i, bottom + i, w0, w1);
    const __m128 low = _mm_cvtepi32_ps(_mm_cvtepi16_epi32(levels));
    const __m128 high = _mm_cvtepi32_ps(_mm_cvtepi16_epi32(_mm_unpackhi_epi64(levels, levels)));
    _mm_storeu_ps(out + i, _mm_mul_ps(_mm_sub_ps(low, m), s));
    _mm_storeu_ps(out + i + 4, _mm_mul_ps(_mm_sub_ps(high, m), s));
  }
  blend_to_float(top + i, bottom + i, top_weight, bottom_weight, mean, scale, out + i, n - i);
}

HEADROOM_AVX2 inline __m256i two_pairs(const std::uint8_t* row, const std::int32_t* low,
                                       const std::int32_t* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load_two(row, low)), load_two(row, high), 1);
}

HEADROOM_AVX2 void planes_avx2(const std::uint8_t* row, const ColumnTaps& taps, std::int16_t* out,
                               std::ptrdiff_t plane) {
  const __m256i blue_green = _mm256_broadcastsi128_si256(blue_green_pairs());
  const __m256i red = _mm256_broadcastsi128_si256(red_pairs());
  int x = 0;
  for (; x + 8 <= taps.wide; x += 8) {
    // Pixels 0..3 go to the lower lane and 4..7 to the upper lane, so that the results come out in order.
    const std::int32_t* offset = taps.offset.data() + x;
    const __m256i first = two_pairs(row, offset, offset + 4);
    const __m256i second = two_pairs(row, offset + 2, offset + 6);
    const __m256i weights =
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(taps.weights.data() + std::ptrdiff_t{2} * x));
    const __m256i bg_first = _mm256_shuffle_epi8(first, blue_green);
    const __m256i bg_second = _mm256_shuffle_epi8(second, blue_green);
    const __m256i r_pairs =
        _mm256_unpacklo_epi64(_mm256_shuffle_epi8(first, red), _mm256_shuffle_epi8(second, red));
    const __m256i b_pairs = _mm256_unpacklo_epi64(bg_first, bg_second);
    const __m256i g_pairs = _mm256_unpackhi_epi64(bg_first, bg_second);
    const __m256i b = _mm256_srli_epi32(_mm256_madd_epi16(b_pairs, weights), 4);
    const __m256i g = _mm256_srli_epi32(_mm256_madd_epi16(g_pairs, weights), 4);
    const __m256i r = _mm256_srli_epi32(_mm256_madd_epi16(r_pairs, weights), 4);
    const __m256i bg = _mm256_permute4x64_epi64(_mm256_packs_epi32(b, g), 0b11011000);
    const __m256i rr = _mm256_permute4x64_epi64(_mm256_packs_epi32(r, r), 0b11011000);
    store(out + x, _mm256_castsi256_si128(bg));
    store(out + plane + x, _mm256_extracti128_si256(bg, 1));
    store(out + 2 * plane + x, _mm256_castsi256_si128(rr));
  }
  finish_planes(row, taps, x, out, plane);
}

HEADROOM_AVX2 void float_avx2(const std::int16_t* top, const std::int16_t* bottom, int top_weight,
                              int bottom_weight, float mean, float scale, float* out, int n) {
  const __m256i w0 = _mm256_set1_epi16(static_cast<short>(top_weight));
  const __m256i w1 = _mm256_set1_epi16(static_cast<short>(bottom_weight));
  const __m256i two = _mm256_set1_epi16(2);
  const __m256 m = _mm256_set1_ps(mean);
  const __m256 s = _mm256_set1_ps(scale);
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i t = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(top + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bottom + i));
    const __m256i sum = _mm256_add_epi16(_mm256_mulhi_epi16(t, w0), _mm256_mulhi_epi16(b, w1));
    const __m256i levels = _mm256_srli_epi16(_mm256_add_epi16(sum, two), 2);
    const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(levels)));
    const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm256_extracti128_si256(levels, 1)));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_sub_ps(low, m), s));
    _mm256_storeu_ps(out + i + 8, _mm256_mul_ps(_mm256_sub_ps(high, m), s));
  }
  blend_to_float(top + i, bottom + i, top_weight, bottom_weight, mean, scale, out + i, n - i);
}

constexpr RowKernels kSse41{"sse4.1", planes_sse41, pixels_sse41, levels_sse41, float_sse41};
constexpr RowKernels kAvx2{"avx2", planes_avx2, pixels_sse41, levels_sse41, float_avx2};

#elif defined(__aarch64__)

// NEON kernels (aarch64, including Jetson). Only the horizontal step is written by hand: the compiler
// vectorises the portable vertical step well.

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

constexpr RowKernels kNeon{"neon", planes_neon, pixels_neon, blend_to_levels, blend_to_float};

#endif

}  // namespace

const std::vector<const RowKernels*>& available_kernels() {
  static const std::vector<const RowKernels*> kAvailable = [] {
    std::vector<const RowKernels*> found{&kPortable};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.1")) found.push_back(&kSse41);
    if (__builtin_cpu_supports("avx2")) found.push_back(&kAvx2);
#elif defined(__aarch64__)
    found.push_back(&kNeon);
#endif
    return found;
  }();
  return kAvailable;
}

}  // namespace headroom::inference
