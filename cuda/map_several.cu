// Element-wise formulas with several results on the GPU.
#include "cuda/launch.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

template <class T, class F, std::size_t... i>
__device__ std::array<T, F::outputs> results(const F& f, const std::array<const T*, F::inputs>& from,
                                             const std::int64_t* offset, std::index_sequence<i...>) {
  return f(from[i][offset[i]]...);
}

template <class T, class F>
__global__ void map_elements(F f, DeviceLoop<F::outputs + F::inputs> loop, std::array<T*, F::outputs> to,
                             std::array<const T*, F::inputs> from) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[F::outputs + F::inputs];
    loop.offsets(element, offset);
    std::array<T, F::outputs> y = results<T>(f, from, offset + F::outputs, std::make_index_sequence<F::inputs>{});
    for (int k = 0; k < F::outputs; ++k) to[k][offset[k]] = y[k];
  });
}

template <class F>
void map_several(const F& f, Tensor* const* out, const Tensor* const* in) {
  constexpr int m = F::outputs, n = F::inputs;
  std::array<const Tensor*, m + n> operands;
  for (int k = 0; k < m; ++k) operands[k] = out[k];
  for (int k = 0; k < n; ++k) operands[m + k] = in[k];
  DeviceLoop<m + n> loop(plan_loop<m + n>(out[0]->shape(), operands));
  visit_real(F::name, out[0]->dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::array<T*, m> to;
    std::array<const T*, n> from;
    for (int k = 0; k < m; ++k) to[k] = out[k]->mutable_data<T>();
    for (int k = 0; k < n; ++k) from[k] = in[k]->data<T>();
    launch(F::name, map_elements<T, F>, {blocks_for(loop.count)}, f, loop, to, from);
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

const Provide provide(Device::cuda, [](Kernels& table) { provide_all(table, formula::CellFormulas{}); });

}  // namespace

}  // namespace fovea::cuda
