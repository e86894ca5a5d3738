/// The operands of a map with strides, and the loop over their elements.
///
/// NVRTC reads this file too, before generated kernels (cuda/compiled.h): it may include no other header than this.
#pragma once
#include "cuda/device_loop.h"

namespace fovea::cuda {

/// The largest number of operands, results and inputs together, of a kernel that is compiled at its first use.
inline constexpr int max_operands = 16;

/// Operands as a kernel takes them by value: `results` results, then the inputs. Places beyond them are not read.
template <class T, int most = max_operands>
struct MapOperands {
  static constexpr int width = widest_pack<T>;
  RunLoop<most, width> loop;
  T* first[most];  ///< the first element of each operand

#ifndef __CUDACC_RTC__
  /// `addresses` has the first elements of the operands of the planned loop.
  template <class ElementLoop, class Addresses>
  MapOperands(const ElementLoop& planned, const Addresses& addresses) : loop(run_loop(planned, addresses)) {
    for (int k = 0; k < most; ++k) first[k] = addresses[k];
  }

 private:
  template <class ElementLoop, class Addresses>
  static RunLoop<most, width> run_loop(const ElementLoop& planned, const Addresses& addresses) {
    const void* places[most];
    std::size_t bytes[most];
    for (int k = 0; k < most; ++k) places[k] = addresses[k], bytes[k] = sizeof(T);
    return {planned, places, bytes};
  }
#endif
};

/// Computes one run: `at` are the addresses of the results and inputs, `step` the distances between their elements. Bit
/// k of `packed` is 1 if the run is a Pack in operand k. compute(x, y) gets the inputs x of one element, and sets its
/// results y.
template <int results, int inputs, int width, class T, class Compute>
__device__ void map_run(T* const (&at)[results + inputs], const std::int64_t (&step)[results + inputs], unsigned packed,
                        int count, Compute compute) {
  T x[inputs][width], y[results][width];
#pragma unroll
  for (int k = 0; k < inputs; ++k)
    load_elements(static_cast<const T*>(at[results + k]), step[results + k], packed >> (results + k) & 1, count, x[k]);
#pragma unroll
  for (int i = 0; i < width; ++i) {
    T element[inputs], result[results];
#pragma unroll
    for (int k = 0; k < inputs; ++k) element[k] = x[k][i];
    compute(static_cast<const T*>(element), static_cast<T*>(result));
#pragma unroll
    for (int k = 0; k < results; ++k) y[k][i] = result[k];
  }
#pragma unroll
  for (int k = 0; k < results; ++k) store_elements(y[k], at[k], step[k], packed >> k & 1, count);
}

/// Calls compute(x, y) for this thread's share of the elements: x are an element's inputs, y its results.
template <int results, int inputs, class T, int most, class Compute>
__device__ void map_elements(const MapOperands<T, most>& operands, Compute compute) {
  constexpr int n = results + inputs, width = MapOperands<T, most>::width;
  for_elements(operands.loop.runs(), [&](std::int64_t run) {
    std::int64_t offset[n], step[n];
    const int count = operands.loop.start_of_run(run, offset);
    T* at[n];
    for (int k = 0; k < n; ++k) {
      at[k] = operands.first[k] + offset[k];
      step[k] = operands.loop.inner_step(k);
    }
    map_run<results, inputs, width>(at, step, count == width ? operands.loop.packed : 0, count, compute);
  });
}

}  // namespace fovea::cuda
