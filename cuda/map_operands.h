/// The operands of a map with strides, and the loop over their elements.
///
/// NVRTC reads this file too, before generated kernels (cuda/compiled.h): it may include no other header than this.
#pragma once
#include "cuda/device_loop.h"

namespace fovea::cuda {

/// The largest number of operands, results and inputs together, of a kernel that is compiled at its first use.
inline constexpr int max_operands = 16;

/// Operands as a kernel takes them by value: `results` results, then the inputs. Places beyond them are not read.
template <class T>
struct MapOperands {
  DeviceLoop<max_operands> loop;
  T* first[max_operands];  ///< the first element of each operand
};

/// Calls compute(x, y) for this thread's share of the elements: x are an element's inputs, y its results.
template <int results, int inputs, class T, class Compute>
__device__ void map_elements(const MapOperands<T>& operands, Compute compute) {
  for_elements(operands.loop.count, [&](std::int64_t element) {
    std::int64_t offset[results + inputs];
    operands.loop.offsets(element, offset);
    T x[inputs], y[results];
    for (int k = 0; k < inputs; ++k) x[k] = operands.first[results + k][offset[results + k]];
    compute(x, y);
    for (int k = 0; k < results; ++k) operands.first[k][offset[k]] = y[k];
  });
}

}  // namespace fovea::cuda
