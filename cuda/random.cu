// Dropout on the GPU: each element is decided by the same random bits as on the CPU, so the masks are equal.
#include "cuda/launch.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

/// Applies the mask. Each thread computes one Philox block, which decides whether eight elements, 16 apart, are kept.
template <class T>
__global__ void drop(DropoutMask mask, T scale, const T* x, const T* residual, T* out, std::int64_t count) {
  for_elements(mask.groups(count) * DropoutMask::lanes, [&](std::int64_t block) {
    std::int64_t group = block / DropoutMask::lanes;
    int lane = static_cast<int>(block % DropoutMask::lanes);
    DropoutMask::Stretch stretch = mask.stretch(group, count);
    if (lane >= stretch.count) return;
    PhiloxBlock<std::uint32_t> words = mask.words(group, lane);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      std::int64_t in_group = DropoutMask::lanes * k + lane, e = stretch.first + in_group;
      if (in_group >= stretch.count) break;
      T kept = mask.keeps(words, k) ? x[e] * scale : T(0);
      out[e] = residual ? residual[e] + kept : kept;
    }
  });
}

void dropout(const DropoutMask& mask, const Tensor& x, const Tensor* residual, Tensor& out) {
  visit_real("dropout", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("dropout", drop<T>, {blocks_for(mask.groups(out.elements()) * DropoutMask::lanes)}, mask,
           static_cast<T>(mask.scale()), x.data<T>(), residual ? residual->data<T>() : nullptr, out.mutable_data<T>(),
           out.elements());
  });
}

const Provide provide(Device::cuda, [](Kernels& table) { table.dropout = dropout; });

}  // namespace

}  // namespace fovea::cuda
