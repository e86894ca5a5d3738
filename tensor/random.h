/// Random numbers by position: every number is a function of a seed, a place and an element, so that results are the
/// same for any number of threads and on either device, and a mask can be made again instead of being kept.
///
/// A place is a number of a sequence (Generator: initial values, permutations), or a call of a micro-batch of an update
/// (RandomScope: dropout). The two never overlap.
#pragma once
#include <cstdint>
#include <string_view>
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

/// The place in a training that dropout is drawn at. Equal places give equal numbers.
struct RandomSource {
  std::uint64_t seed = 0;
  std::int64_t update = 0;       ///< in [0, 2^32)
  std::int64_t micro_batch = 0;  ///< in [0, 4096)
};

/// Chooses what dropout draws on the calling thread, for the lifetime of this object: inside, the first call that draws
/// takes numbers that depend on the source and 1, the second on the source and 2, and so on. Two scopes of the same
/// source give the same numbers, in whichever order, and on whichever threads, micro-batches run.
///
///   RandomScope random({.seed = 1, .update = 250});
///   backward(model.loss(batch));
///
/// Scopes nest: an inner one interrupts the outer one. Outside of all scopes dropout throws Error; a default would let
/// a training loop that forgets its scope draw the same mask in every update, or hidden state would have to change it.
class RandomScope {
 public:
  explicit RandomScope(const RandomSource& source);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// Numbers for the next call in the innermost scope of this thread, for any number of elements. Throws Error outside
  /// of scopes; `what` begins the message: "dropout".
  static RandomPosition next_call(std::string_view what);

 private:
  RandomPosition call_;  ///< the last one that was taken
  RandomScope* before_;
};

/// Fills with numbers from [low, high), 52 random bits each. The same in every type but for its rounding, which may
/// reach `high`. f32, f64 or bf16, any strides and device.
void fill_uniform(Tensor& out, Generator& generator, double low = 0, double high = 1);
/// Fills with normal numbers (Box and Muller, in f64). f32, f64 or bf16, any strides and device.
void fill_normal(Tensor& out, Generator& generator, double mean = 0, double deviation = 1);
/// 0 ... n − 1 in random order.
std::vector<std::int64_t> permutation(std::int64_t n, Generator& generator);

/// x · keep / (1 − probability), keep a function of the mask and the element's row-major index alone: called on the
/// gradient it is the backward pass. x f32 or f64, the same mask for both.
Tensor dropout(const Tensor& x, const DropoutMask& mask);
/// Writes the factors of dropout for elements first ≤ j < end of a row: out[j] = mask.scale() where the element is
/// kept, and 0 where it is dropped. `out` is the row; its other elements are not changed. Uses the calling thread only.
template <class T>
void dropout_factors(const DropoutMask& mask, std::int64_t row, std::int64_t first, std::int64_t end, T* out);
/// residual + dropout(x), in one pass; both of one shape and type.
Tensor dropout_add(const Tensor& x, const Tensor& residual, const DropoutMask& mask);

}  // namespace fovea
