/// Counter-based random numbers: every number is a function of a seed, a position and the index of an element.
/// Therefore results are the same for any number of threads and on either device, and the backward pass of dropout
/// computes the mask again instead of storing it. Only normal numbers differ between devices, in their last bits.
///
/// A position comes from a Generator, which counts the numbers that it has given out (for initial values), or from a
/// RandomScope, which counts the calls of dropout in one micro-batch of one update. Positions of a Generator and of a
/// RandomScope never give the same random numbers, even with the same seed.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/formula/philox.h"
#include "tensor/tensor.h"

namespace fovea {

/// Gives out disjoint stretches of the sequence of random numbers of a seed. Not thread-safe.
class Generator {
 public:
  explicit Generator(std::uint64_t seed) : next_{seed, 0} {}

  /// The state to store in a checkpoint: after set_state(), the sequence continues where it was.
  RandomPosition state() const { return next_; }
  void set_state(RandomPosition state) { next_ = state; }
  /// Advances the sequence, and returns the position where the reserved stretch begins. The stretch has enough random
  /// numbers for any function of this header on a tensor of `elements` elements.
  RandomPosition reserve(std::int64_t elements);

 private:
  RandomPosition next_;
};

/// The micro-batch for which dropout draws its random numbers. Equal sources give equal numbers.
struct RandomSource {
  std::uint64_t seed = 0;
  std::int64_t update = 0;       ///< number of the update in the training, in [0, 2^32)
  std::int64_t micro_batch = 0;  ///< number of the micro-batch in the update, in [0, 4096)
};

/// Chooses the random numbers of dropout on the calling thread for the lifetime of this object. The calls of dropout in
/// the scope are counted from 1, and the numbers of a call depend on the source and its count only. So two scopes with
/// the same source give the same numbers, in whichever order and on whichever threads the micro-batches run.
///
///   RandomScope random({.seed = 1, .update = 250});
///   backward(model.loss(batch));
///
/// Scopes nest: the outer scope continues its count after the end of the inner scope. Outside of all scopes dropout
/// throws Error. A default source would either give a training loop without a scope the same mask in every update, or
/// need hidden global state.
class RandomScope {
 public:
  explicit RandomScope(const RandomSource& source);
  /// Continues at a position(), also one of another thread: the next call draws the numbers that it drew there.
  static RandomScope at(const RandomPosition& position);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

  /// Counts one more call in the innermost scope of this thread, and returns the position of its random numbers, which
  /// suffice for any number of elements. Throws Error outside of all scopes; the message begins with `what`, the name
  /// of the operation.
  static RandomPosition next_call(std::string_view what);
  /// The position in the innermost scope of this thread; empty outside of all scopes.
  static std::optional<RandomPosition> position();

 private:
  RandomScope(const RandomPosition& call, RandomScope* before);

  RandomPosition call_;  ///< position of the latest call
  RandomScope* before_;  ///< the enclosing scope, or null
};

/// Fills `out` with uniform random numbers from [low, high), which have 52 random bits. They are computed in f64 and
/// rounded to the type of `out`; rounding may give `high` itself. `out` is f32, f64 or bf16, with any strides and
/// device.
void fill_uniform(Tensor& out, Generator& generator, double low = 0, double high = 1);
/// Fills `out` with normally distributed random numbers (method of Box and Muller, computed in f64). `out` is f32, f64
/// or bf16, with any strides and device.
void fill_normal(Tensor& out, Generator& generator, double mean = 0, double deviation = 1);

/// Returns x · keep / (1 − probability), where keep is 0 or 1 and depends only on the mask and the row-major index of
/// the element. The backward pass is the same function, with the same mask, applied to the gradient. `x` is f32 or f64.
Tensor dropout(const Tensor& x, const DropoutMask& mask);
/// Writes the factors of dropout for elements first ≤ j < end of a row: out[j] = mask.scale() where the element is
/// kept, and 0 where it is dropped. `out` is the row; its other elements are not changed. Uses the calling thread only.
/// If the mask is that of a part of the rows (DropoutMask::of_rows()), `row` counts the rows of that part.
template <class T>
void dropout_factors(const DropoutMask& mask, std::int64_t row, std::int64_t first, std::int64_t end, T* out);
/// Returns residual + dropout(x, mask), computed in one pass. `x` and `residual` have one shape, type and device.
Tensor dropout_add(const Tensor& x, const Tensor& residual, const DropoutMask& mask);

}  // namespace fovea
