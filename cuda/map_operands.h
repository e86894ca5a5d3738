/// The operands of a map with strides, and the loop over their elements.
///
/// NVRTC reads this file too, before generated kernels (cuda/compiled.h): it may include no other header than this.
#pragma once
#include "cuda/device_loop.h"

namespace fovea::cuda {

/// The largest number of operands, results and inputs together, of a kernel that is compiled at its first use.
inline constexpr int max_operands = 16;

/// Operands as a kernel takes them by value: `results` results, then the inputs. Places beyond them are not read.
/// Each thread computes a run of neighbouring elements of the last dimension at a time, as many as a Pack has.
template <class T, int most = max_operands>
struct MapOperands {
  static constexpr int width = widest_pack<T>;
  DeviceLoop<most> loop;
  std::int64_t runs_of_row;  ///< the last run of a row may be shorter
  unsigned packed;           ///< bit k: all whole runs of operand k are Packs
  T* first[most];            ///< the first element of each operand

  std::int64_t runs() const { return loop.count / loop.inner() * runs_of_row; }

#ifndef __CUDACC_RTC__
  /// `addresses` has the first elements of the operands of the planned loop.
  template <class ElementLoop>
  MapOperands(const ElementLoop& planned, T* const* addresses, int operands) : loop(planned), packed(0), first{} {
    runs_of_row = (loop.inner() + width - 1) / width;
    for (int k = 0; k < operands; ++k) {
      first[k] = addresses[k];
      bool is_packed = loop.inner_step(k) == 1 && reinterpret_cast<std::uintptr_t>(first[k]) % (width * sizeof(T)) == 0;
      for (int d = 0; d < loop.rank - 1; ++d) is_packed = is_packed && loop.strides[k][d] % width == 0;
      packed |= static_cast<unsigned>(is_packed) << k;
    }
  }
#endif
};

/// Computes one run: `at` are the addresses of the results and inputs, `step` the distances between their elements.
/// compute(x, y) gets the inputs x of one element, and sets its results y.
template <int results, int inputs, int width, class T, class Compute>
__device__ void map_run(T* const (&at)[results + inputs], const std::int64_t (&step)[results + inputs], unsigned packed,
                        int count, Compute compute) {
  T x[inputs][width], y[results][width];
#pragma unroll
  for (int k = 0; k < inputs; ++k)
    load_elements(static_cast<const T*>(at[results + k]), step[results + k],
                  count == width && (packed >> (results + k) & 1), count, x[k]);
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
  for (int k = 0; k < results; ++k) store_elements(y[k], at[k], step[k], count == width && (packed >> k & 1), count);
}

/// Calls compute(x, y) for this thread's share of the elements: x are an element's inputs, y its results.
template <int results, int inputs, class T, int most, class Compute>
__device__ void map_elements(const MapOperands<T, most>& operands, Compute compute) {
  constexpr int n = results + inputs, width = MapOperands<T, most>::width;
  const std::int64_t size = operands.loop.inner();
  for_elements(operands.loop.count / size * operands.runs_of_row, [&](std::int64_t run) {
    const std::int64_t row = operands.loop.rank == 1 ? 0 : run / operands.runs_of_row;
    const std::int64_t column = (run - row * operands.runs_of_row) * width;
    std::int64_t offset[n], step[n];
    T* at[n];
    operands.loop.row_offsets(row, offset);
    for (int k = 0; k < n; ++k) {
      step[k] = operands.loop.inner_step(k);
      at[k] = operands.first[k] + offset[k] + column * step[k];
    }
    map_run<results, inputs, width>(at, step, operands.packed,
                                    static_cast<int>(size - column < width ? size - column : width), compute);
  });
}

}  // namespace fovea::cuda
