// HIP's half, bfloat16 and fp8 types for the host: the names and results of ROCm's headers.
//
// fp8 conversions follow the CDNA3 and CDNA4 ISA guides (FNUZ) and the OCP 8-bit specification:
// ties to even; saturation leaves infinities and NaN alone, as amd_hip_fp8.h does before it uses
// the hardware's instruction, which makes NaN of both (e5m2 OCP has an infinity).
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "diffuzz_half.h"

// ROCm defines one of these per architecture in device code.
#if defined(__gfx942__)
  #define HIP_FP8_TYPE_FNUZ 1
  #define HIP_FP8_TYPE_OCP 0
#else
  #define HIP_FP8_TYPE_FNUZ 0
  #define HIP_FP8_TYPE_OCP 1
#endif

inline float2 operator*(float2 a, float b) { return {a.x * b, a.y * b}; }
inline float2 operator/(float2 a, float b) { return {a.x / b, a.y / b}; }

namespace diffuzz {
// Stands for _Float16: arithmetic happens in float, assignment rounds.
struct Float16 {
  uint16_t bits;
  Float16() = default;
  Float16(float f) : bits(to_half(f)) {}
  operator float() const { return from_half(bits); }
  Float16& operator*=(float f) { return *this = Float16(float(*this) * f); }
  Float16& operator/=(float f) { return *this = Float16(float(*this) / f); }
};
}  // namespace diffuzz

// binary16
struct __half_raw {
  union {
    ::diffuzz::Float16 data;
    unsigned short x;
  };
};
struct __half2_raw {
  __half_raw x, y;
};
struct __half {
  unsigned short __x;
  __half() = default;
  __half(float f) : __x(::diffuzz::to_half(f)) {}
  __half(__half_raw r) : __x(r.x) {}
  operator float() const { return ::diffuzz::from_half(__x); }
  operator __half_raw() const {
    __half_raw r;
    r.x = __x;
    return r;
  }
};
struct __half2 {
  __half x, y;
  operator __half2_raw() const { return {x, y}; }
};
using half = __half;
using half2 = __half2;
inline float __half2float(__half h) { return h; }
inline __half __float2half(float f) { return f; }
inline __half __float2half_rn(float f) { return f; }
inline float2 __half22float2(__half2 h) { return {h.x, h.y}; }
inline __half2 __float22half2_rn(float2 f) { return {f.x, f.y}; }
inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
inline float __low2float(__half2 h) { return h.x; }
inline float __high2float(__half2 h) { return h.y; }
inline __half __hadd(__half a, __half b) { return float(a) + float(b); }
inline __half __hmul(__half a, __half b) { return float(a) * float(b); }

// bfloat16
struct __hip_bfloat16 {
  unsigned short __x;
  __hip_bfloat16() = default;
  __hip_bfloat16(float f) {
    uint32_t u;
    std::memcpy(&u, &f, sizeof(u));
    bool const nan = (u & 0x7fffffffu) > 0x7f800000u;
    __x = static_cast<unsigned short>(nan ? (u >> 16 | 0x40) : (u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  operator float() const {
    uint32_t const u = static_cast<uint32_t>(__x) << 16;
    float f;
    std::memcpy(&f, &u, sizeof(f));
    return f;
  }
};
struct __hip_bfloat162 {
  __hip_bfloat16 x, y;
};
using hip_bfloat16 = __hip_bfloat16;
inline float __bfloat162float(__hip_bfloat16 b) { return b; }
inline __hip_bfloat16 __float2bfloat16(float f) { return f; }
inline __hip_bfloat16 __float2bfloat16_rn(float f) { return f; }
inline __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  __hip_bfloat16 b;
  b.__x = bits;
  return b;
}
inline unsigned short __bfloat16_as_ushort(__hip_bfloat16 b) { return b.__x; }
inline float2 __bfloat1622float2(__hip_bfloat162 b) { return {b.x, b.y}; }
inline __hip_bfloat162 __float22bfloat162_rn(float2 f) { return {f.x, f.y}; }
inline __hip_bfloat162 __bfloat162bfloat162(__hip_bfloat16 b) { return {b, b}; }
inline __hip_bfloat16 __hadd(__hip_bfloat16 a, __hip_bfloat16 b) { return float(a) + float(b); }
inline __hip_bfloat16 __hmul(__hip_bfloat16 a, __hip_bfloat16 b) { return float(a) * float(b); }
inline __hip_bfloat16 __hfma(__hip_bfloat16 a, __hip_bfloat16 b, __hip_bfloat16 c) {
  return std::fmaf(a, b, c);
}
inline __hip_bfloat162 __hadd2(__hip_bfloat162 a, __hip_bfloat162 b) {
  return {__hadd(a.x, b.x), __hadd(a.y, b.y)};
}
inline __hip_bfloat162 __hmul2(__hip_bfloat162 a, __hip_bfloat162 b) {
  return {__hmul(a.x, b.x), __hmul(a.y, b.y)};
}
inline __hip_bfloat162 __hfma2(__hip_bfloat162 a, __hip_bfloat162 b, __hip_bfloat162 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}

// fp8
enum __hip_saturation_t { __HIP_NOSAT = 0, __HIP_SATFINITE = 1 };
enum __hip_fp8_interpretation_t {
  __HIP_E4M3 = 0,
  __HIP_E5M2 = 1,
  __HIP_E4M3_FNUZ = 2,
  __HIP_E5M2_FNUZ = 3
};
using __hip_fp8_storage_t = uint8_t;
using __hip_fp8x2_storage_t = uint16_t;

namespace diffuzz {
struct Fp8 {
  int mantissa_bits, bias, largest;  // the pattern of the largest finite magnitude
  bool fnuz, infinity;
};
inline Fp8 fp8_format(__hip_fp8_interpretation_t kind) {
  switch (kind) {
    case __HIP_E4M3: return {3, 7, 0x7e, false, false};
    case __HIP_E5M2: return {2, 15, 0x7b, false, true};
    case __HIP_E4M3_FNUZ: return {3, 8, 0x7f, true, false};
    default: return {2, 16, 0x7f, true, false};
  }
}
inline uint8_t to_fp8(float value, bool saturate, __hip_fp8_interpretation_t kind) {
  Fp8 const f = fp8_format(kind);
  int const sign = std::signbit(value) ? 0x80 : 0;
  int const nan = f.fnuz ? 0x80 : sign | 0x7f;
  if (std::isnan(value)) return static_cast<uint8_t>(nan);
  if (std::isinf(value)) return static_cast<uint8_t>(f.infinity ? sign | 0x7c : nan);
  if (value == 0) return static_cast<uint8_t>(f.fnuz ? 0 : sign);
  double const magnitude = std::fabs(static_cast<double>(value));
  int const lowest = 1 - f.bias;
  int exponent = std::ilogb(magnitude);
  if (exponent < lowest) exponent = lowest;
  // Scaling by a power of two is exact; nearbyint rounds ties to even. The rounded significand
  // may carry into the next exponent, whose pattern follows without a gap.
  long const significand =
      static_cast<long>(std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - exponent)));
  long const code = ((exponent - lowest) << f.mantissa_bits) + significand;
  if (code > f.largest) {
    if (saturate) return static_cast<uint8_t>(sign | f.largest);
    return static_cast<uint8_t>(f.infinity ? sign | 0x7c : nan);
  }
  if (code == 0 && f.fnuz) return 0;
  return static_cast<uint8_t>(sign | code);
}
inline float from_fp8(uint8_t code, __hip_fp8_interpretation_t kind) {
  Fp8 const f = fp8_format(kind);
  int const magnitude = code & 0x7f;
  float const sign = code & 0x80 ? -1.0f : 1.0f;
  if (f.fnuz ? code == 0x80 : magnitude > f.largest)
    return f.infinity && magnitude == f.largest + 1 ? sign * INFINITY : NAN;
  int const exponent = magnitude >> f.mantissa_bits;
  int const fraction = magnitude & ((1 << f.mantissa_bits) - 1);
  int const significand = exponent ? fraction + (1 << f.mantissa_bits) : fraction;
  return sign * std::ldexp(static_cast<float>(significand),
                           (exponent ? exponent : 1) - f.bias - f.mantissa_bits);
}
}  // namespace diffuzz

inline __hip_fp8_storage_t __hip_cvt_float_to_fp8(float f, __hip_saturation_t saturation,
                                                  __hip_fp8_interpretation_t kind) {
  return ::diffuzz::to_fp8(f, saturation == __HIP_SATFINITE, kind);
}
inline __hip_fp8x2_storage_t __hip_cvt_float2_to_fp8x2(float2 f, __hip_saturation_t saturation,
                                                       __hip_fp8_interpretation_t kind) {
  return static_cast<uint16_t>(__hip_cvt_float_to_fp8(f.x, saturation, kind) |
                               __hip_cvt_float_to_fp8(f.y, saturation, kind) << 8);
}
inline __hip_fp8_storage_t __hip_cvt_halfraw_to_fp8(__half_raw h, __hip_saturation_t saturation,
                                                    __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float_to_fp8(h.data, saturation, kind);
}
inline __hip_fp8x2_storage_t __hip_cvt_halfraw2_to_fp8x2(__half2_raw h,
                                                         __hip_saturation_t saturation,
                                                         __hip_fp8_interpretation_t kind) {
  return __hip_cvt_float2_to_fp8x2({h.x.data, h.y.data}, saturation, kind);
}
inline __half_raw __hip_cvt_fp8_to_halfraw(__hip_fp8_storage_t v,
                                           __hip_fp8_interpretation_t kind) {
  return __half(::diffuzz::from_fp8(v, kind));
}
inline __half2_raw __hip_cvt_fp8x2_to_halfraw2(__hip_fp8x2_storage_t v,
                                               __hip_fp8_interpretation_t kind) {
  return {__hip_cvt_fp8_to_halfraw(static_cast<uint8_t>(v), kind),
          __hip_cvt_fp8_to_halfraw(static_cast<uint8_t>(v >> 8), kind)};
}

#define DIFFUZZ_FP8(NAME, NAME_X2, KIND)                                                     \
  struct NAME {                                                                              \
    __hip_fp8_storage_t __x;                                                                 \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;              \
    static constexpr __hip_fp8_interpretation_t __default_interpret = KIND;                  \
    NAME() = default;                                                                        \
    NAME(float f) : __x(__hip_cvt_float_to_fp8(f, __default_saturation, KIND)) {}            \
    operator float() const { return ::diffuzz::from_fp8(__x, KIND); }                        \
  };                                                                                         \
  struct NAME_X2 {                                                                           \
    __hip_fp8x2_storage_t __x;                                                               \
    static constexpr __hip_saturation_t __default_saturation = __HIP_SATFINITE;              \
    static constexpr __hip_fp8_interpretation_t __default_interpret = KIND;                  \
    NAME_X2() = default;                                                                     \
    NAME_X2(float2 f) : __x(__hip_cvt_float2_to_fp8x2(f, __default_saturation, KIND)) {}     \
    operator float2() const {                                                                \
      return {::diffuzz::from_fp8(static_cast<uint8_t>(__x), KIND),                          \
              ::diffuzz::from_fp8(static_cast<uint8_t>(__x >> 8), KIND)};                    \
    }                                                                                        \
  };
DIFFUZZ_FP8(__hip_fp8_e4m3, __hip_fp8x2_e4m3, __HIP_E4M3)
DIFFUZZ_FP8(__hip_fp8_e5m2, __hip_fp8x2_e5m2, __HIP_E5M2)
DIFFUZZ_FP8(__hip_fp8_e4m3_fnuz, __hip_fp8x2_e4m3_fnuz, __HIP_E4M3_FNUZ)
DIFFUZZ_FP8(__hip_fp8_e5m2_fnuz, __hip_fp8x2_e5m2_fnuz, __HIP_E5M2_FNUZ)
#undef DIFFUZZ_FP8
