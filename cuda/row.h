/// Row formulas (tensor/formula/row_formulas.h) on the GPU: a block of 256 threads computes one row at a time, and each
/// thread takes every 256th element.
#pragma once
#include <array>
#include <limits>

#include "cuda/collectives.h"
#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/rows.h"

namespace fovea::cuda {

/// The operands of a row formula for all rows: their addresses, and the distances between the elements of a row.
template <int operands>
struct RowPointers {
  void* first[operands];        ///< addresses of the inputs, then of the outputs
  std::int64_t step[operands];  ///< between neighbouring elements of a row; 0 if the operand has one value per row
  const std::uint8_t* allow;    ///< the mask; null allows everything
  std::int64_t allow_step;
  std::int64_t n;
};

/// One row, with the methods that a formula calls (listed in row_formulas.h). All threads of the block run the formula;
/// each sum or maximum has the same value in all of them.
template <class T, class Formula>
class Row {
 public:
  using Number = T;
  using BlockReduce = cub::BlockReduce<double, block_threads>;
  using BlockScan = cub::BlockScan<double, block_threads>;
  static constexpr int inputs = static_cast<int>(Formula::inputs.size());
  static constexpr int operands = inputs + static_cast<int>(Formula::outputs.size());

  struct Shared {
    typename BlockReduce::TempStorage reduction;
    typename BlockScan::TempStorage scan;
    SharedArray<double, 1> result;
  };

  /// `offset` is where the row begins in each operand and, last, in the mask; `columns` [column sums, n] are the column
  /// sums of this block.
  __device__ Row(const RowPointers<operands>& all, const std::int64_t (&offset)[operands + 1], double* columns,
                 Shared& shared)
      : all_(all), offset_(offset), columns_(columns), shared_(shared) {}

  __device__ std::int64_t size() const { return all_.n; }
  __device__ T in(int k, std::int64_t j) const { return address<T>(k)[j * all_.step[k]]; }
  __device__ T allowed_or(int k, std::int64_t j, T otherwise) const {
    return !all_.allow || all_.allow[offset_[operands] + j * all_.allow_step] ? in(k, j) : otherwise;
  }
  /// NaN for a place outside of the row, which the check of an index reports later (index_report.h).
  __device__ T element(int k, std::int64_t j) const {
    return is_inside(j) ? in(k, j) : std::numeric_limits<T>::quiet_NaN();
  }
  __device__ T number(int k) const { return *address<T>(k); }
  __device__ double precise_number(int k) const { return *address<double>(k); }
  __device__ std::int64_t index(int k) const { return *address<std::int64_t>(k); }

  template <class F>
  __device__ T maximum(const F& f) const {
    T most = -formula::infinity<T>;
    for_places([&](std::int64_t j) {
      T next = f(j);
      most = most < next ? next : most;
    });
    return static_cast<T>(all_threads(static_cast<double>(most), Larger{}));
  }
  template <class F>
  __device__ double sum(const F& f) const {
    double total = 0;
    for_places([&](std::int64_t j) { total += static_cast<double>(f(j)); });
    return all_threads(total, Sum{});
  }
  template <class F>
  __device__ auto sums(const F& f) const {
    constexpr std::size_t count = std::tuple_size_v<decltype(f(std::int64_t{}))>;
    std::array<double, count> total{};
    for_places([&](std::int64_t j) {
      auto values = f(j);
      for (std::size_t k = 0; k < count; ++k) total[k] += static_cast<double>(values[k]);
    });
    for (std::size_t k = 0; k < count; ++k) total[k] = all_threads(total[k], Sum{});
    return total;
  }

  /// Keeps the values in output k. A thread reads back only the elements that it wrote itself, so no barrier is needed.
  template <class F>
  __device__ auto keep(int k, const F& f) const {
    write(k, f);
    return [from = address<T>(inputs + k), step = all_.step[inputs + k]](std::int64_t j) { return from[j * step]; };
  }
  template <class F>
  __device__ void write(int k, const F& f) const {
    for_places([&](std::int64_t j) { address<T>(inputs + k)[j * all_.step[inputs + k]] = f(j); });
  }
  /// Scans tile by tile, one element per thread; `carried` is the total of all tiles before.
  template <class F>
  __device__ void scan(int k, const F& f, bool reverse) const {
    double carried = 0;
    for (std::int64_t tile = 0; tile < all_.n; tile += blockDim.x) {
      const std::int64_t position = tile + threadIdx.x, j = reverse ? all_.n - 1 - position : position;
      double prefix, total;
      BlockScan(shared_.scan).InclusiveSum(position < all_.n ? static_cast<double>(f(j)) : 0, prefix, total);
      if (position < all_.n) address<T>(inputs + k)[j * all_.step[inputs + k]] = static_cast<T>(carried + prefix);
      carried += total;
      __syncthreads();
    }
  }
  /// Writes element j in the thread that also wrote it in write(), so that no barrier is needed between the two.
  __device__ void write_element(int k, std::int64_t j, T x) const {
    if (is_inside(j) && j % blockDim.x == threadIdx.x) address<T>(inputs + k)[j * all_.step[inputs + k]] = x;
  }
  __device__ void write_number(int k, T x) const {
    if (threadIdx.x == 0) *address<T>(inputs + k) = x;
  }
  __device__ void write_precise_number(int k, double x) const {
    if (threadIdx.x == 0) *address<double>(inputs + k) = x;
  }
  template <class F>
  __device__ void add_to_column(int k, const F& f) const {
    for_places([&](std::int64_t j) { columns_[k * all_.n + j] += static_cast<double>(f(j)); });
  }

 private:
  __device__ bool is_inside(std::int64_t j) const { return 0 <= j && j < all_.n; }
  struct Sum {
    __device__ double operator()(double a, double b) const { return a + b; }
  };
  struct Larger {
    __device__ double operator()(double a, double b) const { return a < b ? b : a; }
  };

  template <class Element>
  __device__ Element* address(int k) const {
    return static_cast<Element*>(all_.first[k]) + offset_[k];
  }
  template <class Body>
  __device__ void for_places(const Body& body) const {
    for (std::int64_t j = threadIdx.x; j < all_.n; j += blockDim.x) body(j);
  }
  /// Joins the values `mine` of all threads and returns the result in each of them. The order of joining depends on the
  /// number of threads alone.
  template <class Join>
  __device__ double all_threads(double mine, Join join) const {
    double joined = BlockReduce(shared_.reduction).Reduce(mine, join);
    if (threadIdx.x == 0) shared_.result[0] = joined;
    __syncthreads();
    joined = shared_.result[0];
    __syncthreads();  // after this barrier the shared memory may be overwritten
    return joined;
  }

  const RowPointers<operands>& all_;
  const std::int64_t (&offset_)[operands + 1];
  double* columns_;
  Shared& shared_;
};

/// Divides the rows evenly over the blocks. Block b runs rows r with rows · b / blocks ≤ r < rows · (b + 1) / blocks.
template <class T, class Formula>
__global__ void run_rows_kernel(Formula formula, DeviceLoop<Row<T, Formula>::operands + 1> rows,
                                RowPointers<Row<T, Formula>::operands> all, double* columns) {
  __shared__ typename Row<T, Formula>::Shared shared;
  const std::int64_t begin = rows.count * blockIdx.x / gridDim.x, end = rows.count * (blockIdx.x + 1) / gridDim.x;
  for (std::int64_t r = begin; r < end; ++r) {
    std::int64_t offset[Row<T, Formula>::operands + 1];
    rows.offsets(r, offset);
    Row<T, Formula> row(all, offset, columns + blockIdx.x * Formula::column_sums * all.n, shared);
    formula(row);
  }
}

}  // namespace fovea::cuda
