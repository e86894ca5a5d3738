// The GPU's kernels for copy, which casts, broadcasts and permutes elements, fill and arange.
#include <optional>

#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/formula/cast.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

template <class To, class From>
__global__ void copy_elements(RunLoop<2, pack_width<To, From>> loop, To* to, const From* from) {
  constexpr int width = pack_width<To, From>;
  for_elements(loop.runs(), [&](std::int64_t run) {
    std::int64_t offset[2];
    const int count = loop.start_of_run(run, offset);
    From x[width];
    load_elements(from + offset[1], loop.inner_step(1), loop.is_pack(1, count), count, x);
    To y[width];
#pragma unroll
    for (int i = 0; i < width; ++i) y[i] = cast_element<To>(x[i]);
    store_elements(y, to + offset[0], loop.inner_step(0), loop.is_pack(0, count), count);
  });
}

/// A copy of matrices whose rows are contiguous in the destination, and whose columns are contiguous in the source.
struct Transposition {
  DeviceLoop<2> matrices;  ///< where each matrix begins in the destination and in the source
  std::int64_t rows, columns;
  std::int64_t to_step, from_step;  ///< between the rows of the destination, and the columns of the source
};

constexpr int tile = 32;

/// Each block moves tiles of 32 x 32 elements through shared memory, so that neighbouring threads read and write
/// neighbouring elements.
template <class To, class From>
__global__ void transpose_tiles(Transposition all, To* to, const From* from) {
  __shared__ SharedArray<From, tile*(tile + 1)> elements;  // one more column, for threads to reach all banks at once
  const std::int64_t across = (all.columns + tile - 1) / tile, down = (all.rows + tile - 1) / tile;
  const int lane = static_cast<int>(threadIdx.x) % tile, first = static_cast<int>(threadIdx.x) / tile;
  for (std::int64_t number = blockIdx.x; number < all.matrices.count * across * down; number += gridDim.x) {
    const std::int64_t matrix = quotient(number, across * down), in_matrix = number - matrix * across * down;
    const std::int64_t row = quotient(in_matrix, across) * tile, column = (in_matrix % across) * tile;
    std::int64_t offset[2];
    all.matrices.offsets(matrix, offset);
    for (int c = first; c < tile; c += block_threads / tile)
      if (row + lane < all.rows && column + c < all.columns)
        elements[c * (tile + 1) + lane] = from[offset[1] + row + lane + (column + c) * all.from_step];
    __syncthreads();
    for (int r = first; r < tile; r += block_threads / tile)
      if (row + r < all.rows && column + lane < all.columns)
        to[offset[0] + (row + r) * all.to_step + column + lane] = cast_element<To>(elements[lane * (tile + 1) + r]);
    __syncthreads();
  }
}

/// Returns the loop as a Transposition if it is one of matrices that are large enough for tiles.
std::optional<Transposition> transposition(const ElementLoop<2>& loop) {
  constexpr std::int64_t smallest = 8;
  const int last = loop.rank() - 1;
  if (loop.strides[0][last] != 1 || loop.strides[1][last] <= 1 || loop.inner() < smallest) return {};
  for (int row = 0; row < last; ++row) {
    if (loop.strides[1][row] != 1 || loop.shape[row] < smallest) continue;
    ElementLoop<2> matrices;
    for (int d = 0; d < last; ++d) {
      if (d == row) continue;
      matrices.shape.push_back(loop.shape[d]);
      for (int k = 0; k < 2; ++k) matrices.strides[k].push_back(loop.strides[k][d]);
    }
    matrices.shape.push_back(1);
    for (int k = 0; k < 2; ++k) matrices.strides[k].push_back(0);
    return Transposition{DeviceLoop<2>(matrices), loop.shape[row], loop.inner(), loop.strides[0][row],
                         loop.strides[1][last]};
  }
  return {};
}

template <class To, class From>
void transpose(const Transposition& all, std::int64_t bytes, To* to, const From* from) {
  const std::int64_t tiles = all.matrices.count * ((all.columns + tile - 1) / tile) * ((all.rows + tile - 1) / tile);
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20));
  launch("copy", bytes, transpose_tiles<To, From>, {blocks}, all, to, from);
}

void copy(Tensor& to, const Tensor& from) {
  const ElementLoop<2> loop = plan_loop<2>(to.shape(), {&to, &from});
  const auto transposed = transposition(loop);
  visit(to.dtype(), [&](auto to_type) {
    visit(from.dtype(), [&](auto from_type) {
      using To = typename decltype(to_type)::type;
      using From = typename decltype(from_type)::type;
      To* first = to.mutable_data<To>();
      if (transposed) return transpose(*transposed, traffic(to, from), first, from.data<From>());
      const RunLoop<2, pack_width<To, From>> runs(loop, {first, from.data<From>()}, {sizeof(To), sizeof(From)});
      launch("copy", traffic(to, from), copy_elements<To, From>, {blocks_for(runs.runs())}, runs, first,
             from.data<From>());
    });
  });
}

template <class T>
__global__ void fill_elements(RunLoop<1, widest_pack<T>> loop, T* to, T value) {
  for_elements(loop.runs(), [&](std::int64_t run) {
    std::int64_t offset[1];
    const int count = loop.start_of_run(run, offset);
    T values[widest_pack<T>];
#pragma unroll
    for (T& x : values) x = value;
    store_elements(values, to + offset[0], loop.inner_step(0), loop.is_pack(0, count), count);
  });
}

void fill(Tensor& to, double value) {
  visit(to.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* first = to.mutable_data<T>();
    const RunLoop<1, widest_pack<T>> loop(plan_loop<1>(to.shape(), {&to}), {first}, {sizeof(T)});
    launch("fill", traffic(to), fill_elements<T>, {blocks_for(loop.runs())}, loop, first, cast_element<T>(value));
  });
}

template <class T>
__global__ void count_up(T* to, std::int64_t count, std::int64_t start) {
  for_elements(count, [&](std::int64_t element) { to[element] = cast_element<T>(start + element); });
}

void arange(Tensor& out, std::int64_t start) {
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("arange", traffic(out), count_up<T>, {blocks_for(out.elements())}, out.mutable_data<T>(), out.elements(),
           start);
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.copy = copy;
  table.fill = fill;
  table.arange = arange;
});

}  // namespace

}  // namespace fovea::cuda
