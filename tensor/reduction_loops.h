/// How a reduction walks its tensors, for the kernels of every device.
#pragma once
#include "tensor/element_loop.h"

namespace fovea {

/// The dimensions of x in their order in memory, neighbours merged: all, and divided into those that a reduction keeps
/// and those that it reduces, in which `out`, of x's rank, has size 1. At least one of each kind, of size 1 if there is
/// no other.
struct ReductionLoops {
  ElementLoop<2> all;      ///< over x: offsets in x and in the result
  ElementLoop<2> kept;     ///< the same
  ElementLoop<1> reduced;  ///< offsets in x
  bool inner_is_kept;      ///< whether neighbouring elements of x belong to different results

  ReductionLoops(const Tensor& x, const Tensor& out) : all(loop_over(x, out)), inner_is_kept(all.strides[1][-1] != 0) {
    for (int d = 0; d < all.rank(); ++d) {
      if (all.strides[1][d] == 0)
        add(reduced, all.shape[d], all.strides[0][d]);
      else
        add(kept, all.shape[d], all.strides[0][d], all.strides[1][d]);
    }
    if (kept.rank() == 0) add(kept, 1, 0);
    if (reduced.rank() == 0) add(reduced, 1, 0);
  }

 private:
  template <int operands>
  static void add(ElementLoop<operands>& loop, std::int64_t size, std::int64_t step, std::int64_t out_step = 0) {
    loop.shape.push_back(size);
    loop.strides[0].push_back(step);
    if constexpr (operands == 2) loop.strides[1].push_back(out_step);
  }
  /// The loop over x in which each element has the position of its result.
  static ElementLoop<2> loop_over(const Tensor& x, const Tensor& out) {
    Shape steps = out.strides();
    for (int d = 0; d < x.rank(); ++d)
      if (out.shape()[d] == 1) steps[d] = 0;
    const Tensor results = out.as_strided(x.shape(), steps);
    return plan_loop<2>(x.shape(), {&x, &results});
  }
};

}  // namespace fovea
