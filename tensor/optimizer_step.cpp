#include "tensor/optimizer_step.h"

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tensor/constant.h"
#include "tensor/formula/optimizers.h"
#include "tensor/map.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

const bool are_listed = list_formulas<0>(formula::OptimizerFormulas{});

void require_state(const char* what, const char* which, std::size_t k, const Tensor& parameter, const Tensor& state) {
  require(state.defined() && state.dtype() == parameter.dtype() && state.device() == parameter.device() &&
              has_same_layout(state, parameter),
          "{}: parameter {} is {}, its {} {}; they must agree in shape, type, device and layout", what, k, parameter,
          which, state);
}

/// Throws unless parameter `k` is dense, f32 or f64 and on `device`, and its gradient has its shape, type and device.
void require_slot(const char* what, std::size_t k, const Tensor& parameter, const Tensor& gradient, Device device) {
  require(parameter.defined() && parameter.is_dense() && parameter.device() == device,
          "{}: parameter {} is {}; it must be dense and on {}, where the first is", what, k, parameter, name(device));
  require_real(what, parameter);
  require(gradient.defined() && gradient.shape() == parameter.shape() && gradient.dtype() == parameter.dtype() &&
              gradient.device() == parameter.device(),
          "{}: parameter {} is {}, its gradient {}; they must agree in shape, type and device", what, k, parameter,
          gradient);
}

/// Throws if two parameters share memory, because one step would update that memory twice.
template <class Slot>
void require_distinct(const char* what, std::span<const Slot> slots) {
  std::vector<const Tensor*> parameters;
  for (const Slot& slot : slots) parameters.push_back(&slot.parameter);
  const auto shared = sharing_memory(parameters);
  if (shared)
    fail("{}: parameters {} and {}, {} and {}, share memory; list each parameter once", what, shared->first,
         shared->second, *parameters[shared->first], *parameters[shared->second]);
}

/// The scale of the gradients, the shared input of the formulas, for parameters of f32 and of f64. Throws unless
/// `scale` is undefined or one f64 number on `device`.
std::array<Tensor, 2> gradient_scales(const char* what, const Tensor& scale, Device device) {
  if (!scale.defined()) return {constant(1, DType::f32, device), constant(1, DType::f64, device)};
  require(scale.elements() == 1 && scale.dtype() == DType::f64 && scale.device() == device,
          "{}: the gradient scale is {} on {}; it must be f64 [] on {}, where the parameters are", what, scale,
          name(scale.device()), name(device));
  return {scale.to(DType::f32), scale};
}

}  // namespace

void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double rate, const Tensor& gradient_scale) {
  const Device device = slots.empty() ? Device::cpu : slots[0].parameter.device();
  auto has_velocity = [&](const SgdSlot& slot) { return options.momentum != 0 || slot.velocity.defined(); };
  for (std::size_t k = 0; k < slots.size(); ++k) {
    const SgdSlot& slot = slots[k];
    require_slot("sgd_step", k, slot.parameter, slot.gradient, device);
    if (has_velocity(slot)) require_state("sgd_step", "velocity", k, slot.parameter, slot.velocity);
  }
  require_distinct<SgdSlot>("sgd_step", slots);
  const auto scales = gradient_scales("sgd_step", gradient_scale, device);
  const formula::SgdUpdate plain{rate, options.weight_decay};
  const formula::MomentumUpdate with_momentum{rate, options.momentum, options.weight_decay};
  std::vector<SeveralOperands<formula::SgdUpdate>> plain_groups;
  std::vector<SeveralOperands<formula::MomentumUpdate>> momentum_groups;
  for (SgdSlot& slot : slots) {
    Tensor &p = slot.parameter, &velocity = slot.velocity;
    const Tensor& scale = scales[p.dtype() == DType::f64];
    if (has_velocity(slot))
      momentum_groups.push_back({{&p, &velocity}, {&slot.gradient, &p, &velocity, &scale}});
    else
      plain_groups.push_back({{&p}, {&slot.gradient, &p, &scale}});
  }
  map_several(plain, std::move(plain_groups));
  map_several(with_momentum, std::move(momentum_groups));
}

void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, double rate, std::int64_t step,
               const Tensor& gradient_scale) {
  const Device device = slots.empty() ? Device::cpu : slots[0].parameter.device();
  require(step >= 1, "adam_step: steps count from 1, this one is {}", step);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    const AdamSlot& slot = slots[k];
    require_slot("adam_step", k, slot.parameter, slot.gradient, device);
    require_state("adam_step", "mean", k, slot.parameter, slot.mean);
    require_state("adam_step", "square", k, slot.parameter, slot.square);
  }
  require_distinct<AdamSlot>("adam_step", slots);
  const auto scales = gradient_scales("adam_step", gradient_scale, device);
  auto correction = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(step)); };
  const formula::AdamUpdate update{.rate = rate / correction(options.beta1),
                                   .beta1 = options.beta1,
                                   .beta2 = options.beta2,
                                   .epsilon = options.epsilon,
                                   .decay = options.decoupled ? 0 : options.weight_decay,
                                   .keep = options.decoupled ? 1 - rate * options.weight_decay : 1,
                                   .deviation_scale = 1 / std::sqrt(correction(options.beta2))};
  std::vector<SeveralOperands<formula::AdamUpdate>> groups;
  for (AdamSlot& slot : slots) {
    Tensor &p = slot.parameter, &m = slot.mean, &v = slot.square;
    groups.push_back({{&p, &m, &v}, {&slot.gradient, &p, &m, &v, &scales[p.dtype() == DType::f64]}});
  }
  map_several(update, std::move(groups));
}

Tensor global_norm(std::span<const Tensor> tensors) {
  const Device device = tensors.empty() ? Device::cpu : tensors[0].device();
  for (const Tensor& x : tensors) {
    require(x.defined() && x.device() == device, "global_norm: {} on {} beside tensors on {}; move one of them", x,
            name(x.device()), name(device));
    require_real("global_norm", x);
  }
  Tensor norm = Tensor::empty({}, DType::f64, device);
  kernels(device).global_norm(tensors, norm);
  return norm;
}

Tensor clip_scale(const Tensor& norm, double max_norm, double count) {
  require(norm.defined() && norm.elements() == 1 && norm.dtype() == DType::f64,
          "clip_scale: the norm is {}; it must be f64 [], as global_norm() returns it", norm);
  require(max_norm >= 0, "clip: the largest norm is {}; it must be a positive number, or 0 to turn clipping off",
          max_norm);
  require(count > 0, "clip: the gradients are sums over {} items; there must be some, to take a mean", count);
  Tensor scale = Tensor::empty(norm.shape(), DType::f64, norm.device());
  const double most = max_norm > 0 ? max_norm : std::numeric_limits<double>::infinity();
  map_several(formula::ClipScale{most, count}, {&scale}, {&norm});
  return scale;
}

}  // namespace fovea
