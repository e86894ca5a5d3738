#include "tensor/optimizer_step.h"

#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

void require_state(const char* what, const char* which, std::size_t k, const Tensor& parameter, const Tensor& state) {
  require(state.defined() && state.dtype() == parameter.dtype() && state.device() == parameter.device() &&
              has_same_layout(state, parameter),
          "{}: parameter {} is {}, its {} {}; they must agree in shape, type, device and layout", what, k, parameter,
          which, state);
}

/// Throws unless parameter k can be changed in place with its gradient, on the device of the first.
void require_slot(const char* what, std::size_t k, const Tensor& parameter, const Tensor& gradient, Device device) {
  require(parameter.defined() && parameter.is_dense() && parameter.device() == device,
          "{}: parameter {} is {}; it must be dense and on {}, where the first is", what, k, parameter, name(device));
  require_real(what, parameter);
  require(gradient.defined() && gradient.shape() == parameter.shape() && gradient.dtype() == parameter.dtype() &&
              gradient.device() == parameter.device(),
          "{}: parameter {} is {}, its gradient {}; they must agree in shape, type and device", what, k, parameter,
          gradient);
}

}  // namespace

void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double gradient_scale) {
  if (slots.empty()) return;
  const Device device = slots[0].parameter.device();
  for (std::size_t k = 0; k < slots.size(); ++k) {
    require_slot("sgd_step", k, slots[k].parameter, slots[k].gradient, device);
    if (options.momentum != 0 || slots[k].velocity.defined())
      require_state("sgd_step", "velocity", k, slots[k].parameter, slots[k].velocity);
  }
  for (SgdSlot& slot : slots) {
    slot.parameter.changed();
    if (slot.velocity.defined()) slot.velocity.changed();
  }
  kernels(device).sgd_step(slots, options, gradient_scale);
}

void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, std::int64_t step, double gradient_scale) {
  require(step >= 1, "adam_step: steps count from 1, this one is {}", step);
  if (slots.empty()) return;
  const Device device = slots[0].parameter.device();
  for (std::size_t k = 0; k < slots.size(); ++k) {
    require_slot("adam_step", k, slots[k].parameter, slots[k].gradient, device);
    require_state("adam_step", "mean", k, slots[k].parameter, slots[k].mean);
    require_state("adam_step", "square", k, slots[k].parameter, slots[k].square);
  }
  for (AdamSlot& slot : slots)
    for (Tensor* changed : {&slot.parameter, &slot.mean, &slot.square}) changed->changed();
  kernels(device).adam_step(slots, options, step, gradient_scale);
}

double global_norm(std::span<const Tensor> tensors) {
  if (tensors.empty()) return 0;
  const Device device = tensors[0].device();
  for (const Tensor& x : tensors) {
    require(x.defined() && x.device() == device, "global_norm: {} on {} beside tensors on {}; move one of them", x,
            name(x.device()), name(device));
    require_real("global_norm", x);
  }
  return kernels(device).global_norm(tensors);
}

}  // namespace fovea
