// Rows by index. Adding rows back is ordered: equal indices are sorted together, stably, and summed in their order, so
// that the result repeats bit for bit.
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>

#include "cuda/launch.h"
#include "cuda/primitives.h"

namespace fovea::cuda {

namespace {

auto policy() { return thrust::cuda::par_nosync.on(stream()); }

/// Throws naming the smallest or largest index if it is not a row of the table.
template <class Index>
void check_indices(const char* what, const Index* index, std::int64_t count, std::int64_t rows) {
  if (count == 0) return;
  auto [low, high] = thrust::minmax_element(thrust::cuda::par.on(stream()), index, index + count);
  Index bounds[2];
  check(cudaMemcpyAsync(&bounds[0], low, sizeof(Index), cudaMemcpyDeviceToHost, stream()), what);
  check(cudaMemcpyAsync(&bounds[1], high, sizeof(Index), cudaMemcpyDeviceToHost, stream()), what);
  check(cudaStreamSynchronize(stream()), what);
  for (Index bound : bounds)
    require(0 <= bound && bound < rows, "{}: index {} is out of range; the table has {} rows", what, bound, rows);
}

template <class T, class Index>
__global__ void gather_elements(const T* table, const Index* index, T* out, std::int64_t count, std::int64_t width) {
  for_elements(count * width, [&](std::int64_t e) { out[e] = table[index[e / width] * width + e % width]; });
}

/// One block per run of equal indices: it adds that run's rows, in order, to the table's row.
template <class T, class Index>
__global__ void add_sorted_rows(T* table, const Index* sorted, const std::int64_t* source, const T* rows, std::int64_t count,
                                std::int64_t width) {
  for (std::int64_t first = blockIdx.x; first < count; first += gridDim.x) {
    if (first > 0 && sorted[first - 1] == sorted[first]) continue;
    for (std::int64_t column = threadIdx.x; column < width; column += blockDim.x) {
      T total = table[sorted[first] * width + column];
      for (std::int64_t r = first; r < count && sorted[r] == sorted[first]; ++r) total += rows[source[r] * width + column];
      table[sorted[first] * width + column] = total;
    }
  }
}

}  // namespace

void gather_rows(const Tensor& table, const Tensor& index, Tensor& out) {
  std::int64_t count = index.elements(), width = table.size(1);
  if (out.elements() == 0) return;
  Tensor packed_table = table.contiguous(), packed_index = index.contiguous();
  visit_index("gather_rows", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    const Index* first = packed_index.data<Index>();
    check_indices("gather_rows", first, count, table.size(0));
    visit_real("gather_rows", table.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      gather_elements<<<blocks_for(count * width), block_threads, 0, stream()>>>(packed_table.data<T>(), first, out.data<T>(),
                                                                                count, width);
    });
  });
  check(cudaGetLastError(), "gather_rows");
}

void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows) {
  std::int64_t count = index.elements(), width = table.size(1);
  if (count == 0 || width == 0) return;
  Tensor packed_rows = rows.contiguous(), sorted = index.clone(), source = Tensor::empty({count}, DType::i64, Device::cuda);
  visit_index("scatter_add_rows", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    Index* keys = sorted.data<Index>();
    auto* positions = source.data<std::int64_t>();
    check_indices("scatter_add_rows", keys, count, table.size(0));
    thrust::sequence(policy(), positions, positions + count);
    thrust::stable_sort_by_key(policy(), keys, keys + count, positions);
    visit_real("scatter_add_rows", table.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      auto blocks = static_cast<unsigned>(std::min<std::int64_t>(count, 1 << 16));
      add_sorted_rows<<<blocks, block_threads, 0, stream()>>>(table.data<T>(), keys, positions, packed_rows.data<T>(), count,
                                                              width);
    });
  });
  check(cudaGetLastError(), "scatter_add_rows");
}

}  // namespace fovea::cuda
