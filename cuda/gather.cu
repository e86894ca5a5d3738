// The GPU's kernels that gather rows of a table by index and that add rows to a table by index. Rows are added in a
// fixed order, so results repeat bit for bit.
#include "cuda/collectives.h"
#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

/// Finds the lowest position whose index is neither in 0 to size − 1 nor `ignored`.
template <class Index>
__global__ void find_first_outside(const Index* index, std::int64_t count, std::int64_t size, std::int64_t ignored,
                                   unsigned long long* first) {
  for_elements(count, [&](std::int64_t e) {
    if ((index[e] < 0 || index[e] >= size) && index[e] != ignored) atomicMin(first, static_cast<unsigned long long>(e));
  });
}

std::int64_t first_outside(const Tensor& index, std::int64_t size, std::int64_t ignored) {
  Tensor found = Tensor::full({1}, -1, DType::i64, Device::cuda);  // −1, read as unsigned, is the greatest number
  Tensor packed = index.contiguous();
  visit_index("first_outside", index.dtype(), [&](auto type) {
    using Index = typename decltype(type)::type;
    launch("first_outside", find_first_outside<Index>, {blocks_for(index.elements())}, packed.data<Index>(),
           index.elements(), size, ignored, reinterpret_cast<unsigned long long*>(found.mutable_data<std::int64_t>()));
  });
  return found.to(Device::cpu).data<std::int64_t>()[0];
}

template <class T, class Index>
__global__ void gather_elements(const T* table, const Index* index, T* out, std::int64_t count, std::int64_t width) {
  for_elements(count * width, [&](std::int64_t e) { out[e] = table[index[e / width] * width + e % width]; });
}

/// Adds rows to their rows of the table. Each block takes one row of the table at a time, searches all indices for that
/// row, tile by tile, and adds the matching rows in order.
template <class T, class Index>
__global__ void add_rows(T* table, std::int64_t table_rows, const Index* index, const T* rows, std::int64_t count,
                         std::int64_t width) {
  using BlockScan = cub::BlockScan<int, block_threads>;
  __shared__ typename BlockScan::TempStorage shared;
  __shared__ SharedArray<std::int64_t, block_threads> mine;
  for (std::int64_t row = blockIdx.x; row < table_rows; row += gridDim.x) {
    for (std::int64_t tile = 0; tile < count; tile += block_threads) {
      std::int64_t position = tile + threadIdx.x;
      int is_mine = position < count && index[position] == row, place, found;
      BlockScan(shared).ExclusiveSum(is_mine, place, found);
      if (is_mine) mine[place] = position;
      __syncthreads();
      for (std::int64_t column = threadIdx.x; column < width && found > 0; column += block_threads) {
        T total = table[row * width + column];
        for (int k = 0; k < found; ++k) total += rows[mine[k] * width + column];
        table[row * width + column] = total;
      }
      __syncthreads();
    }
  }
}

void gather_rows(const Tensor& table, const Tensor& index, Tensor& out) {
  std::int64_t count = index.elements(), width = table.size(1);
  if (out.elements() == 0) return;
  if (!out.is_contiguous()) {
    Tensor packed = Tensor::empty(out.shape(), out.dtype(), out.device());
    gather_rows(table, index, packed);
    return out.copy_from(packed);
  }
  Tensor packed_table = table.contiguous(), packed_index = index.contiguous();
  visit_index("gather_rows", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    const Index* first = packed_index.data<Index>();
    visit(table.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("gather_rows", gather_elements<T, Index>, {blocks_for(count * width)}, packed_table.data<T>(), first,
             out.mutable_data<T>(), count, width);
    });
  });
}

void scatter_add_rows(Tensor& table, const Tensor& index, const Tensor& rows) {
  std::int64_t count = index.elements(), width = table.size(1);
  if (count == 0 || width == 0) return;
  if (!table.is_contiguous()) {
    Tensor packed = table.clone();
    scatter_add_rows(packed, index, rows);
    return table.copy_from(packed);
  }
  Tensor packed_rows = rows.contiguous(), packed_index = index.contiguous();
  visit_index("scatter_add_rows", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    const Index* first = packed_index.data<Index>();
    visit_real("scatter_add_rows", table.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      auto blocks = static_cast<unsigned>(std::min<std::int64_t>(table.size(0), 1 << 16));
      launch("scatter_add_rows", add_rows<T, Index>, {blocks}, table.mutable_data<T>(), table.size(0), first,
             packed_rows.data<T>(), count, width);
    });
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.first_outside = first_outside;
  table.gather_rows = gather_rows;
  table.scatter_add_rows = scatter_add_rows;
});

}  // namespace

}  // namespace fovea::cuda
