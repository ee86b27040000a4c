// IEEE binary16 arithmetic for the instructions that vLLM writes as inline assembly.
//
// Sums and products of binary16 values fit float (24 >= 2 * 11 + 2 bits: rounding twice is
// innocuous, Figueroa 1995); a fused multiply-add of binary16 values is exact in double up to the
// one place where it matters, see half_fma.
#pragma once

#include <torch/headeronly/util/Half.h>

#include <cstdint>
#include <cstring>

namespace diffuzz {

inline float from_half(uint16_t h) {
  return ::c10::detail::fp16_ieee_to_fp32_value(h);
}
inline uint16_t to_half(float f) { return ::c10::detail::fp16_ieee_from_fp32_value(f); }

// binary16 of a double, rounded once: to float with rounding to odd first.
inline uint16_t to_half_from_double(double d) {
  float f = static_cast<float>(d);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof(bits));
  double const back = f;
  if (back != d && !(bits & 1) && d == d && back - back == 0) {
    bool const grew = (back < 0 ? -back : back) > (d < 0 ? -d : d);
    bits += grew ? -1 : 1;
    std::memcpy(&f, &bits, sizeof(f));
  }
  return to_half(f);
}
// The product has 22 bits. Adding in double can lose only bits more than 2^-42 below the sum's
// leading one, and then the addend alone, a binary16 value, is the leading part: no tie arises.
inline uint16_t half_fma(uint16_t a, uint16_t b, uint16_t c) {
  return to_half_from_double(static_cast<double>(from_half(a)) * from_half(b) + from_half(c));
}
inline uint16_t half_add(uint16_t a, uint16_t b) { return to_half(from_half(a) + from_half(b)); }
inline uint16_t half_mul(uint16_t a, uint16_t b) { return to_half(from_half(a) * from_half(b)); }

inline uint16_t low(uint32_t v) { return static_cast<uint16_t>(v); }
inline uint16_t high(uint32_t v) { return static_cast<uint16_t>(v >> 16); }
inline uint32_t pack(uint16_t lo, uint16_t hi) { return static_cast<uint32_t>(hi) << 16 | lo; }

// asm volatile("OPCODE %0, %1" : out : in) is rewritten to ::diffuzz::asm_OPCODE(out, in), with
// the dots of OPCODE as underscores; {%0, %1} becomes two arguments.
inline void asm_mov_b32(uint32_t& o, uint16_t lo, uint16_t hi) { o = pack(lo, hi); }
inline void asm_mov_b32(uint16_t& lo, uint16_t& hi, uint32_t v) { lo = low(v), hi = high(v); }
inline void asm_cvt_f32_f16(float& o, uint16_t h) { o = from_half(h); }
inline void asm_cvt_rn_f16_f32(uint16_t& o, float f) { o = to_half(f); }
inline void asm_cvt_rn_f16x2_f32(uint32_t& o, float hi, float lo) {
  o = pack(to_half(lo), to_half(hi));
}
inline void asm_add_f16(uint16_t& o, uint16_t a, uint16_t b) { o = half_add(a, b); }
inline void asm_mul_f16(uint16_t& o, uint16_t a, uint16_t b) { o = half_mul(a, b); }
inline void asm_add_f16x2(uint32_t& o, uint32_t a, uint32_t b) {
  o = pack(half_add(low(a), low(b)), half_add(high(a), high(b)));
}
inline void asm_mul_f16x2(uint32_t& o, uint32_t a, uint32_t b) {
  o = pack(half_mul(low(a), low(b)), half_mul(high(a), high(b)));
}
inline void asm_fma_rn_f16x2(uint32_t& o, uint32_t a, uint32_t b, uint32_t c) {
  o = pack(half_fma(low(a), low(b), low(c)), half_fma(high(a), high(b), high(c)));
}
inline void asm_v_cvt_f32_f16(float& o, uint32_t h) { o = from_half(low(h)); }
inline void asm_v_cvt_f16_f32(uint32_t& o, float f) { o = to_half(f); }
template <class T>
void asm_v_add_f16(T& o, uint32_t a, uint32_t b) {
  o = half_add(low(a), low(b));
}
template <class T>
void asm_v_mul_f16(T& o, uint32_t a, uint32_t b) {
  o = half_mul(low(a), low(b));
}
inline void asm_v_pk_add_f16(uint32_t& o, uint32_t a, uint32_t b) { asm_add_f16x2(o, a, b); }
inline void asm_v_pk_mul_f16(uint32_t& o, uint32_t a, uint32_t b) { asm_mul_f16x2(o, a, b); }
inline void asm_v_pk_fma_f16(uint32_t& o, uint32_t a, uint32_t b, uint32_t c) {
  asm_fma_rn_f16x2(o, a, b, c);
}

}  // namespace diffuzz
