// The GPU's kernels that gather elements or rows by index, and those that scatter and add, which are the backward pass
// of gathering. Elements are added in a fixed order, so results repeat bit for bit.
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "cuda/index_report.h"
#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

/// Reports index number `at` if it is outside of its range, unless an earlier kernel has reported one. Of several such
/// indices the first is reported: they are rare, and a thread that meets one looks for another before it, back to the
/// beginning.
template <class Index>
__device__ void report_if_outside(const RangeCheck& check, const Index* index, std::int64_t at, IndexReport* report) {
  if (check.holds(index[at])) return;
  for (std::int64_t e = at - 1; e >= 0; --e)
    if (!check.holds(index[e])) return;
  if (report->is_written) return;
  report->check = check;
  report->position = at;
  report->value = index[at];
  __threadfence_system();  // the host, when it sees that the report is written, also sees what was written before
  *static_cast<volatile unsigned*>(&report->is_written) = 1;
}

template <class Index>
__global__ void report_outside(const __grid_constant__ RangeCheck check, const Index* index, std::int64_t count,
                               IndexReport* report) {
  for_elements(count, [&](std::int64_t e) { report_if_outside(check, index, e, report); });
}

void check_range(const RangeCheck& check, const Tensor& index) {
  const Tensor packed = index.contiguous();
  visit_index(check.what, index.dtype(), [&](auto type) {
    using Index = typename decltype(type)::type;
    launch("check_range", traffic(packed), report_outside<Index>, {blocks_for(index.elements())}, check,
           packed.data<Index>(), index.elements(), index_report());
  });
}

/// Copies rows of `width` units each; neighbouring rows of the table are `table_step` units apart.
template <class Unit, class Index>
__global__ void gather_units(const __grid_constant__ RangeCheck check, IndexReport* report, const Unit* table,
                             std::int64_t table_step, const Index* index, Unit* out, std::int64_t count,
                             std::int64_t width) {
  require_aligned(table, alignof(Unit));
  require_aligned(out, alignof(Unit));
  for_elements(count * width, [&](std::int64_t e) {
    const std::int64_t place = quotient(e, width), column = e - place * width, row = index[place];
    if (column == 0) report_if_outside(check, index, place, report);
    out[e] = check.holds(row) ? table[row * table_step + column] : Unit{};
  });
}

/// Calls body(Type<Unit>{}) with the largest type of up to 16 bytes whose size divides `bytes`, a combination of sizes
/// and addresses.
template <class Body>
void visit_unit(std::uintptr_t bytes, const Body& body) {
  if (bytes % 16 == 0) return body(Type<Pack<std::uint64_t, 2>>{});
  if (bytes % 8 == 0) return body(Type<std::uint64_t>{});
  if (bytes % 4 == 0) return body(Type<std::uint32_t>{});
  if (bytes % 2 == 0) return body(Type<std::uint16_t>{});
  body(Type<std::uint8_t>{});
}

void gather_rows(const RangeCheck& check, const Tensor& table, const Tensor& index, Tensor& out) {
  const std::int64_t count = index.elements(), width = table.size(1);
  if (out.elements() == 0) return check_range(check, index);
  if (!out.is_contiguous()) {
    Tensor packed = Tensor::empty(out.shape(), out.dtype(), out.device());
    gather_rows(check, table, index, packed);
    return out.copy_from(packed);
  }
  const Tensor rows = table.strides()[1] == 1 || width == 1 ? table : table.contiguous();
  const Tensor packed_index = index.contiguous();
  const auto size = static_cast<std::int64_t>(size_of(table.dtype()));
  const std::int64_t row_bytes = width * size, step_bytes = rows.strides()[0] * size;
  std::byte* to = out.mutable_address();
  const auto alike = static_cast<std::uintptr_t>(row_bytes) | static_cast<std::uintptr_t>(step_bytes) |
                     reinterpret_cast<std::uintptr_t>(rows.address()) | reinterpret_cast<std::uintptr_t>(to);
  visit_index("gather_rows", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    visit_unit(alike, [&](auto type) {
      using Unit = typename decltype(type)::type;
      constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
      launch("gather_rows", 2 * traffic(out) + traffic(packed_index), gather_units<Unit, Index>,
             {blocks_for(count * row_bytes / unit)}, check, index_report(),
             reinterpret_cast<const Unit*>(rows.address()), step_bytes / unit, packed_index.data<Index>(),
             reinterpret_cast<Unit*>(to), count, row_bytes / unit);
    });
  });
}

/// Writes the number of the table's row that each index names, or `table_rows` for an index outside, and the places 0,
/// 1, ... of the indices.
template <class Index>
__global__ void number_rows(const __grid_constant__ RangeCheck check, IndexReport* report, const Index* index,
                            std::uint32_t count, std::uint32_t table_rows, std::uint32_t* row, std::uint32_t* place) {
  for_elements(count, [&](std::int64_t e) {
    report_if_outside(check, index, e, report);
    row[e] = check.holds(index[e]) ? static_cast<std::uint32_t>(index[e]) : table_rows;
    place[e] = static_cast<std::uint32_t>(e);
  });
}

/// The indices of scatter_add_rows in the order of the rows that they name; equal ones in their own order. They are
/// divided into chunks, so that a row that many indices name is added up by many threads.
struct SortedIndices {
  static constexpr std::int64_t chunk = 32;
  const std::uint32_t* row;    ///< of the table
  const std::uint32_t* place;  ///< of the index
  std::int64_t count, table_rows;

  __host__ __device__ std::int64_t chunks() const { return (count + chunk - 1) / chunk; }
  /// Whether indices i − 1 and i name the same row.
  __device__ bool continues(std::int64_t i) const { return 0 < i && i < count && row[i] == row[i - 1]; }
};

/// Adds the rows of one chunk, for one column in each thread. The total of indices that name the same row is added to
/// the table if all of them lie in the chunk. Otherwise it is a part: parts[chunk][0] if the row began in an earlier
/// chunk, parts[chunk][1] if it begins in this one.
template <class T>
__global__ void add_chunks(SortedIndices sorted, const T* rows, T* table, double* parts, std::int64_t width) {
  for_elements(sorted.chunks() * width, [&](std::int64_t e) {
    const std::int64_t chunk = quotient(e, width), column = e - chunk * width, begin = chunk * sorted.chunk;
    const std::int64_t end = begin + sorted.chunk < sorted.count ? begin + sorted.chunk : sorted.count;
    for (std::int64_t i = begin; i < end;) {
      const std::int64_t first = i, row = sorted.row[first];
      if (row >= sorted.table_rows) return;
      double total = 0;
      do total += static_cast<double>(rows[sorted.place[i] * width + column]);
      while (++i < end && sorted.continues(i));
      const bool begins_here = !sorted.continues(first), ends_here = !sorted.continues(i);
      if (begins_here && ends_here)
        table[row * width + column] = static_cast<T>(static_cast<double>(table[row * width + column]) + total);
      else
        parts[(2 * chunk + begins_here) * width + column] = total;
    }
  });
}

/// Joins the parts of each row of the table that has several, in order, and adds them to the table.
template <class T>
__global__ void join_chunks(SortedIndices sorted, const double* parts, T* table, std::int64_t width) {
  for_elements(sorted.chunks() * width, [&](std::int64_t e) {
    std::int64_t chunk = quotient(e, width), end = (chunk + 1) * sorted.chunk;
    const std::int64_t column = e - chunk * width, begin = chunk * sorted.chunk;
    const std::int64_t row = end < sorted.count ? sorted.row[end] : sorted.table_rows;
    if (row >= sorted.table_rows || !sorted.continues(end)) return;
    if (sorted.row[begin] == row && sorted.continues(begin)) return;  // the row began in an earlier chunk
    double total = parts[(2 * chunk + 1) * width + column];
    for (; sorted.continues(end) && sorted.row[end] == row; end += sorted.chunk)
      total += parts[2 * ++chunk * width + column];
    table[row * width + column] = static_cast<T>(static_cast<double>(table[row * width + column]) + total);
  });
}

/// Checks and sorts the indices. `storage` keeps the result alive.
SortedIndices sorted_indices(const RangeCheck& range, const Tensor& index, std::int64_t table_rows, Tensor& storage) {
  const std::int64_t count = index.elements();
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require(count <= most && table_rows < most, "scatter_add_rows: {} indices into {} rows; at most {} of each", count,
          table_rows, most);
  storage = Tensor::empty({4, count}, DType::i32, Device::cuda);
  auto* row = reinterpret_cast<std::uint32_t*>(storage.mutable_address());
  std::uint32_t *place = row + count, *sorted_row = place + count, *sorted_place = sorted_row + count;
  const Tensor packed = index.contiguous();
  visit_index("scatter_add_rows", index.dtype(), [&](auto type) {
    using Index = typename decltype(type)::type;
    launch("scatter_add_rows", traffic(packed) + 8 * count, number_rows<Index>, {blocks_for(count)}, range,
           index_report(), packed.data<Index>(), static_cast<std::uint32_t>(count),
           static_cast<std::uint32_t>(table_rows), row, place);
  });
  auto sort = [&](void* scratch, std::size_t& bytes) {
    const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(table_rows)));
    check(cub::DeviceRadixSort::SortPairs(scratch, bytes, row, sorted_row, place, sorted_place, static_cast<int>(count),
                                          0, bits, stream()),
          "scatter_add_rows");
  };
  std::size_t bytes = 0;
  sort(nullptr, bytes);
  const Tensor scratch = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8, Device::cuda);
  sort(scratch.mutable_address(), bytes);
  launched("sort", 16 * count * ((std::bit_width(static_cast<std::uint64_t>(table_rows)) + 7) / 8));  // 8 bits a pass
  return {sorted_row, sorted_place, count, table_rows};
}

void scatter_add_rows(const RangeCheck& range, Tensor& table, const Tensor& index, const Tensor& rows) {
  const std::int64_t width = table.size(1);
  if (width == 0) return check_range(range, index);
  if (!table.is_contiguous()) {
    Tensor packed = table.clone();
    scatter_add_rows(range, packed, index, rows);
    return table.copy_from(packed);
  }
  Tensor storage;
  const SortedIndices sorted = sorted_indices(range, index, table.size(0), storage);
  const Tensor packed_rows = rows.contiguous(),
               parts = Tensor::empty({2 * sorted.chunks(), width}, DType::f64, Device::cuda);
  const unsigned blocks = blocks_for(sorted.chunks() * width);
  visit_real("scatter_add_rows", table.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* to = table.mutable_data<T>();
    launch("scatter_add_rows", 3 * traffic(packed_rows) + 8 * sorted.count, add_chunks<T>, {blocks}, sorted,
           packed_rows.data<T>(), to, parts.mutable_data<double>(), width);
    if (sorted.chunks() > 1)
      launch("scatter_add_rows", traffic(parts), join_chunks<T>, {blocks}, sorted, parts.data<double>(), to, width);
  });
}

/// Returns a view of x with the first element of each row only, [..., 1].
Tensor first_of_rows(const Tensor& x) {
  Shape shape = x.shape(), strides = x.strides();
  shape[-1] = 1;
  return x.as_strided(shape, strides);
}

template <class T, class Index>
__global__ void gather_along_rows(RunLoop<3, pack_width<T, Index>> loop, T* out, const T* x, std::int64_t size,
                                  std::int64_t step, const Index* index) {
  constexpr int width = pack_width<T, Index>;
  for_elements(loop.runs(), [&](std::int64_t run) {
    std::int64_t offset[3];
    const int count = loop.start_of_run(run, offset);
    Index place[width];
    load_elements(index + offset[2], loop.inner_step(2), loop.is_pack(2, count), count, place);
    T gathered[width];
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const T* row = x + offset[1] + (i < count ? i : 0) * loop.inner_step(1);
      gathered[i] = 0 <= place[i] && place[i] < size ? row[place[i] * step] : T(0);
    }
    store_elements(gathered, out + offset[0], loop.inner_step(0), loop.is_pack(0, count), count);
  });
}

void gather_last(const Tensor& x, const Tensor& index, Tensor& out) {
  if (out.elements() == 0) return;
  const Tensor firsts = first_of_rows(x);
  const ElementLoop<3> planned = plan_loop<3>(out.shape(), {&out, &firsts, &index});
  visit_index("gather_last", index.dtype(), [&](auto index_type) {
    using Index = typename decltype(index_type)::type;
    visit(x.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      T* first = out.mutable_data<T>();
      const RunLoop<3, pack_width<T, Index>> loop(planned, {first, x.data<T>(), index.data<Index>()},
                                                  {sizeof(T), sizeof(T), sizeof(Index)});
      launch("gather_last", 2 * traffic(out) + traffic(index), gather_along_rows<T, Index>, {blocks_for(loop.runs())},
             loop, first, x.data<T>(), x.size(-1), x.strides()[-1], index.data<Index>());
    });
  });
}

constexpr int warps = block_threads / warp_lanes;
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
      launch("scatter_add_last", traffic(x, index, out), add_along_rows<T, Index>, {blocks}, all, out.mutable_data<T>(),
             x.data<T>(), index.data<Index>());
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
