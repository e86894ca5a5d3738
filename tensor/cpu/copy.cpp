// The CPU's kernels for copy, which casts, broadcasts and permutes elements, fill and arange.
//
// Tried, and did not pay: filling on one thread. 16 MB took 171 µs, with two threads 87 (`benchmark kernels`).
#include <algorithm>
#include <cstring>

#include "tensor/cpu/parallel.h"
#include "tensor/element_loop.h"
#include "tensor/formula/cast.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

template <class To, class From>
void copy_row(To* to, std::int64_t to_step, const From* from, std::int64_t from_step, std::int64_t n) {
  if (to_step == 1 && from_step == 1) {
    if constexpr (std::is_same_v<To, From>)
      std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
    else
      for (std::int64_t i = 0; i < n; ++i) to[i] = cast_element<To>(from[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) to[i * to_step] = cast_element<To>(from[i * from_step]);
  }
}

void copy(Tensor& to, const Tensor& from) {
  auto loop = plan_loop<2>(to.shape(), {&to, &from});
  std::int64_t to_step = loop.strides[0][-1], from_step = loop.strides[1][-1];
  visit(to.dtype(), [&](auto to_type) {
    visit(from.dtype(), [&](auto from_type) {
      auto* target = to.mutable_data<typename decltype(to_type)::type>();
      const auto* source = from.data<typename decltype(from_type)::type>();
      for_runs<2>(loop, [&](auto& offset, std::int64_t count) {
        copy_row(target + offset[0], to_step, source + offset[1], from_step, count);
      });
    });
  });
}

void fill(Tensor& out, double value) {
  auto loop = plan_loop<1>(out.shape(), {&out});
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* to = out.mutable_data<T>();
    T constant = cast_element<T>(value);
    std::int64_t step = loop.strides[0][-1];
    for_runs<1>(loop, [&](auto& offset, std::int64_t count) {
      T* run = to + offset[0];
      if (step == 1)
        std::fill_n(run, count, constant);
      else
        for (std::int64_t i = 0; i < count; ++i) run[i * step] = constant;
    });
  });
}

void arange(Tensor& out, std::int64_t start) {
  visit(out.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    T* to = out.mutable_data<T>();
    for (std::int64_t i = 0; i < out.elements(); ++i) to[i] = cast_element<T>(start + i);
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.copy = copy;
  table.fill = fill;
  table.arange = arange;
});

}  // namespace
}  // namespace fovea::cpu
