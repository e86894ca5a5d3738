#include "tensor/formula/large_angles.h"

#include <cmath>
#include <limits>

#include "tensor/formula/math.h"

namespace fovea::approximation {

namespace {

/// The bits of 1 / π after the binary point, after 64 zeros.
constexpr std::uint64_t inverse_of_pi[] = {
    0x0000000000000000, 0x517cc1b727220a94, 0xfe13abe8fa9a6ee0, 0x6db14acc9e21c820, 0xff28b1d5ef5de2b0,
    0xdb92371d2126e970, 0x0324977504e8c90e, 0x7f0ef58e5894d39f, 0x74411afa975da242, 0x74ce38135a2fbf20,
    0x9cc8eb1cc1a99cfa, 0x4e422fc5defc941d, 0x8ffc4bffef02cc07, 0xf79788c5ad05368f, 0xb69b3f6793e584db,
    0xa7a31fb34f2ff516, 0xba93dd63f5f2f8bd, 0x9e839cfbc5294975, 0x35fdafd88fc6ae84, 0x2b0198237e3db5d5,
};

/// 64 of these bits, from bit `first` on.
std::uint64_t bits_from(int first) {
  const int word = first / 64, shift = first % 64;
  const std::uint64_t high = inverse_of_pi[word] << shift;
  return shift == 0 ? high : high | inverse_of_pi[word + 1] >> (64 - shift);
}

}  // namespace

// With |x| = m 2^e for an integer m of 53 bits, |x| / π is m times the bits of 1 / π, moved by e. Bits of weight 2 and
// more do not change the result: their multiples of m are multiples of whole turns. The 192 bits after them give |x| /
// π modulo 2 with an error below 2^-138. No f64 is as close to a multiple of π as 2^-66 π, so sin(r) has all its
// digits.
double sine_of_large(double x, bool plus_right_angle) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  int exponent;
  const auto m = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::fabs(x), &exponent), 53));
  const int first = exponent - 53 + 63;  // of the bit of weight 1
  const std::uint64_t high = bits_from(first), middle = bits_from(first + 64), low = bits_from(first + 128);
  __extension__ using Wide = unsigned __int128;
  const Wide low_product = Wide(m) * low, middle_product = Wide(m) * middle + (low_product >> 64);
  std::uint64_t turns = m * high + static_cast<std::uint64_t>(middle_product >> 64);  // the top bit has weight 1
  std::uint64_t rest = static_cast<std::uint64_t>(middle_product), last = static_cast<std::uint64_t>(low_product);
  if (plus_right_angle) turns += std::uint64_t{1} << 62;
  const bool is_odd = ((turns + (std::uint64_t{1} << 62)) >> 63) != 0;  // the nearest whole number of half turns
  // The fraction, in [−½, ½), as a number of 192 bits with a sign.
  turns = turns << 1 | rest >> 63, rest = rest << 1 | last >> 63, last <<= 1;
  const bool is_negative = turns >> 63 != 0;
  if (is_negative) {
    last = ~last + 1, rest = ~rest + (last == 0), turns = ~turns + (last == 0 && rest == 0);
  }
  const double fraction = std::ldexp(static_cast<double>(turns), -64) + std::ldexp(static_cast<double>(rest), -128) +
                          std::ldexp(static_cast<double>(last), -192);
  using C = Constants<double>;
  const double r = fraction * C::pi_high, z = r * r, sine = fma(r * z, polynomial(z, C::sin), r);
  const bool is_turned = x < 0 && !plus_right_angle;
  return (is_negative != is_odd) != is_turned ? -sine : sine;
}

}  // namespace fovea::approximation
