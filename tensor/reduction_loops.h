/// How a reduction walks its tensors, for the kernels of every device.
#pragma once
#include "tensor/element_loop.h"

namespace fovea {

/// The dimensions of x in their order in memory, neighbours merged, divided into those that a reduction keeps and those
/// that it reduces, in which `out`, of x's rank, has size 1. At least one of each kind, of size 1 if there is no other.
struct ReductionLoops {
  ElementLoop<2> kept;     ///< offsets in x and in the result
  ElementLoop<1> reduced;  ///< offsets in x
  bool inner_is_kept;      ///< whether neighbouring elements of x belong to different results

  ReductionLoops(const Tensor& x, const Tensor& out) {
    Shape steps = out.strides();
    for (int d = 0; d < x.rank(); ++d)
      if (out.shape()[d] == 1) steps[d] = 0;
    const Tensor results = out.as_strided(x.shape(), steps);  // each element of x has the position of its result
    const ElementLoop<2> loop = plan_loop<2>(x.shape(), {&x, &results});
    inner_is_kept = loop.strides[1][-1] != 0;
    for (int d = 0; d < loop.rank(); ++d) {
      if (loop.strides[1][d] == 0)
        add(reduced, loop.shape[d], {loop.strides[0][d]});
      else
        add(kept, loop.shape[d], {loop.strides[0][d], loop.strides[1][d]});
    }
    if (kept.rank() == 0) add(kept, 1, {0, 0});
    if (reduced.rank() == 0) add(reduced, 1, {0});
  }

 private:
  template <std::size_t operands>
  static void add(ElementLoop<static_cast<int>(operands)>& loop, std::int64_t size,
                  const std::int64_t (&strides)[operands]) {
    loop.shape.push_back(size);
    for (std::size_t k = 0; k < operands; ++k) loop.strides[k].push_back(strides[k]);
  }
};

}  // namespace fovea
