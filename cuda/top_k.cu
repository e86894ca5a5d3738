// The largest elements of each row, on the GPU, in the CPU's order: equal elements keep their order, and NaN counts as
// −inf.
#include <cub/block/block_reduce.cuh>
#include <limits>

#include "cuda/launch.h"
#include "cuda/shared_memory.h"
#include "tensor/kernels.h"
#include "tensor/top_k.h"

namespace fovea::cuda {

namespace {

/// An element of a row: its value, and its place in the row. Places make the order strict.
template <class T>
struct Element {
  T value;
  std::int64_t place;
};
struct Earlier {
  template <class T>
  __device__ static bool is_before(const Element<T>& a, const Element<T>& b) {
    return a.value > b.value || (a.value == b.value && a.place < b.place);
  }
  template <class T>
  __device__ Element<T> operator()(const Element<T>& a, const Element<T>& b) const {
    return is_before(a, b) ? a : b;
  }
};

/// Finds the first, in the order of the result, of the elements of a row that this thread looks after, among those that
/// come after `last`. Without one, its place is n.
template <class T>
__device__ Element<T> first_after(const T* row, std::int64_t n, const Element<T>& last) {
  constexpr T least = -std::numeric_limits<T>::infinity();
  Element<T> first{least, n};
  for (std::int64_t j = threadIdx.x; j < n; j += blockDim.x) {
    const Element<T> element{row[j] == row[j] ? row[j] : least, j};
    if (Earlier::is_before(last, element)) first = Earlier{}(element, first);
  }
  return first;
}

/// Each block computes one row at a time. Every thread keeps the first of its elements; the block chooses the first of
/// these, k times, and the thread that it came from finds its next one.
template <class T>
__global__ void choose_largest(const T* x, std::int64_t rows, std::int64_t n, std::int64_t k, T* values,
                               std::int32_t* index) {
  using BlockReduce = cub::BlockReduce<Element<T>, block_threads>;
  __shared__ typename BlockReduce::TempStorage shared;
  __shared__ SharedArray<Element<T>, 1> chosen;
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* elements = x + row * n;
    Element<T> mine = first_after(elements, n, Element<T>{std::numeric_limits<T>::infinity(), -1});
    for (std::int64_t place = 0; place < k; ++place) {
      const Element<T> first = BlockReduce(shared).Reduce(mine, Earlier{});
      if (threadIdx.x == 0) {
        chosen[0] = first;
        values[row * k + place] = first.value;
        index[row * k + place] = static_cast<std::int32_t>(first.place);
      }
      __syncthreads();
      // Thread 0 writes `chosen` again only after all threads have come to the next reduction.
      if (mine.place == chosen[0].place) mine = first_after(elements, n, mine);
    }
  }
}

void top_k(const Tensor& x, TopK& out) {
  const std::int64_t n = x.size(-1), rows = x.elements() / n;
  const Tensor packed = x.contiguous();
  visit_real("top_k", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(rows, 1 << 16));
    launch("top_k", traffic(packed, out.values, out.index), choose_largest<T>, {blocks}, packed.data<T>(), rows, n,
           out.values.size(-1), out.values.mutable_data<T>(), out.index.mutable_data<std::int32_t>());
  });
}

const Provide provide(Device::cuda, [](Kernels& table) { table.top_k = top_k; });

}  // namespace

}  // namespace fovea::cuda
