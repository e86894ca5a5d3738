/// Random integers that are the same with every compiler and library: shuffles, splits and generated data depend on
/// them. SplitMix64: Steele, Lea & Flood 2014, "Fast Splittable Pseudorandom Number Generators", figure 17.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace fovea {

/// The finaliser of SplitMix64: a bijection of 64 bits in which every input bit moves every output bit.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// A hash of the bytes that never changes: it decides on which side of a split a text falls.
constexpr std::uint64_t stable_hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a, then mixed because its high bits alone are weak
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  return mix_bits(hash);
}

class SplitMix {
 public:
  constexpr explicit SplitMix(std::uint64_t seed, std::uint64_t stream = 0)
      : state_(mix_bits(seed + 0x9e3779b97f4a7c15u) ^ mix_bits(mix_bits(stream) + 0x632be59bd9b4e019u)) {}

  constexpr std::uint64_t next() { return mix_bits(state_ += 0x9e3779b97f4a7c15u); }

  /// Uniform in [0, bound); bound in [1, 2^32].
  constexpr std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t limit = (std::uint64_t{1} << 32) / bound * bound;  // rejecting the rest leaves no bias
    std::uint64_t draw = next() >> 32;
    while (draw >= limit) draw = next() >> 32;
    return draw % bound;
  }

  /// Uniform in [low, high], both included.
  constexpr std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + std::int64_t(below(std::uint64_t(high - low) + 1));
  }

  /// True with the given probability, which is rounded to a multiple of 2^-53.
  constexpr bool chance(double probability) { return double(next() >> 11) * 0x1p-53 < probability; }

  /// Fisher-Yates.
  template <class T>
  constexpr void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[std::size_t(below(i))]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace fovea
