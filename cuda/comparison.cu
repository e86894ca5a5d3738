// Comparisons, logical operations and `where` on the GPU, element by element.
#include "cuda/launch.h"
#include "tensor/formula/truths.h"
#include "tensor/provide.h"

namespace fovea::cuda {

namespace {

template <class... In, class F, std::size_t... k>
__device__ auto result_at(const F& f, const std::byte* const* in, const std::int64_t* offset,
                          std::index_sequence<k...>) {
  return f(reinterpret_cast<const In*>(in[k])[offset[k]]...);
}

template <class F, class Out, class... In>
__global__ void combine_elements(F f, DeviceLoop<1 + sizeof...(In)> loop, Out* out,
                                 std::array<const std::byte*, sizeof...(In)> in) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[1 + sizeof...(In)];
    loop.offsets(element, offset);
    out[offset[0]] = result_at<In...>(f, in.data(), offset + 1, std::index_sequence_for<In...>{});
  });
}

template <class Out, class... In, class F, std::size_t... k>
void combine(const F& f, Tensor& out, const Tensor* const* in, std::index_sequence<k...>) {
  constexpr int operands = 1 + sizeof...(In);
  DeviceLoop<operands> loop(plan_loop<operands>(out.shape(), {&out, in[k]...}));
  launch(F::name, combine_elements<F, Out, In...>, {blocks_for(loop.count)}, f, loop, out.mutable_data<Out>(),
         std::array<const std::byte*, operands - 1>{in[k]->address()...});
}

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_list(
      table.truths, formula::TruthFormulas{}, []<class F>(const F& f, Tensor* const* out, const Tensor* const* in) {
        formula::visit_types(f, in[F::inputs - 1]->dtype(), [&]<class Out, class... In>(Type<Out>, Type<In>...) {
          combine<Out, In...>(f, *out[0], in, std::index_sequence_for<In...>{});
        });
      });
});

}  // namespace

}  // namespace fovea::cuda
