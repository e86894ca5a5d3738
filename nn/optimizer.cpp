#include "nn/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "tensor/map.h"

namespace fovea {

Optimizer::Optimizer(std::vector<NamedParameter> parameters, const std::vector<std::string>& state_names)
    : parameters_(std::move(parameters)), updates_of_(parameters_.size()) {
  std::unordered_map<const void*, std::string_view> names;
  for (const NamedParameter& p : parameters_) {
    auto [before, is_new] = names.emplace(p.variable.id(), p.name);
    require(is_new, "optimizer: '{}' and '{}' are the same parameter; list it once", before->second, p.name);
  }
  for (const std::string& name : state_names) {
    StateTensors& state = state_tensors_.emplace_back(StateTensors{name, {}});
    for (const NamedParameter& p : parameters_) {
      state.tensors.push_back(Tensor::empty_like(p.variable.value()));
      state.tensors.back().fill(0);
    }
  }
}

void Optimizer::step(double rate, const Tensor& gradient_scale) {
  require(std::isfinite(rate), "optimizer: the learning rate is {}; it must be a finite number", rate);
  std::map<double, std::vector<std::size_t>> positions;  // by factor of the rate
  for (std::size_t k = 0; k < parameters_.size(); ++k)
    if (parameters_[k].variable.grad().defined()) {
      positions[parameters_[k].rate].push_back(k);
      ++updates_of_[k];
    }
  for (const auto& [factor, some] : positions) update(some, rate * factor, gradient_scale);
}

void Optimizer::zero_grad() {
  for (NamedParameter& p : parameters_) p.variable.clear_grad();
}

namespace {

std::string updates_name(const NamedParameter& parameter) { return "updates." + parameter.name; }

}  // namespace

NamedTensors Optimizer::state() const {
  NamedTensors out;
  for (const StateTensors& state : state_tensors_)
    for (std::size_t k = 0; k < parameters_.size(); ++k) out[state.name + '.' + parameters_[k].name] = state.tensors[k];
  for (std::size_t k = 0; k < parameters_.size(); ++k)
    out[updates_name(parameters_[k])] = Tensor::from<std::int64_t>({updates_of_[k]}, {1});
  return out;
}

void Optimizer::load_state(const NamedTensors& values, std::string_view source) {
  NamedTensors mine = state(), theirs = values;
  if (const auto all = theirs.extract("updates"))
    if (std::none_of(parameters_.begin(), parameters_.end(),
                     [&](const NamedParameter& p) { return theirs.count(updates_name(p)); }))
      for (const NamedParameter& p : parameters_) theirs[updates_name(p)] = all.mapped();
  load_tensors(mine, theirs, source);
  for (std::size_t k = 0; k < parameters_.size(); ++k)
    updates_of_[k] = static_cast<std::int64_t>(mine.at(updates_name(parameters_[k])).item());
}

namespace {

/// Throws unless an option of an optimizer lies in least ≤ value < most; NaN does not.
void require_option(const char* optimizer, const char* option, double value, double least, double most) {
  const bool is_bounded = most < std::numeric_limits<double>::infinity();
  require(least <= value && value < most, "{}: {} is {}; it must be {}", optimizer, option, value,
          is_bounded ? fmt::format("in [{}, {})", least, most) : fmt::format("finite and at least {}", least));
}

constexpr double unbounded = std::numeric_limits<double>::infinity();

SgdOptions checked(const SgdOptions& options) {
  require_option("Sgd", "momentum", options.momentum, 0, unbounded);
  require_option("Sgd", "weight_decay", options.weight_decay, 0, unbounded);
  return options;
}

AdamOptions checked(const AdamOptions& options) {
  require_option("Adam", "beta1", options.beta1, 0, 1);
  require_option("Adam", "beta2", options.beta2, 0, 1);
  require_option("Adam", "epsilon", options.epsilon, 0, unbounded);
  require_option("Adam", "weight_decay", options.weight_decay, 0, unbounded);
  return options;
}

}  // namespace

Sgd::Sgd(std::vector<NamedParameter> parameters, const Options& options)
    : Optimizer(std::move(parameters),
                options.momentum != 0 ? std::vector<std::string>{"sgd.velocity"} : std::vector<std::string>{}),
      options_(checked(options)) {}

void Sgd::update(const std::vector<std::size_t>& positions, double rate, const Tensor& gradient_scale) {
  std::vector<SgdSlot> slots;
  for (std::size_t k : positions)
    slots.push_back({.parameter = parameters_[k].variable.value(),
                     .gradient = parameters_[k].variable.grad().value(),
                     .velocity = state_tensors_.empty() ? Tensor() : state_tensors_[0].tensors[k]});
  sgd_step(slots, options_, rate, gradient_scale);
}

Adam::Adam(std::vector<NamedParameter> parameters, const Options& options)
    : Optimizer(std::move(parameters), {"adam.mean", "adam.square"}), options_(checked(options)) {}

namespace {
AdamOptions with_decoupled_decay(AdamOptions options) {
  options.decoupled = true;
  return options;
}
}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters, const Options& options)
    : Adam(std::move(parameters), with_decoupled_decay(options)) {}

void Adam::update(const std::vector<std::size_t>& positions, double rate, const Tensor& gradient_scale) {
  std::map<std::int64_t, std::vector<AdamSlot>> slots;  // by the number of updates, which is one for most models
  for (std::size_t k : positions)
    slots[updates_of_[k]].push_back({.parameter = parameters_[k].variable.value(),
                                     .gradient = parameters_[k].variable.grad().value(),
                                     .mean = state_tensors_[0].tensors[k],
                                     .square = state_tensors_[1].tensors[k]});
  for (auto& [step, alike] : slots) adam_step(alike, options_, rate, step, gradient_scale);
}

Tensor gradient_norm(const std::vector<NamedParameter>& parameters) {
  std::vector<Tensor> gradients;
  for (const NamedParameter& p : parameters)
    if (p.variable.grad().defined()) gradients.push_back(p.variable.grad().value());
  return global_norm(gradients);
}

Tensor clip_gradients(const std::vector<NamedParameter>& parameters, double max_norm) {
  const Tensor norm = gradient_norm(parameters), scale = clip_scale(norm, max_norm);
  // Not in place, because two parameters may share one gradient tensor, which would be scaled twice.
  for (const NamedParameter& p : parameters) {
    Variable variable = p.variable;
    if (!variable.grad().defined()) continue;
    const Tensor gradient = variable.grad().value();
    variable.set_grad(map(Multiply{}, gradient, scale.to(gradient.dtype())));
  }
  return norm;
}

}  // namespace fovea
