// The GPU's kernels that gather elements or rows by index, and those that scatter and add, which are the backward pass
// of gathering. Elements are added in a fixed order, so results repeat bit for bit.
#include "cuda/collectives.h"
#include "cuda/index_report.h"
#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

/// Reports the first index that is outside of its range, unless an earlier kernel has reported one. An index that is
/// outside is rare, so that its thread may look for one before it; only one thread finds none, and writes.
template <class Index>
__global__ void report_first_outside(RangeCheck check, const Index* index, std::int64_t count, IndexReport* report) {
  for_elements(count, [&](std::int64_t e) {
    if (check.holds(index[e]) || report->is_written) return;
    for (std::int64_t before = 0; before < e; ++before)
      if (!check.holds(index[before])) return;
    *report = {check, e, index[e], true};
  });
}

void check_range(const RangeCheck& check, const Tensor& index) {
  Tensor packed = index.contiguous();
  visit_index(check.what, index.dtype(), [&](auto type) {
    using Index = typename decltype(type)::type;
    launch("check_range", report_first_outside<Index>, {blocks_for(index.elements())}, check, packed.data<Index>(),
           index.elements(), index_report());
  });
}

/// Returns element `i` of an array that has `size` elements, `step` apart, or 0 if there is none.
template <class T>
__device__ T element_or_zero(const T* first, std::int64_t i, std::int64_t size, std::int64_t step) {
  return 0 <= i && i < size ? first[i * step] : T(0);
}

template <class T, class Index>
__global__ void gather_elements(const T* table, std::int64_t table_rows, const Index* index, T* out, std::int64_t count,
                                std::int64_t width) {
  for_elements(count * width, [&](std::int64_t e) {
    out[e] = element_or_zero(table + e % width, index[e / width], table_rows, width);
  });
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
      launch("gather_rows", gather_elements<T, Index>, {blocks_for(count * width)}, packed_table.data<T>(),
             table.size(0), first, out.mutable_data<T>(), count, width);
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

/// Returns a view of x with the first element of each row only, [..., 1].
Tensor first_of_rows(const Tensor& x) {
  Shape shape = x.shape(), strides = x.strides();
  shape[-1] = 1;
  return x.as_strided(shape, strides);
}

template <class T, class Index>
__global__ void gather_along_rows(DeviceLoop<3> loop, T* out, const T* x, std::int64_t size, std::int64_t step,
                                  const Index* index) {
  for_elements(loop.count, [&](std::int64_t e) {
    std::int64_t offset[3];
    loop.offsets(e, offset);
    out[offset[0]] = element_or_zero(x + offset[1], index[offset[2]], size, step);
  });
}

void gather_last(const Tensor& x, const Tensor& index, Tensor& out) {
  if (out.elements() == 0) return;
  const Tensor firsts = first_of_rows(x);
  DeviceLoop<3> loop(plan_loop<3>(out.shape(), {&out, &firsts, &index}));
  visit_index("gather_last", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    visit(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("gather_last", gather_along_rows<T, Index>, {blocks_for(loop.count)}, loop, out.mutable_data<T>(),
             x.data<T>(), x.size(-1), x.strides()[-1], index.data<Index>());
    });
  });
}

constexpr int warp_lanes = 32, warps = block_threads / warp_lanes;
/// How many sums of a row a warp computes at a time, in shared memory.
constexpr std::int64_t most_sums = 512;

/// The rows of scatter_add_last: x and index have n elements, which lie `x_step` and `index_step` apart; the result has
/// `size` elements, which are contiguous.
struct ScatteredRows {
  DeviceLoop<3> rows;  ///< where each row begins in the result, x and the index
  std::int64_t n, x_step, index_step, size;
};

/// Each warp computes one row at a time, in f64. It goes over the elements of x in order, 32 at a time; of the lanes
/// with the same index, the lowest adds the elements of all of them, in order.
template <class T, class Index>
__global__ void add_along_rows(ScatteredRows all, T* out, const T* x, const Index* index) {
  __shared__ SharedArray<double, warps * most_sums> shared_sums;
  __shared__ SharedArray<double, block_threads> shared_elements;
  const int lane = static_cast<int>(threadIdx.x) % warp_lanes, warp = static_cast<int>(threadIdx.x) / warp_lanes;
  const std::int64_t sums = warp * most_sums, elements = warp * warp_lanes;  // where those of this warp begin
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + warp; row < all.rows.count;
       row += static_cast<std::int64_t>(gridDim.x) * warps) {
    std::int64_t offset[3];
    all.rows.offsets(row, offset);
    for (std::int64_t first = 0; first < all.size; first += most_sums) {
      const std::int64_t count = all.size - first < most_sums ? all.size - first : most_sums;
      for (std::int64_t k = lane; k < count; k += warp_lanes) shared_sums[sums + k] = 0;
      __syncwarp();
      for (std::int64_t tile = 0; tile < all.n; tile += warp_lanes) {
        const std::int64_t j = tile + lane;
        const std::int64_t place = j < all.n ? index[offset[2] + j * all.index_step] - first : -1;
        const bool is_summed = 0 <= place && place < count;
        if (is_summed) shared_elements[elements + lane] = static_cast<double>(x[offset[1] + j * all.x_step]);
        unsigned same = __match_any_sync(~0u, is_summed ? static_cast<int>(place) : -1);
        __syncwarp();
        if (is_summed && __ffs(static_cast<int>(same)) == lane + 1) {
          double total = shared_sums[sums + place];
          for (; same != 0; same &= same - 1) total += shared_elements[elements + __ffs(static_cast<int>(same)) - 1];
          shared_sums[sums + place] = total;
        }
        __syncwarp();
      }
      for (std::int64_t k = lane; k < count; k += warp_lanes)
        out[offset[0] + first + k] = static_cast<T>(shared_sums[sums + k]);
      __syncwarp();
    }
  }
}

void scatter_add_last(const Tensor& x, const Tensor& index, Tensor& out) {
  if (out.elements() == 0) return;
  if (x.elements() == 0) return out.fill(0);
  const Tensor out_firsts = first_of_rows(out), x_firsts = first_of_rows(x), index_firsts = first_of_rows(index);
  const ScatteredRows all{DeviceLoop<3>(plan_loop<3>(out_firsts.shape(), {&out_firsts, &x_firsts, &index_firsts})),
                          x.size(-1), x.strides()[-1], index.strides()[-1], out.size(-1)};
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>((all.rows.count + warps - 1) / warps, 1 << 16));
  visit_index("scatter_add_last", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    visit_real("scatter_add_last", x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      launch("scatter_add_last", add_along_rows<T, Index>, {blocks}, all, out.mutable_data<T>(), x.data<T>(),
             index.data<Index>());
    });
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.check_range = check_range;
  table.gather_rows = gather_rows;
  table.scatter_add_rows = scatter_add_rows;
  table.gather_last = gather_last;
  table.scatter_add_last = scatter_add_last;
});

}  // namespace

}  // namespace fovea::cuda
