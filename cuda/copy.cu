// The GPU's kernels for copy, which casts, broadcasts and permutes elements, fill and arange.
#include "cuda/launch.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

template <class To, class From>
__host__ __device__ To cast(From value) {
  if constexpr (std::is_same_v<To, bool>)
    return value != From(0);
  else
    return static_cast<To>(value);
}

template <class To, class From>
__global__ void copy_elements(DeviceLoop<2> loop, To* to, const From* from) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[2];
    loop.offsets(element, offset);
    to[offset[0]] = cast<To>(from[offset[1]]);
  });
}

template <class T>
__global__ void count_up(T* to, std::int64_t count, std::int64_t start) {
  for_elements(count, [&](std::int64_t element) { to[element] = cast<T>(start + element); });
}

template <class T>
__global__ void fill_elements(DeviceLoop<1> loop, T* to, T value) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[1];
    loop.offsets(element, offset);
    to[offset[0]] = value;
  });
}

void copy(Tensor& to, const Tensor& from) {
  DeviceLoop<2> loop(plan_loop<2>(to.shape(), {&to, &from}));
  visit(to.dtype(), [&](auto to_type) {
    visit(from.dtype(), [&](auto from_type) {
      using To = typename decltype(to_type)::type;
      using From = typename decltype(from_type)::type;
      launch("copy", copy_elements<To, From>, {blocks_for(loop.count)}, loop, to.mutable_data<To>(), from.data<From>());
    });
  });
}

void fill(Tensor& to, double value) {
  DeviceLoop<1> loop(plan_loop<1>(to.shape(), {&to}));
  visit(to.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("fill", fill_elements<T>, {blocks_for(loop.count)}, loop, to.mutable_data<T>(), cast<T>(value));
  });
}

void arange(Tensor& out, std::int64_t start) {
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("arange", count_up<T>, {blocks_for(out.elements())}, out.mutable_data<T>(), out.elements(), start);
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.copy = copy;
  table.fill = fill;
  table.arange = arange;
});

}  // namespace

}  // namespace fovea::cuda
