// Reductions on the GPU: one block per row, which joins its threads' totals with CUB. The order of additions depends on
// the row's length alone, so results repeat.
#include <cmath>

#include "cuda/collectives.h"
#include "cuda/launch.h"
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

/// Adds the squares of the elements in f64. Block p does it for elements p · piece ≤ i < (p + 1) · piece.
template <class T>
__global__ void add_squares(const T* x, std::int64_t count, std::int64_t piece, double* sums) {
  using BlockReduce = cub::BlockReduce<double, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  const std::int64_t begin = blockIdx.x * piece, end = count - begin < piece ? count : begin + piece;
  double total = 0;
  for (std::int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    const auto element = static_cast<double>(x[i]);
    total += element * element;
  }
  total = BlockReduce(shared).Reduce(total, Join<formula::Sum>{});
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/// Returns the Euclidean norm of all elements of the tensors. The order of additions depends on the sizes of the
/// tensors alone. The host waits once, for the result.
double global_norm(std::span<const Tensor> tensors) {
  // Pieces have a fixed size, and more elements only where their number would be too large for a grid.
  auto piece_of = [](const Tensor& x) { return std::max<std::int64_t>(16384, (x.elements() >> 30) + 1); };
  auto pieces_of = [&](const Tensor& x) { return (x.elements() + piece_of(x) - 1) / piece_of(x); };
  std::int64_t pieces = 0;
  for (const Tensor& x : tensors) pieces += pieces_of(x);
  if (pieces == 0) return 0;
  Tensor sums = Tensor::empty({pieces}, DType::f64, Device::cuda);
  double* next = sums.mutable_data<double>();
  for (const Tensor& x : tensors) {
    if (x.elements() == 0) continue;
    const Tensor flat = x.is_dense() ? x : x.contiguous();
    visit_real("global_norm", flat.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("global_norm", add_squares<T>, {static_cast<unsigned>(pieces_of(x))}, flat.data<T>(), flat.elements(),
             piece_of(x), next);
    });
    next += pieces_of(x);
  }
  return std::sqrt(sum(sums, {0}).item());
}

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_list(table.reductions, formula::Reductions{},
               [](const auto& op, const Tensor& in, Tensor& out) { reduce(op, in, out); });
  table.global_norm = global_norm;
});

}  // namespace

}  // namespace fovea::cuda
