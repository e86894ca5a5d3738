/// Row formulas (tensor/formula/row.h) on the GPU. A warp computes a row of up to 512 elements, several rows
/// in a block; a block of 256 threads computes a longer one.
///
/// Threads hold the elements of rows of up to 4096 elements in registers (half as many in f64), so that a formula reads
/// its inputs once, in 16-byte loads where they are contiguous. Longer rows are read again in each pass. Sums are added
/// up in f64, also those of f32.
#pragma once
#include <array>
#include <cub/block/block_scan.cuh>
#include <limits>

#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/rows.h"

namespace fovea::cuda {

/// The operands of a row formula for all rows: their addresses, and the distances between the elements of a row.
template <int operands>
struct RowPointers {
  void* first[operands];        ///< addresses of the inputs, then of the outputs
  std::int64_t step[operands];  ///< between neighbouring elements of a row; 0 if the operand has one value per row
  unsigned packed;              ///< bit k: the whole Packs of operand k in each row can be loaded and stored at once
  const std::uint8_t* allow;    ///< the mask; null allows everything
  std::int64_t allow_step;
  std::int64_t n;
};

/// How the elements of a row are spread over `threads` threads: each takes `width` neighbouring ones at a time, and
/// `items` in all, which it holds in registers. With `items` = 0, it takes as many as the row has, and holds none.
template <int threads_, int items_, int width_>
struct RowSpread {
  static constexpr int threads = threads_, items = items_, width = width_;
  static constexpr int groups = block_threads / threads;  ///< rows that a block computes at the same time
  static constexpr std::int64_t longest = std::int64_t{threads} * items;
  static_assert(items % width == 0);
};

/// A place in a row: element j, which this thread holds as its item number `item`; −1 if it holds none.
struct RowPlace {
  int item;
  std::int64_t j;
};

/// The values that the threads of a row exchange. Two buffers take turns, so that one barrier for each exchange is
/// enough.
template <class Spread>
class RowExchange {
 public:
  static constexpr int warps = Spread::threads / warp_lanes, most = 4;
  struct Shared {
    SharedArray<double, 2 * most * warps> values;
    typename cub::BlockScan<double, block_threads>::TempStorage scan;
  };
  __device__ explicit RowExchange(Shared& shared) : shared_(shared) {}

  /// Joins the values of all threads of the row; every thread gets the results. The order of joining depends on the
  /// number of threads alone.
  template <std::size_t count, class Join>
  __device__ void all_threads(std::array<double, count>& mine, Join join) {
    static_assert(count <= most);
    for (std::size_t k = 0; k < count; ++k)
      for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
        mine[k] = join(mine[k], __shfl_xor_sync(~0u, mine[k], distance));
    if constexpr (warps > 1) {
      const int buffer = turn_ * most * warps, warp = static_cast<int>(threadIdx.x) / warp_lanes;
      turn_ = 1 - turn_;
      if (threadIdx.x % warp_lanes == 0)
        for (int k = 0; k < static_cast<int>(count); ++k) shared_.values[buffer + k * warps + warp] = mine[k];
      __syncthreads();
      for (int k = 0; k < static_cast<int>(count); ++k) {
        mine[k] = shared_.values[buffer + k * warps];
        for (int other = 1; other < warps; ++other)
          mine[k] = join(mine[k], static_cast<double>(shared_.values[buffer + k * warps + other]));
      }
    }
  }

  /// Computes the sum of `mine` over this thread and those before it, and over all threads of the row.
  __device__ void inclusive_sum(double mine, double& prefix, double& total) {
    if constexpr (warps > 1) {
      cub::BlockScan<double, block_threads>(shared_.scan).InclusiveSum(mine, prefix, total);
      __syncthreads();
    } else {
      const int lane = static_cast<int>(threadIdx.x) % warp_lanes;
      prefix = mine;
      for (int distance = 1; distance < warp_lanes; distance *= 2) {
        const double before = __shfl_up_sync(~0u, prefix, distance);
        if (lane >= distance) prefix += before;
      }
      total = __shfl_sync(~0u, prefix, warp_lanes - 1);
    }
  }

 private:
  Shared& shared_;
  int turn_ = 0;
};

/// The column sums of the rows that one thread has computed: those of the elements that it holds.
template <class Formula, int items>
struct HeldColumns {
  double sum[Formula::column_sums > 0 ? Formula::column_sums : 1][items > 0 ? items : 1] = {};
};

/// One row, with the methods that a formula calls (listed in tensor/formula/row.h). All threads of the row run the
/// formula; each sum or maximum has the same value in all of them.
template <class T, class Formula, class Spread>
class Row {
 public:
  using Number = T;
  static constexpr int inputs = static_cast<int>(Formula::inputs.size());
  static constexpr int operands = inputs + static_cast<int>(Formula::outputs.size());
  static constexpr int items = Spread::items, width = Spread::width, threads = Spread::threads;
  static constexpr bool is_held = items > 0;

  /// `offset` is where the row begins in each operand and, last, in the mask. `columns` [column sums, n] are the column
  /// sums of this block for rows that are not held.
  __device__ Row(const RowPointers<operands>& all, const std::int64_t (&offset)[operands + 1], double* columns,
                 HeldColumns<Formula, items>& held_columns, RowExchange<Spread>& exchange)
      : all_(all), offset_(offset), columns_(columns), held_columns_(held_columns), exchange_(exchange) {
    if constexpr (is_held) hold();
  }

  __device__ std::int64_t size() const { return all_.n; }
  __device__ T in(int k, RowPlace at) const {
    if constexpr (is_held)
      if (at.item >= 0) return held_[k][at.item];
    return address<T>(k)[at.j * all_.step[k]];
  }
  __device__ T allowed_or(int k, RowPlace at, T otherwise) const {
    if constexpr (is_held)
      if (at.item >= 0) return allowed_ >> at.item & 1 ? in(k, at) : otherwise;  // scans have no items
    return is_allowed(at.j) ? in(k, at) : otherwise;
  }
  /// NaN for a place outside of the row, which the check of an index reports later (index_report.h).
  __device__ T element(int k, std::int64_t j) const {
    return is_inside(j) ? address<T>(k)[j * all_.step[k]] : std::numeric_limits<T>::quiet_NaN();
  }
  __device__ T number(int k) const { return *address<T>(k); }
  __device__ double precise_number(int k) const { return *address<double>(k); }
  __device__ std::int64_t index(int k) const { return *address<std::int64_t>(k); }

  template <class F>
  __device__ T maximum(const F& f) const {
    T most = -formula::infinity<T>;
    for_places([&](RowPlace at) {
      T next = f(at);
      most = most < next ? next : most;
    });
    std::array<double, 1> all{static_cast<double>(most)};
    exchange_.all_threads(all, [](double a, double b) { return a < b ? b : a; });
    return static_cast<T>(all[0]);
  }
  template <class F>
  __device__ double sum(const F& f) const {
    return sums([&](RowPlace at) { return std::array{f(at)}; })[0];
  }
  template <class F>
  __device__ auto sums(const F& f) const {
    constexpr std::size_t count = std::tuple_size_v<decltype(f(RowPlace{}))>;
    std::array<double, count> total{};
    for_places([&](RowPlace at) {
      auto values = f(at);
      for (std::size_t k = 0; k < count; ++k) total[k] += static_cast<double>(values[k]);
    });
    exchange_.all_threads(total, [](double a, double b) { return a + b; });
    return total;
  }

  /// Keeps the values in registers, or in output k for a row that is not held.
  template <class F>
  __device__ auto keep(int k, const F& f) const {
    if constexpr (is_held) {
      std::array<T, items> values{};
      for_places([&](RowPlace at) { values[at.item] = f(at); });
      return [values](RowPlace at) { return values[at.item]; };
    } else {
      return write(k, f);
    }
  }
  /// A thread reads back only the elements that it wrote itself, so no barrier is needed.
  template <class F>
  __device__ auto write(int k, const F& f) const {
    T* to = address<T>(inputs + k);
    const std::int64_t step = all_.step[inputs + k];
    if constexpr (is_held) {
      const bool is_packed = all_.packed >> (inputs + k) & 1;
      std::array<T, items> written{};
      for_packs([&](int first_item, std::int64_t first, int count) {
        T values[width];
#pragma unroll
        for (int i = 0; i < width; ++i)
          values[i] = written[first_item + i] = i < count ? f(RowPlace{first_item + i, first + i}) : T(0);
        store_elements(values, to + first * step, step, is_packed && count == width, count);
      });
      return [written](RowPlace at) { return written[at.item]; };
    } else {
      for_places([&](RowPlace at) { to[at.j * step] = f(at); });
      return [to, step](RowPlace at) { return to[at.j * step]; };
    }
  }
  /// Each thread computes the random words of every element that it asks for. They decide eight elements, but those are
  /// 16 apart, and other threads have them.
  __device__ auto dropout_factors(int k, const DropoutMask& mask) const {
    return [&mask, begin = offset_[inputs + k]](RowPlace at) {
      return mask.keeps(begin + at.j) ? static_cast<T>(mask.scale()) : T(0);
    };
  }
  /// Scans tile by tile, one element per thread; `carried` is the total of all tiles before.
  template <class F>
  __device__ void scan(int k, const F& f, bool reverse) const {
    double carried = 0;
    for (std::int64_t tile = 0; tile < all_.n; tile += threads) {
      const std::int64_t position = tile + thread(), j = reverse ? all_.n - 1 - position : position;
      double prefix, total;
      exchange_.inclusive_sum(position < all_.n ? static_cast<double>(f(RowPlace{-1, j})) : 0, prefix, total);
      if (position < all_.n) address<T>(inputs + k)[j * all_.step[inputs + k]] = static_cast<T>(carried + prefix);
      carried += total;
    }
  }
  /// Writes element j in the thread that also wrote it in write(), so that no barrier is needed between the two.
  __device__ void write_element(int k, std::int64_t j, T x) const {
    if (is_inside(j) && j / width % threads == thread()) address<T>(inputs + k)[j * all_.step[inputs + k]] = x;
  }
  __device__ void write_number(int k, T x) const {
    if (thread() == 0) *address<T>(inputs + k) = x;
  }
  __device__ void write_precise_number(int k, double x) const {
    if (thread() == 0) *address<double>(inputs + k) = x;
  }
  template <class F>
  __device__ void add_to_column(int k, const F& f) const {
    for_places([&](RowPlace at) {
      if constexpr (is_held)
        held_columns_.sum[k][at.item] += static_cast<double>(f(at));
      else
        columns_[k * all_.n + at.j] += static_cast<double>(f(at));
    });
  }

  /// The number of this thread among those of the row.
  static __device__ int thread() { return static_cast<int>(threadIdx.x) % threads; }
  /// Calls body(first item, first element, number of elements) for each stretch of neighbouring elements that this
  /// thread holds of a row of n elements.
  template <class Body>
  static __device__ void for_packs_of(std::int64_t n, const Body& body) {
#pragma unroll
    for (int item = 0; item < items; item += width) {
      const std::int64_t first = static_cast<std::int64_t>(item) * threads + thread() * width;
      if (first < n) body(item, first, static_cast<int>(n - first < width ? n - first : width));
    }
  }

 private:
  __device__ bool is_inside(std::int64_t j) const { return 0 <= j && j < all_.n; }
  __device__ bool is_allowed(std::int64_t j) const {
    return !all_.allow || all_.allow[offset_[operands] + j * all_.allow_step];
  }

  template <class Element>
  __device__ Element* address(int k) const {
    return static_cast<Element*>(all_.first[k]) + offset_[k];
  }
  template <class Body>
  __device__ void for_packs(const Body& body) const {
    for_packs_of(all_.n, body);
  }
  template <class Body>
  __device__ void for_places(const Body& body) const {
    if constexpr (is_held) {
      for_packs([&](int first_item, std::int64_t first, int count) {
#pragma unroll
        for (int i = 0; i < width; ++i)
          if (i < count) body(RowPlace{first_item + i, first + i});
      });
    } else {
#pragma unroll 4
      for (std::int64_t j = thread(); j < all_.n; j += threads) body(RowPlace{-1, j});
    }
  }

  /// Loads the elements of all inputs that have elements, and what the mask says of them.
  __device__ void hold() {
    [&]<int... k>(std::integer_sequence<int, k...>) { (hold_input<k>(), ...); }
    (std::make_integer_sequence<int, inputs>{});
    if constexpr (Formula::takes_mask)
      for_places([&](RowPlace at) { allowed_ |= static_cast<unsigned>(is_allowed(at.j)) << at.item; });
  }
  template <int k>
  __device__ void hold_input() {
    if constexpr (Formula::inputs[k] == formula::RowOperand::elements)
      for_packs([&](int first_item, std::int64_t first, int count) {
        T values[width];
        load_elements(address<const T>(k) + first * all_.step[k], all_.step[k],
                      (all_.packed >> k & 1) && count == width, count, values);
#pragma unroll
        for (int i = 0; i < width; ++i) held_[k][first_item + i] = values[i];
      });
  }

  const RowPointers<operands>& all_;
  const std::int64_t (&offset_)[operands + 1];
  double* columns_;
  HeldColumns<Formula, items>& held_columns_;
  RowExchange<Spread>& exchange_;
  T held_[inputs][items > 0 ? items : 1];
  unsigned allowed_ = 0;
};

/// Adds the column sums of the threads of a block that hold the same elements, in order, and writes those of the block.
template <class T, class Formula, class Spread>
__device__ void write_columns(const HeldColumns<Formula, Spread::items>& held, std::int64_t n, double* columns) {
  const int mine = static_cast<int>(threadIdx.x) / Spread::threads;
  for (int group = 0; group < Spread::groups; ++group) {
    if (group == mine)
      Row<T, Formula, Spread>::for_packs_of(n, [&](int first_item, std::int64_t first, int count) {
#pragma unroll
        for (int i = 0; i < Spread::width; ++i)
          for (int k = 0; k < Formula::column_sums && i < count; ++k) {
            double& sum = columns[k * n + first + i];
            sum = (group > 0 ? sum : 0) + held.sum[k][first_item + i];
          }
      });
    __syncthreads();
  }
}

/// The blocks of the kernel that runs which have come to is_last_block(). Kernels run one after the other, and the last
/// block resets it.
static __device__ unsigned finished_blocks = 0;

/// Whether this block is the last of its kernel to come here. If so, it sees what the others wrote before; it must read
/// that as volatile, past the caches of its processor.
static __device__ bool is_last_block() {
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    is_last = atomicAdd(&finished_blocks, 1u) == gridDim.x - 1;
    if (is_last) finished_blocks = 0;
  }
  __syncthreads();
  __threadfence();
  return is_last;
}

/// Divides the rows evenly over the groups of threads: warps or blocks. Group g of G runs rows r with
/// rows · g / G ≤ r < rows · (g + 1) / G. Each block writes its part of the column sums to `columns`; unless `joined`
/// is null, the last block adds up the parts, in order.
template <class T, class Formula, class Spread, int operands = Row<T, Formula, Spread>::operands>
__global__ void __launch_bounds__(block_threads, 1)
    run_rows_kernel(const __grid_constant__ Formula formula, const __grid_constant__ DeviceLoop<operands + 1> rows,
                    const __grid_constant__ RowPointers<operands> all, double* columns, T* joined) {
  __shared__ typename RowExchange<Spread>::Shared shared;
  RowExchange<Spread> exchange(shared);
  HeldColumns<Formula, Spread::items> held_columns;
  double* block_columns = columns + blockIdx.x * Formula::column_sums * all.n;
  const std::int64_t groups = std::int64_t{gridDim.x} * Spread::groups,
                     group = std::int64_t{blockIdx.x} * Spread::groups + threadIdx.x / Spread::threads;
  const std::int64_t begin = rows.count * group / groups, end = rows.count * (group + 1) / groups;
  for (std::int64_t r = begin; r < end; ++r) {
    std::int64_t offset[operands + 1];
    rows.offsets(r, offset);
    Row<T, Formula, Spread> row(all, offset, block_columns, held_columns, exchange);
    formula(row);
  }
  if constexpr (Formula::column_sums > 0 && Spread::items > 0)
    write_columns<T, Formula, Spread>(held_columns, all.n, block_columns);
  if constexpr (Formula::column_sums > 0)
    if (joined && is_last_block())
      for (std::int64_t column = threadIdx.x; column < Formula::column_sums * all.n; column += block_threads) {
        const volatile double* part = columns + column;
        double total = 0;
        for (unsigned block = 0; block < gridDim.x; ++block) total += part[block * Formula::column_sums * all.n];
        joined[column] = static_cast<T>(total);
      }
}

}  // namespace fovea::cuda
