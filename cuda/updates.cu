// Steps of optimizers on the GPU, a parameter after the other.
#include "cuda/launch.h"
#include "tensor/kernels.h"
#include "tensor/optimizer_step.h"
#include "tensor/requirements.h"

namespace fovea::cuda {

namespace {

template <class T, class Formula>
__global__ void update_elements(Formula formula, const T* gradient, std::array<T*, Formula::states> state,
                                std::int64_t count) {
  for_elements(count, [&](std::int64_t e) {
    std::array<T, Formula::states> before;
    for (int k = 0; k < Formula::states; ++k) before[k] = state[k][e];
    std::array<T, Formula::states> after = formula(gradient[e], before);
    for (int k = 0; k < Formula::states; ++k) state[k][e] = after[k];
  });
}

template <class Formula>
void update(const Formula& formula, std::span<const UpdateSlot> slots) {
  for (const UpdateSlot& slot : slots) {
    const Tensor& parameter = slot.state[0];
    if (parameter.elements() == 0) continue;
    Tensor gradient = slot.gradient;
    if (!has_same_layout(gradient, parameter)) {
      gradient = Tensor::empty_like(parameter);
      gradient.copy_from(slot.gradient);
    }
    visit_real(Formula::name, parameter.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      std::array<T*, Formula::states> state;
      for (int k = 0; k < Formula::states; ++k) state[k] = slot.state[k].template mutable_data<T>();
      launch(Formula::name, update_elements<T, Formula>, {blocks_for(parameter.elements())}, formula,
             gradient.data<T>(), state, parameter.elements());
    });
  }
}

template <class... Formulas>
void provide_all(Kernels& table, FunctorList<Formulas...>) {
  ((table.updates[place_of<Formulas>(formula::UpdateFormulas{})] =
        [](const void* formula, std::span<const UpdateSlot> slots) {
          update(*static_cast<const Formulas*>(formula), slots);
        }),
   ...);
}

const Provide provide(Device::cuda, [](Kernels& table) { provide_all(table, formula::UpdateFormulas{}); });

}  // namespace

}  // namespace fovea::cuda
