/// Random numbers by position: every number is a function of (seed, offset, element), so that results are the same for
/// any number of threads and on either device, and a mask can be made again instead of being kept.
#pragma once
#include <cstdint>
#include <vector>

#include "tensor/formula/philox.h"
#include "tensor/tensor.h"

namespace fovea {

/// Hands out disjoint stretches of one sequence. Not for several threads at once.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : next_{seed, 0} {}

  /// All that a checkpoint needs: set_state(state()) goes on from here.
  RandomPosition state() const { return next_; }
  void set_state(RandomPosition state) { next_ = state; }
  /// Numbers enough for any function of this header on so many elements.
  RandomPosition reserve(std::int64_t elements);

 private:
  RandomPosition next_;
};

/// The process's generator, which dropout draws from; begins at seed 0.
Generator& default_generator();
/// Sets the default generator to the beginning of this seed's sequence.
void seed(std::uint64_t seed);

/// Fills with numbers from [low, high), 52 random bits each. The same in every type but for its rounding, which may
/// reach `high`. f32, f64 or bf16, any strides and device.
void fill_uniform(Tensor& out, Generator& generator, double low = 0, double high = 1);
/// Fills with normal numbers (Box and Muller, in f64). f32, f64 or bf16, any strides and device.
void fill_normal(Tensor& out, Generator& generator, double mean = 0, double deviation = 1);
/// 0 ... n − 1 in random order.
std::vector<std::int64_t> permutation(std::int64_t n, Generator& generator);

/// x · keep / (1 − probability), keep a function of (seed, offset) and the element's row-major index alone: called on
/// the gradient it is the backward pass. x f32 or f64, the same mask for both; probability in [0, 1).
Tensor dropout(const Tensor& x, double probability, std::uint64_t seed, std::uint64_t offset);
/// What dropout multiplies elements first ≤ e < first + count with: mask.scale() or 0. On the calling thread.
template <class T>
void dropout_factors(const DropoutMask& mask, std::int64_t first, std::int64_t count, T* out);
/// residual + dropout(x), in one pass; both of one shape and type.
Tensor dropout_add(const Tensor& x, const Tensor& residual, double probability, std::uint64_t seed,
                   std::uint64_t offset);

}  // namespace fovea
