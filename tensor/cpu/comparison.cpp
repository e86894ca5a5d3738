// Comparisons, logical operations and `where` on the CPU, element by element.
#include "tensor/element_loop.h"
#include "tensor/formula/truths.h"
#include "tensor/provide.h"

namespace fovea::cpu {

namespace {

/// The elements of an operand along a run of the loop: the address of the first, and the distance between neighbours.
template <class T>
struct Elements {
  const T* first;
  std::int64_t step;
};

/// Calls body(x...) with one function per operand, where x(i) returns element i of the operand. Each operand is
/// contiguous (step 1) or a single broadcast element (step 0); the two have functions of their own, so that the
/// compiler vectorises the loops that call them.
template <class Body>
void with_simple_functions(const Body& body) {
  body();
}
template <class Body, class T, class... Rest>
void with_simple_functions(const Body& body, Elements<T> x, Rest... rest) {
  auto go_on = [&](auto element) { with_simple_functions([&](auto... more) { body(element, more...); }, rest...); };
  if (x.step == 1) return go_on([first = x.first](std::int64_t i) { return first[i]; });
  go_on([value = *x.first](std::int64_t) { return value; });
}

/// The same for operands with any steps.
template <class Body, class... T>
void with_functions(const Body& body, Elements<T>... x) {
  if (((x.step == 0 || x.step == 1) && ...)) return with_simple_functions(body, x...);
  body([x](std::int64_t i) { return x.first[i * x.step]; }...);
}

template <class Out, class... In, class F, std::size_t... k>
void combine(const F& f, Tensor& out, const Tensor* const* in, std::index_sequence<k...>) {
  constexpr int operands = 1 + sizeof...(In);
  auto loop = plan_loop<operands>(out.shape(), {&out, in[k]...});
  Out* first = reinterpret_cast<Out*>(out.mutable_address());
  for_runs<operands>(loop, [&](auto& at, std::int64_t count) {
    auto run = [f, to = first + at[0], count](auto... x) {
      for (std::int64_t i = 0; i < count; ++i) to[i] = f(x(i)...);
    };
    with_functions(run,
                   Elements<In>{reinterpret_cast<const In*>(in[k]->address()) + at[k + 1], loop.strides[k + 1][-1]}...);
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  provide_list(table, &Kernels::truths, formula::TruthFormulas{},
               []<class F>(const F& f, Tensor* const* out, const Tensor* const* in) {
                 formula::visit_types(f, in[F::inputs - 1]->dtype(),
                                      [&]<class Out, class... In>(Type<Out>, Type<In>...) {
                                        combine<Out, In...>(f, *out[0], in, std::index_sequence_for<In...>{});
                                      });
               });
});

}  // namespace
}  // namespace fovea::cpu
