// Dropout on the GPU: the same words for the same elements as on the CPU.
#include "cuda/launch.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

/// One thread per Philox block, which decides over eight elements 16 apart.
template <class T>
__global__ void drop(DropoutMask mask, T scale, const T* x, const T* residual, T* out, std::int64_t count) {
  std::int64_t groups = (count + DropoutMask::group - 1) / DropoutMask::group;
  for_elements(groups * DropoutMask::lanes, [&](std::int64_t block) {
    std::int64_t group = block / DropoutMask::lanes;
    int lane = static_cast<int>(block % DropoutMask::lanes);
    PhiloxBlock<std::uint32_t> words = mask.words(group, lane);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      std::int64_t e = group * DropoutMask::group + DropoutMask::lanes * k + lane;
      if (e >= count) break;
      T kept = mask.keeps(words, k) ? x[e] * scale : T(0);
      out[e] = residual ? residual[e] + kept : kept;
    }
  });
}

void dropout(const DropoutMask& mask, const Tensor& x, const Tensor* residual, Tensor& out) {
  visit_real("dropout", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("dropout", drop<T>, {blocks_for(out.elements() / 8 + DropoutMask::lanes)}, mask,
           static_cast<T>(mask.scale()), x.data<T>(), residual ? residual->data<T>() : nullptr, out.mutable_data<T>(),
           out.elements());
  });
}

const Provide provide(Device::cuda, [](Kernels& table) { table.dropout = dropout; });

}  // namespace

}  // namespace fovea::cuda
