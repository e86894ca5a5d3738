// Reductions on the GPU: one block per row, which joins its threads' totals with CUB. The order of additions depends on
// the row's length alone, so results repeat.
#include <span>
#include <vector>

#include "cuda/collectives.h"
#include "cuda/launch.h"
#include "cuda/map_groups.h"
#include "tensor/provide.h"
#include "tensor/reduce.h"

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

/// The type of a total: f64 for floating-point numbers, i64 for integers, whose sums are exact.
template <class T>
using Total = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

/// Reduces each row of n elements to its total. `rows` has the offsets of each row in `out` and `in`, and `step` is the
/// distance between the elements of a row in `in`.
template <class T, class Op>
__global__ void reduce_rows(DeviceLoop<2> rows, const T* in, T* out, std::int64_t n, std::int64_t step) {
  using BlockReduce = cub::BlockReduce<Total<T>, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  for (std::int64_t row = blockIdx.x; row < rows.count; row += gridDim.x) {
    std::int64_t offset[2];
    rows.offsets(row, offset);
    auto total = static_cast<Total<T>>(Op::identity);
    for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x)
      total = Op::join(total, static_cast<Total<T>>(in[offset[1] + j * step]));
    total = BlockReduce(shared).Reduce(total, Join<Op>{});
    if (threadIdx.x == 0) out[offset[0]] = static_cast<T>(total);
    __syncthreads();
  }
}

unsigned blocks_for_rows(std::int64_t rows) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(rows, 1, 1 << 16));
}

/// Reduces the last dimension: `in` is [..., n], and `out` is [...].
template <class Op>
void reduce_last(const Tensor& in, Tensor& out) {
  std::int64_t n = in.size(-1), step = in.strides()[-1];
  Tensor heads = n > 0 ? in.select(-1, 0) : out;
  if (out.elements() == 0) return;
  DeviceLoop<2> rows(plan_loop<2>(out.shape(), {&out, &heads}));
  auto run = [&](auto type) {
    using T = typename decltype(type)::type;
    launch(Op::name, reduce_rows<T, Op>, {blocks_for_rows(rows.count)}, rows, in.data<T>(), out.mutable_data<T>(), n,
           step);
  };
  if constexpr (std::is_same_v<Op, formula::Sum>)
    if (in.dtype() == DType::i64) return run(Type<std::int64_t>{});
  visit_real(Op::name, in.dtype(), run);
}

/// Reduces the dimensions in which `out` has size 1 and `in` has not; both have the same rank.
template <class Op>
void reduce(const Op&, const Tensor& in, Tensor& out) {
  std::array<int, Shape::max_rank> order{};
  Shape kept;
  std::int64_t reduced = 1;
  int position = 0;
  auto is_kept = [&](int d) { return out.shape()[d] == in.shape()[d]; };
  for (int d = 0; d < in.rank(); ++d)
    if (is_kept(d)) order[position++] = d, kept.push_back(in.shape()[d]);
  for (int d = 0; d < in.rank(); ++d)
    if (!is_kept(d)) order[position++] = d, reduced *= in.shape()[d];
  Tensor arranged = in.permute(std::span<const int>(order.data(), static_cast<std::size_t>(in.rank())));
  Tensor target = out.reshape(kept);
  if (kept.rank() == Shape::max_rank) return target.copy_from(arranged);  // what is reduced has size 1
  Shape rows = kept;
  rows.push_back(reduced);
  reduce_last<Op>(arranged.reshape(rows), target);
}

/// The tensors of one type whose norm is computed, as a kernel takes them by value. Each block adds the squares of one
/// piece of a tensor.
template <class T>
struct NormTable {
  static constexpr std::int64_t piece = 16384;
  static constexpr int most = 384;
  int tensors = 0;
  unsigned first_block[most + 1] = {};
  std::int64_t count[most];
  const T* first[most];

  void add(const Tensor& x) {
    count[tensors] = x.elements();
    first[tensors] = x.data<T>();
    first_block[tensors + 1] = first_block[tensors] + static_cast<unsigned>((x.elements() + piece - 1) / piece);
    ++tensors;
  }
  unsigned blocks() const { return first_block[tensors]; }
};

/// Adds the squares of the elements in f64, and writes a sum for each piece.
template <class T>
__global__ void add_squares(const __grid_constant__ NormTable<T> table, double* sums) {
  using BlockReduce = cub::BlockReduce<double, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  constexpr int width = widest_pack<T>;
  const int tensor = group_of_block(table.first_block, table.tensors, blockIdx.x);
  const std::int64_t begin = (blockIdx.x - table.first_block[tensor]) * table.piece;
  const std::int64_t left = table.count[tensor] - begin, end = left < table.piece ? left : table.piece;
  const T* first = table.first[tensor] + begin;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(first) % sizeof(Pack<T, width>) == 0;
  double total = 0;
  for (std::int64_t i = static_cast<std::int64_t>(threadIdx.x) * width; i < end; i += blockDim.x * width) {
    const int number = static_cast<int>(end - i < width ? end - i : width);
    T x[width];
    load_elements(first + i, 1, is_aligned && number == width, number, x);
#pragma unroll
    for (int k = 0; k < width; ++k)
      if (k < number) total += static_cast<double>(x[k]) * static_cast<double>(x[k]);
  }
  total = BlockReduce(shared).Reduce(total, Join<formula::Sum>{});
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/// Writes the root of the sum of `count` numbers: one block.
__global__ void root_of_sum(const double* sums, std::int64_t count, double* root) {
  using BlockReduce = cub::BlockReduce<double, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) total += sums[i];
  total = BlockReduce(shared).Reduce(total, Join<formula::Sum>{});
  if (threadIdx.x == 0) *root = sqrt(total);
}

/// Writes the sums of squares of the pieces of all tensors of type T from sums[first] on. Returns how many there are;
/// if `sums` is null, only counts them.
template <class T>
std::int64_t sums_of_squares(std::span<const Tensor> tensors, double* sums) {
  std::int64_t pieces = 0;
  NormTable<T> table;
  auto flush = [&] {
    if (sums && table.blocks() > 0) launch("global_norm", add_squares<T>, {table.blocks()}, table, sums + pieces);
    pieces += table.blocks();
    table.tensors = 0;
  };
  for (const Tensor& x : tensors) {
    if (x.dtype() != dtype_of<T>) continue;
    table.add(x);
    if (table.tensors == table.most) flush();
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
  Tensor sums = Tensor::empty({pieces}, DType::f64, Device::cuda);
  double* first = sums.mutable_data<double>();
  sums_of_squares<float>(dense, first);
  sums_of_squares<double>(dense, first + f32_pieces);
  launch("global_norm", root_of_sum, {1}, first, pieces, out.mutable_data<double>());
}

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_list(table.reductions, formula::Reductions{},
               [](const auto& op, const Tensor& in, Tensor& out) { reduce(op, in, out); });
  table.global_norm = global_norm;
});

}  // namespace

}  // namespace fovea::cuda
