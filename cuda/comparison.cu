// Comparisons, logical operations and `where` on the GPU, element by element.
#include "cuda/launch.h"
#include "tensor/formula/truths.h"
#include "tensor/provide.h"

namespace fovea::cuda {

namespace {

/// The elements that a thread computes at a time: from two to eight.
template <class... Operands>
inline constexpr int run_width = std::min(8, pack_width<Operands...>);

template <class F, class Out, class... In>
__global__ void combine_elements(F f, RunLoop<1 + sizeof...(In), run_width<Out, In...>> loop, Out* out,
                                 std::array<const std::byte*, sizeof...(In)> in) {
  constexpr int width = run_width<Out, In...>;
  for_elements(loop.runs(), [&](std::int64_t run) {
    std::int64_t offset[1 + sizeof...(In)];
    const int count = loop.start_of_run(run, offset);
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      std::tuple<Pack<In, width>...> x;
      (load_elements(reinterpret_cast<const In*>(in[k]) + offset[1 + k], loop.inner_step(1 + k),
                     loop.is_pack(1 + k, count), count, std::get<k>(x).element),
       ...);
      Out y[width];
#pragma unroll
      for (int i = 0; i < width; ++i) y[i] = f(std::get<k>(x).element[i]...);
      store_elements(y, out + offset[0], loop.inner_step(0), loop.is_pack(0, count), count);
    }
    (std::index_sequence_for<In...>{});
  });
}

template <class Out, class... In, class F, std::size_t... k>
void combine(const F& f, Tensor& out, const Tensor* const* in, std::index_sequence<k...>) {
  constexpr int operands = 1 + sizeof...(In);
  Out* first = reinterpret_cast<Out*>(out.mutable_address());
  const RunLoop<operands, run_width<Out, In...>> loop(plan_loop<operands>(out.shape(), {&out, in[k]...}),
                                                      {first, in[k]->address()...}, {sizeof(Out), sizeof(In)...});
  launch(F::name, traffic(out, *in[k]...), combine_elements<F, Out, In...>, {blocks_for(loop.runs())}, f, loop, first,
         std::array<const std::byte*, operands - 1>{in[k]->address()...});
}

const Provide provide(Device::cuda, [](Kernels& table) {
  provide_list(table, &Kernels::truths, formula::TruthFormulas{},
               []<class F>(const F& f, Tensor* const* out, const Tensor* const* in) {
                 formula::visit_types(f, in[F::inputs - 1]->dtype(),
                                      [&]<class Out, class... In>(Type<Out>, Type<In>...) {
                                        combine<Out, In...>(f, *out[0], in, std::index_sequence_for<In...>{});
                                      });
               });
});

}  // namespace

}  // namespace fovea::cuda
