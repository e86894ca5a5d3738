// Element-wise formulas with several results on the CPU.
#include "tensor/cpu/map_loop.h"
#include "tensor/element_loop.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

/// A run of `count` elements: vectors from every input, and the formula's results to every output.
template <class T, class F, std::size_t... o, std::size_t... i>
void map_run(const F& f, const std::array<T*, F::outputs>& to, const std::array<const T*, F::inputs>& from,
             const std::array<std::int64_t, F::outputs + F::inputs>& step, std::int64_t count,
             std::index_sequence<o...>, std::index_sequence<i...>) {
  constexpr std::int64_t lanes = Vec<T>::lanes;
  constexpr std::size_t m = F::outputs;
  for (std::int64_t e = 0; e < count; e += lanes) {
    const int rest = static_cast<int>(std::min(lanes, count - e));
    std::array<Vec<T>, m> y = f(load_lanes(from[i] + e * step[m + i], step[m + i], rest)...);
    (store_lanes(y[o], to[o] + e * step[o], step[o], rest), ...);
  }
}

template <class F>
void map_several(const F& f, Tensor* const* out, const Tensor* const* in) {
  constexpr std::size_t m = F::outputs, n = F::inputs;
  std::array<const Tensor*, m + n> operands;
  std::copy_n(out, m, operands.begin());
  std::copy_n(in, n, operands.begin() + m);
  auto loop = plan_loop<m + n>(out[0]->shape(), operands);
  visit_real(F::name, out[0]->dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::array<T*, m> first_out;
    std::array<const T*, n> first_in;
    std::array<std::int64_t, m + n> step;
    for (std::size_t k = 0; k < m; ++k) first_out[k] = out[k]->mutable_data<T>();
    for (std::size_t k = 0; k < n; ++k) first_in[k] = in[k]->data<T>();
    for (std::size_t k = 0; k < m + n; ++k) step[k] = loop.strides[k][-1];
    auto run = [&](const std::array<std::int64_t, m + n>& offset, std::int64_t count) {
      std::array<T*, m> to;
      std::array<const T*, n> from;
      for (std::size_t k = 0; k < m; ++k) to[k] = first_out[k] + offset[k];
      for (std::size_t k = 0; k < n; ++k) from[k] = first_in[k] + offset[m + k];
      map_run<T>(f, to, from, step, count, std::make_index_sequence<m>{}, std::make_index_sequence<n>{});
    };
    for_runs<m + n>(loop, run, F::cost);
  });
}

template <class... Formulas>
void provide_all(Kernels& table, FunctorList<Formulas...>) {
  ((table.several[place_of<Formulas>(formula::CellFormulas{})] =
        [](const void* f, Tensor* const* out, const Tensor* const* in) {
          map_several(*static_cast<const Formulas*>(f), out, in);
        }),
   ...);
}

const Provide provide(Device::cpu, [](Kernels& table) { provide_all(table, formula::CellFormulas{}); });

}  // namespace
}  // namespace fovea::cpu
