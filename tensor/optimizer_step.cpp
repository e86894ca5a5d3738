#include "tensor/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/map.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

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
  std::vector<std::pair<const std::byte*, std::size_t>> begins;
  for (std::size_t k = 0; k < slots.size(); ++k)
    if (slots[k].parameter.elements() > 0) begins.emplace_back(slots[k].parameter.address(), k);
  std::sort(begins.begin(), begins.end());
  for (std::size_t i = 1; i < begins.size(); ++i) {
    const std::size_t before = std::min(begins[i - 1].second, begins[i].second),
                      after = std::max(begins[i - 1].second, begins[i].second);
    require(begins[i - 1].first + slots[begins[i - 1].second].parameter.bytes() <= begins[i].first,
            "{}: parameters {} and {}, {} and {}, share memory; list each parameter once", what, before, after,
            slots[before].parameter, slots[after].parameter);
  }
}

}  // namespace

void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double rate, double gradient_scale) {
  auto has_velocity = [&](const SgdSlot& slot) { return options.momentum != 0 || slot.velocity.defined(); };
  for (std::size_t k = 0; k < slots.size(); ++k) {
    const SgdSlot& slot = slots[k];
    require_slot("sgd_step", k, slot.parameter, slot.gradient, slots[0].parameter.device());
    if (has_velocity(slot)) require_state("sgd_step", "velocity", k, slot.parameter, slot.velocity);
  }
  require_distinct<SgdSlot>("sgd_step", slots);
  const formula::SgdUpdate plain{rate, options.weight_decay, gradient_scale};
  const formula::MomentumUpdate with_momentum{rate, options.momentum, options.weight_decay, gradient_scale};
  for (SgdSlot& slot : slots) {
    Tensor &p = slot.parameter, &velocity = slot.velocity;
    if (has_velocity(slot))
      map_several(with_momentum, {&p, &velocity}, {&slot.gradient, &p, &velocity});
    else
      map_several(plain, {&p}, {&slot.gradient, &p});
  }
}

void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, double rate, std::int64_t step,
               double gradient_scale) {
  require(step >= 1, "adam_step: steps count from 1, this one is {}", step);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    const AdamSlot& slot = slots[k];
    require_slot("adam_step", k, slot.parameter, slot.gradient, slots[0].parameter.device());
    require_state("adam_step", "mean", k, slot.parameter, slot.mean);
    require_state("adam_step", "square", k, slot.parameter, slot.square);
  }
  require_distinct<AdamSlot>("adam_step", slots);
  auto correction = [&](double beta) { return 1 - std::pow(beta, static_cast<double>(step)); };
  const formula::AdamUpdate update{.rate = rate / correction(options.beta1),
                                   .beta1 = options.beta1,
                                   .beta2 = options.beta2,
                                   .epsilon = options.epsilon,
                                   .decay = options.decoupled ? 0 : options.weight_decay,
                                   .keep = options.decoupled ? 1 - rate * options.weight_decay : 1,
                                   .deviation_scale = 1 / std::sqrt(correction(options.beta2)),
                                   .scale = gradient_scale};
  for (AdamSlot& slot : slots) {
    Tensor &p = slot.parameter, &m = slot.mean, &v = slot.square;
    map_several(update, {&p, &m, &v}, {&slot.gradient, &p, &m, &v});
  }
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
