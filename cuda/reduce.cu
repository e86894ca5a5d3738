// Reductions on the GPU, over any dimensions of tensors with any strides. Where the reduced elements are neighbours, a
// warp or a block computes a result; where the results are neighbours, a block computes a tile of columns. Large
// reductions with few results are divided into parts, which are joined in order. Totals of f32 and f64 are f64. The
// order of additions depends on the sizes alone, so results repeat.
#include <algorithm>
#include <cub/block/block_reduce.cuh>
#include <limits>
#include <span>
#include <vector>

#include "cuda/launch.h"
#include "cuda/piece_table.h"
#include "cuda/shared_memory.h"
#include "tensor/formula/reductions.h"
#include "tensor/provide.h"
#include "tensor/reduce.h"
#include "tensor/reduction_loops.h"

namespace fovea::cuda {

namespace {

/// A reduction's rule for joining two values, as the function object that CUB takes.
template <class Op>
struct Join {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return Op::join(a, b);
  }
};

/// The type of a total: f64 for floating-point numbers, i64 for integers and bool, whose sums are exact.
template <class T>
using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

/// The type of a result: i64 for integers and bool, and the type of the elements otherwise.
template <class T>
using Result = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;

/// The arguments of a reduction's kernels. Each result is the total of `reduced.count` elements of x. For each result,
/// `kept` gives the offset of its first element in x (operand 0) and its own offset among the results (operand 1).
template <int width>
struct Reduction {
  DeviceLoop<2> kept;
  RunLoop<1, width> reduced;
  /// Each result is computed in so many parts, by different groups of threads.
  std::int64_t parts;
};

/// Where a part's total goes: to the result if it is the only part, else to parts[part][result].
template <class T>
struct Totals {
  Result<T>* out;
  Total<T>* parts;
  __device__ void write(std::int64_t results, std::int64_t part, std::int64_t result, std::int64_t offset,
                        Total<T> total) const {
    if (parts)
      parts[part * results + result] = total;
    else
      out[offset] = static_cast<Result<T>>(total);
  }
};

/// Computes results whose elements are neighbours: `group` threads, a warp or a block, compute one part of a result at
/// a time.
template <class T, class Op, int group>
__global__ void reduce_rows(const __grid_constant__ Reduction<widest_pack<T>> all, const T* x, Totals<T> totals) {
  using BlockReduce = cub::BlockReduce<Total<T>, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  constexpr int width = widest_pack<T>, groups = block_threads / group;
  const int thread = static_cast<int>(threadIdx.x) % group;
  const std::int64_t runs = all.reduced.runs(), items = all.kept.count * all.parts;
  for (std::int64_t item = std::int64_t{blockIdx.x} * groups + threadIdx.x / group; item < items;
       item += std::int64_t{gridDim.x} * groups) {
    const std::int64_t result = quotient(item, all.parts), part = item - result * all.parts;
    std::int64_t offset[2];
    all.kept.offsets(result, offset);
    auto total = static_cast<Total<T>>(Op::identity);
    const std::int64_t end = runs * (part + 1) / all.parts;
    for (std::int64_t run = runs * part / all.parts + thread; run < end; run += group) {
      std::int64_t start[1];
      const int count = all.reduced.start_of_run(run, start);
      T values[width];
      load_elements(x + offset[0] + start[0], all.reduced.inner_step(0), all.reduced.is_pack(0, count), count, values);
#pragma unroll
      for (int i = 0; i < width; ++i)
        if (i < count) total = Op::join(total, static_cast<Total<T>>(values[i]));
    }
    if constexpr (group == warp_lanes) {
      for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
        total = Op::join(total, __shfl_xor_sync(~0u, total, distance));
    } else {
      total = BlockReduce(shared).Reduce(total, Join<Op>{});
      __syncthreads();
    }
    if (thread == 0) totals.write(all.kept.count, part, result, offset[1], total);
  }
}

/// How many threads of a block add elements of the same columns; neighbouring threads have neighbouring columns.
constexpr int column_lanes = 32, row_lanes = block_threads / column_lanes;

/// Computes results that are neighbours, the totals of columns: the last dimension of `kept`. Each block computes one
/// part of `column_lanes` x `width` columns at a time; `reduced` walks the elements of a column.
template <class T, class Op, int width>
__global__ void reduce_columns(const __grid_constant__ RunLoop<2, width> kept,
                               const __grid_constant__ DeviceLoop<1> reduced, std::int64_t parts, const T* x,
                               Totals<T> totals) {
  __shared__ SharedArray<Total<T>, block_threads * width> shared;
  const int lane = static_cast<int>(threadIdx.x) % column_lanes,
            row_lane = static_cast<int>(threadIdx.x) / column_lanes;
  const std::int64_t tiles = (kept.runs() + column_lanes - 1) / column_lanes;
  for (std::int64_t item = blockIdx.x; item < tiles * parts; item += gridDim.x) {
    const std::int64_t tile = quotient(item, parts), part = item - tile * parts, run = tile * column_lanes + lane;
    const bool is_inside = run < kept.runs();
    std::int64_t offset[2] = {0, 0};
    const int count = is_inside ? kept.start_of_run(run, offset) : 0;
    Total<T> total[width];
#pragma unroll
    for (Total<T>& each : total) each = static_cast<Total<T>>(Op::identity);
    const std::int64_t end = reduced.count * (part + 1) / parts;
    for (std::int64_t row = reduced.count * part / parts + row_lane; row < end && is_inside; row += row_lanes) {
      std::int64_t start[1];
      reduced.offsets(row, start);
      T values[width];
      load_elements(x + offset[0] + start[0], kept.inner_step(0), kept.is_pack(0, count), count, values);
#pragma unroll
      for (int i = 0; i < width; ++i) total[i] = Op::join(total[i], static_cast<Total<T>>(values[i]));
    }
    for (int i = 0; i < width; ++i) shared[(row_lane * width + i) * column_lanes + lane] = total[i];
    __syncthreads();
    if (row_lane == 0)
      for (int i = 0; i < count; ++i) {
        Total<T> all = shared[i * column_lanes + lane];
        for (int other = 1; other < row_lanes; ++other)
          all = Op::join(all, static_cast<Total<T>>(shared[(other * width + i) * column_lanes + lane]));
        // Runs are whole but for the last of a row, so this is the number of the result in row-major order.
        const std::int64_t result = quotient(run, kept.runs_of_row) * kept.inner() + run % kept.runs_of_row * width + i;
        totals.write(kept.count, part, result, offset[1] + i * kept.inner_step(1), all);
      }
    __syncthreads();
  }
}

/// Joins the parts of each result, in order.
template <class T, class Op>
__global__ void join_parts(DeviceLoop<2> kept, std::int64_t parts, const Total<T>* totals, Result<T>* out) {
  for_elements(kept.count, [&](std::int64_t result) {
    Total<T> total = totals[result];
    for (std::int64_t part = 1; part < parts; ++part) total = Op::join(total, totals[part * kept.count + result]);
    std::int64_t offset[2];
    kept.offsets(result, offset);
    out[offset[1]] = static_cast<Result<T>>(total);
  });
}

/// Returns into how many parts the computation of each result is divided, where `items` groups of threads compute
/// results of `length` steps each: enough for `wanted` groups, but of at least `shortest` steps. Depends on sizes
/// alone, so that results repeat on every device.
std::int64_t parts_of(std::int64_t items, std::int64_t length, std::int64_t wanted, std::int64_t shortest) {
  return std::clamp<std::int64_t>(wanted / items, 1, std::max<std::int64_t>(length / shortest, 1));
}

/// Marks the runs of the first operand as not packed unless all strides of the other loop, whose offsets are added to
/// theirs, keep them aligned.
template <int operands, int width, class Other>
RunLoop<operands, width> aligned_with(RunLoop<operands, width> runs, const Other& other) {
  for (int d = 0; d < other.rank(); ++d)
    if (other.strides[0][d] % width != 0) runs.packed &= ~1u;
  return runs;
}

/// `bytes` is what x and the results have in memory.
template <class T, class Op>
void reduce_in_parts(const ReductionLoops& loops, std::int64_t bytes, const T* x, Result<T>* out) {
  constexpr int width = widest_pack<T>;
  constexpr std::int64_t wanted_blocks = 1024, most_blocks = 1 << 16, longest_of_warp = 1024;
  constexpr std::int64_t warps = block_threads / warp_lanes;
  const DeviceLoop<2> kept(loops.kept);
  const std::int64_t length = loops.reduced.shape.elements();
  Tensor scratch;
  auto totals_for = [&](std::int64_t parts) {
    if (parts > 1) scratch = Tensor::empty({parts, kept.count}, dtype_of<Total<T>>, Device::cuda);
    return Totals<T>{out, parts > 1 ? scratch.mutable_data<Total<T>>() : nullptr};
  };
  auto grid = [&](std::int64_t blocks) { return Grid{static_cast<unsigned>(std::min(blocks, most_blocks))}; };
  std::int64_t parts;
  if (loops.inner_is_kept) {
    const auto columns =
        aligned_with(RunLoop<2, width>(loops.kept, {x, out}, {sizeof(T), sizeof(Result<T>)}), loops.reduced);
    const std::int64_t tiles = (columns.runs() + column_lanes - 1) / column_lanes;
    parts = parts_of(tiles, length, wanted_blocks, 4 * row_lanes);
    launch(Op::name, bytes, reduce_columns<T, Op, width>, grid(tiles * parts), columns, DeviceLoop<1>(loops.reduced),
           parts, x, totals_for(parts));
  } else {
    const auto reduced = aligned_with(RunLoop<1, width>(loops.reduced, {x}, {sizeof(T)}), loops.kept);
    parts = length <= longest_of_warp ? 1 : parts_of(kept.count, length, wanted_blocks, 8192);
    const Reduction<width> all{kept, reduced, parts};
    if (length <= longest_of_warp)
      launch(Op::name, bytes, reduce_rows<T, Op, warp_lanes>, grid((kept.count + warps - 1) / warps), all, x,
             totals_for(1));
    else
      launch(Op::name, bytes, reduce_rows<T, Op, block_threads>, grid(kept.count * parts), all, x, totals_for(parts));
  }
  if (parts > 1)
    launch(Op::name, traffic(scratch), join_parts<T, Op>, {blocks_for(kept.count)}, kept, parts,
           scratch.data<Total<T>>(), out);
}

template <class Op>
void reduce(const Op&, const Tensor& x, Tensor& out) {
  if (out.elements() == 0) return;
  if (x.elements() == 0) return out.fill(Op::identity);
  const ReductionLoops loops(x, out);
  auto run = [&](auto type) {
    using T = typename decltype(type)::type;
    reduce_in_parts<T, Op>(loops, traffic(x, out), x.data<T>(), out.mutable_data<Result<T>>());
  };
  if constexpr (std::is_same_v<Op, formula::Sum>)
    if (!is_float(x.dtype()))
      return visit(x.dtype(), [&](auto type) {
        if constexpr (std::is_integral_v<typename decltype(type)::type>) run(type);
      });
  visit_real(Op::name, x.dtype(), run);
}

/// The tensors of one type whose norm is computed. Each block adds the squares of a piece of a tensor.
template <class T>
using NormTable = PieceTable<const T, 1, 16384>;

/// The squares of f64 may overflow or underflow. So their sums are computed three times, of elements multiplied by
/// these factors, and root_of_sum takes the first sum that is neither infinite nor very small. f32 needs the first one
/// only.
__device__ constexpr double norm_scale(int k) { return k == 0 ? 1 : k == 1 ? 0x1p-600 : 0x1p600; }
constexpr int norm_scales = 3;

/// Adds the squares of the elements in f64, and writes a sum for each piece, to sums[k * pieces + piece] for scale k.
template <class T>
__global__ void add_squares(const __grid_constant__ NormTable<T> table, double* sums, std::int64_t pieces) {
  using BlockReduce = cub::BlockReduce<double, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  constexpr int width = widest_pack<T>;
  const auto [tensor, begin, count] = table.piece();
  const T* first = table.first[tensor][0] + begin;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(first) % sizeof(Pack<T, width>) == 0;
  constexpr int scales = std::is_same_v<T, double> ? norm_scales : 1;
  double total[norm_scales] = {};
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * width; i < count; i += blockDim.x * width) {
    const int number = static_cast<int>(count - i < width ? count - i : width);
    T x[width];
    load_elements(first + i, 1, is_aligned && number == width, number, x);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (k < number)
        for (int s = 0; s < scales; ++s) {
          const double scaled = static_cast<double>(x[k]) * norm_scale(s);
          total[s] += scaled * scaled;
        }
  }
  for (int s = 0; s < scales; ++s) {
    total[s] = BlockReduce(shared).Reduce(total[s], Join<formula::Sum>{});
    __syncthreads();
  }
  for (int s = scales; s < norm_scales; ++s) total[s] = total[0] * norm_scale(s) * norm_scale(s);
  if (threadIdx.x == 0)
    for (int s = 0; s < norm_scales; ++s) sums[s * pieces + blockIdx.x] = total[s];
}

/// Writes the root of the sum of `count` numbers, which are there for each scale: one block.
__global__ void root_of_sum(const double* sums, std::int64_t count, double* root) {
  using BlockReduce = cub::BlockReduce<double, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  constexpr double least = 0x1p-900, most = std::numeric_limits<double>::max();
  double total[norm_scales] = {};
  for (int s = 0; s < norm_scales; ++s) {
    for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) total[s] += sums[s * count + i];
    total[s] = BlockReduce(shared).Reduce(total[s], Join<formula::Sum>{});
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  const int s = !(total[0] <= most) ? 1 : total[0] < least ? 2 : 0;
  *root = sqrt(total[s]) / norm_scale(s);
}

/// Writes the sums of squares of the pieces of all tensors of type T from sums[0] on, and those of the other scales
/// `all` and 2 `all` further. Returns how many there are; if `sums` is null, only counts them.
template <class T>
std::int64_t sums_of_squares(std::span<const Tensor> tensors, double* sums, std::int64_t all = 0) {
  std::int64_t pieces = 0, bytes = 0;
  NormTable<T> table;
  auto flush = [&] {
    if (sums && table.blocks() > 0)
      launch("global_norm", bytes, add_squares<T>, {table.blocks()}, table, sums + pieces, all);
    pieces += table.blocks();
    table.groups = 0, bytes = 0;
  };
  for (const Tensor& x : tensors) {
    if (x.dtype() != dtype_of<T>) continue;
    table.add(x.elements(), {x.data<T>()});
    bytes += traffic(x);
    if (table.groups == table.most) flush();
  }
  flush();
  return pieces;
}

/// The order of additions depends on the sizes of the tensors alone. The host does not wait.
void global_norm(std::span<const Tensor> tensors, Tensor& out) {
  std::vector<Tensor> dense;
  for (const Tensor& x : tensors)
    if (x.elements() > 0) dense.push_back(x.is_dense() ? x : x.contiguous());
  const std::int64_t f32_pieces = sums_of_squares<float>(dense, nullptr),
                     pieces = f32_pieces + sums_of_squares<double>(dense, nullptr);
  Tensor sums = Tensor::empty({norm_scales, pieces}, DType::f64, Device::cuda);
  double* first = sums.mutable_data<double>();
  sums_of_squares<float>(dense, first, pieces);
  sums_of_squares<double>(dense, first + f32_pieces, pieces);
  launch("global_norm", traffic(sums, out), root_of_sum, {1}, first, pieces, out.mutable_data<double>());
}

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_list(table, &Kernels::reductions, formula::Reductions{},
               [](const auto& op, const Tensor& in, Tensor& out) { reduce(op, in, out); });
  table.global_norm = global_norm;
});

}  // namespace

}  // namespace fovea::cuda
