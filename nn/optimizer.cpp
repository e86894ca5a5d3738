#include "nn/optimizer.h"

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "nn/optimizer_formulas.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tensor/requirements.h"

namespace fovea {

namespace {

const bool are_listed = list_formulas<0>(formula::OptimizerFormulas{});

}  // namespace

Tensor Optimizer::zeros_like(const Tensor& parameter) {
  Tensor zeros = Tensor::empty_like(parameter);
  zeros.fill(0);
  return zeros;
}

Optimizer::Optimizer(std::vector<NamedParameter> parameters, const std::vector<StateKind>& state_kinds)
    : parameters_(std::move(parameters)), updates_of_(parameters_.size()) {
  std::unordered_map<const void*, std::string_view> names;
  for (const NamedParameter& p : parameters_) {
    auto [before, is_new] = names.emplace(p.variable.id(), p.name);
    require(is_new, "optimizer: '{}' and '{}' are the same parameter; list it once", before->second, p.name);
  }
  std::vector<const Tensor*> values;
  for (const NamedParameter& p : parameters_) values.push_back(&p.variable.value());
  if (const auto shared = sharing_memory(values))  // a step would update that memory twice
    fail("optimizer: '{}' and '{}' share memory; make them one parameter", parameters_[shared->first].name,
         parameters_[shared->second].name);
  for (const StateKind& kind : state_kinds) {
    StateTensors& state = state_tensors_.emplace_back(StateTensors{kind.name, {}});
    for (const NamedParameter& p : parameters_) state.tensors.push_back(kind.initial(p.variable.value()));
  }
}

void Optimizer::step(double rate, const Tensor& gradient_scale) {
  require(std::isfinite(rate), "optimizer: the learning rate is {}; it must be a finite number", rate);
  require(!gradient_scale.defined() || (gradient_scale.elements() == 1 && gradient_scale.dtype() == DType::f64),
          "optimizer: the gradient scale is {}; it must be f64 []", gradient_scale);
  std::map<std::pair<double, double>, std::vector<std::size_t>> groups;  // by factors of the rate and of the decay
  for (std::size_t k = 0; k < parameters_.size(); ++k)
    if (parameters_[k].variable.grad().defined()) {
      const bool decays = decayed_ == Decayed::all || parameters_[k].variable.rank() >= 2;
      groups[{parameters_[k].rate, decays ? 1 : 0}].push_back(k);
      ++updates_of_[k];
    }
  const Tensor scale = gradient_scale.defined() ? gradient_scale.reshape({}) : Tensor();
  for (const auto& [factors, positions] : groups) update(positions, rate * factors.first, factors.second, scale);
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
    for (std::size_t k = 0; k < parameters_.size(); ++k)
      if (state.tensors[k].defined()) out[state.name + '.' + parameters_[k].name] = state.tensors[k];
  for (std::size_t k = 0; k < parameters_.size(); ++k)
    require(out.emplace(updates_name(parameters_[k]), Tensor::from<std::int64_t>({updates_of_[k]}, {1})).second,
            "optimizer: two parameters are named '{}'; a checkpoint needs a name of its own for each",
            parameters_[k].name);
  return out;
}

void Optimizer::load_state(const NamedTensors& values, std::string_view source) {
  NamedTensors mine = state(), theirs = values;
  if (const auto all = theirs.extract("updates"))
    if (std::none_of(parameters_.begin(), parameters_.end(),
                     [&](const NamedParameter& p) { return theirs.count(updates_name(p)); }))
      for (const NamedParameter& p : parameters_) theirs[updates_name(p)] = all.mapped();
  for (const NamedParameter& p : parameters_)
    if (const auto found = theirs.find(updates_name(p)); found != theirs.end() && found->second.elements() == 1) {
      const std::int64_t updates = found->second.to_vector<std::int64_t>()[0];
      require(0 <= updates && updates <= 1LL << 53, "{}: '{}' is {}; it must be in 0 to 2^53", source, updates_name(p),
              updates);
    }
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

Sgd::Options checked(const Sgd::Options& options) {
  require_option("Sgd", "momentum", options.momentum, 0, unbounded);
  require_option("Sgd", "weight_decay", options.weight_decay, 0, unbounded);
  return options;
}

Adam::Options checked(const Adam::Options& options) {
  require_option("Adam", "beta1", options.beta1, 0, 1);
  require_option("Adam", "beta2", options.beta2, 0, 1);
  require_option("Adam", "epsilon", options.epsilon, 0, unbounded);
  require_option("Adam", "weight_decay", options.weight_decay, 0, unbounded);
  return options;
}

Lion::Options checked(const Lion::Options& options) {
  require_option("Lion", "beta1", options.beta1, 0, 1);
  require_option("Lion", "beta2", options.beta2, 0, 1);
  require_option("Lion", "weight_decay", options.weight_decay, 0, unbounded);
  return options;
}

/// The scale of the gradients as the last operand of a step, [], for parameters of f32 and of f64.
std::array<Tensor, 2> scales_by_type(const Tensor& scale, Device device) {
  const Tensor number = (scale.defined() ? scale : constant(1, DType::f64, device)).reshape({});
  return {number.to(DType::f32), number};
}

}  // namespace

Sgd::Sgd(std::vector<NamedParameter> parameters, const Options& options)
    : Optimizer(std::move(parameters),
                options.momentum != 0 ? std::vector<StateKind>{{"sgd.velocity"}} : std::vector<StateKind>{}),
      options_(checked(options)) {}

void Sgd::update(const std::vector<std::size_t>& positions, double rate, double decay, const Tensor& gradient_scale) {
  const double weight_decay = decay * options_.weight_decay;
  const auto scales = scales_by_type(gradient_scale, parameters_[positions[0]].variable.device());
  std::vector<SeveralOperands<formula::SgdUpdate>> plain;
  std::vector<SeveralOperands<formula::MomentumUpdate>> with_momentum;
  for (const std::size_t k : positions) {
    Tensor& p = parameters_[k].variable.value();
    const Tensor &gradient = parameters_[k].variable.grad().value(), &scale = scales[p.dtype() == DType::f64];
    Tensor* velocity = state_tensors_.empty() ? nullptr : &state_tensors_[0].tensors[k];
    if (velocity)
      with_momentum.push_back({{&p, velocity}, {&gradient, &p, velocity, &scale}});
    else
      plain.push_back({{&p}, {&gradient, &p, &scale}});
  }
  map_several(formula::SgdUpdate{rate, weight_decay}, std::move(plain));
  map_several(formula::MomentumUpdate{rate, options_.momentum, weight_decay}, std::move(with_momentum));
}

Adam::Adam(std::vector<NamedParameter> parameters, const Options& options)
    : Optimizer(std::move(parameters), {{"adam.mean"}, {"adam.square"}}), options_(checked(options)) {}

namespace {
Adam::Options with_decoupled_decay(Adam::Options options) {
  options.decoupled = true;
  return options;
}
}  // namespace

AdamW::AdamW(std::vector<NamedParameter> parameters, const Options& options)
    : Adam(std::move(parameters), with_decoupled_decay(options)) {}

void Adam::update(const std::vector<std::size_t>& positions, double rate, double decay, const Tensor& gradient_scale) {
  const double weight_decay = decay * options_.weight_decay;
  const auto scales = scales_by_type(gradient_scale, parameters_[positions[0]].variable.device());
  // By the number of a parameter's updates, which is one for most models.
  std::map<std::int64_t, std::vector<SeveralOperands<formula::AdamUpdate>>> groups;
  for (const std::size_t k : positions) {
    Tensor &p = parameters_[k].variable.value(), &m = state_tensors_[0].tensors[k], &v = state_tensors_[1].tensors[k];
    const Tensor &gradient = parameters_[k].variable.grad().value(), &scale = scales[p.dtype() == DType::f64];
    groups[updates_of_[k]].push_back({{&p, &m, &v}, {&gradient, &p, &m, &v, &scale}});
  }
  for (auto& [updates, alike] : groups) {
    auto correction = [t = static_cast<double>(updates)](double beta) { return 1 - std::pow(beta, t); };
    map_several(formula::AdamUpdate{.rate = rate / correction(options_.beta1),
                                    .beta1 = options_.beta1,
                                    .beta2 = options_.beta2,
                                    .epsilon = options_.epsilon,
                                    .decay = options_.decoupled ? 0 : weight_decay,
                                    .keep = options_.decoupled ? 1 - rate * weight_decay : 1,
                                    .deviation_scale = 1 / std::sqrt(correction(options_.beta2))},
                std::move(alike));
  }
}

namespace {

/// The gradient of a parameter, times the scale of all gradients.
Tensor scaled_gradient(const NamedParameter& parameter, const Tensor& scale) {
  const Tensor gradient = parameter.variable.grad().value();
  return scale.defined() ? map(Multiply{}, gradient, scale.to(gradient.dtype())) : gradient;
}

/// β · mean + (1 − β) · x
struct RunningMean {
  static constexpr const char* name = "running_mean";
  double beta;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T mean, T x) const {
    using S = typename ScalarOf<T>::type;
    return T(S(beta)) * mean + T(S(1 - beta)) * x;
  }
};

/// p − rate · (sign(c) + decay · p). NaN stays NaN, and the sign of an infinity is 1 or −1.
struct SignStep {
  static constexpr const char* name = "sign_step";
  double rate, decay;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T p, T c) const {
    using S = typename ScalarOf<T>::type;
    const T sign = select(c > T(0), T(1), select(c < T(0), T(-1), c));
    return p - T(S(rate)) * (sign + T(S(decay)) * p);
  }
};

}  // namespace

Lion::Lion(std::vector<NamedParameter> parameters, const Options& options)
    : Optimizer(std::move(parameters), {{"lion.mean"}}), options_(checked(options)) {}

void Lion::update(const std::vector<std::size_t>& positions, double rate, double decay, const Tensor& gradient_scale) {
  for (std::size_t k : positions) {
    Tensor p = parameters_[k].variable.value(), m = state_tensors_[0].tensors[k];
    const Tensor g = scaled_gradient(parameters_[k], gradient_scale);
    map_into(p, SignStep{rate, decay * options_.weight_decay}, p, map(RunningMean{options_.beta1}, m, g));
    map_into(m, RunningMean{options_.beta2}, m, g);
  }
}

namespace {

/// Zeros of the parameter's shape, but with size 1 in dimension `dim`; undefined for a vector or a number.
Tensor zero_means_over(const Tensor& parameter, int dim) {
  if (parameter.rank() < 2) return {};
  Shape shape = parameter.shape();
  shape[dim] = 1;
  return Tensor::zeros(shape, parameter.dtype(), parameter.device());
}

Tensor mean_over(const Tensor& x, int dim) {
  return map(Affine{1 / static_cast<double>(x.size(dim)), 0}, sum(x, {dim}, true));
}

/// √mean(x²), []
Tensor root_mean_square(const Tensor& x) {
  return map(Sqrt{}, map(Affine{1 / static_cast<double>(x.elements()), 0}, sum(map(Square{}, x))));
}

/// x, or ±limit where it is finite and larger.
struct Limited {
  static constexpr const char* name = "limited";
  double limit;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T x) const {
    using S = typename ScalarOf<T>::type;
    const T most(static_cast<S>(limit)), greatest(std::numeric_limits<S>::max());
    return select(abs(x) <= greatest, smaller_of(larger_of(x, -most), most), x);
  }
};

/// keep · p − rate · max(1e-3, rms(p)) · u / max(1, rms(u))
struct AdafactorStep {
  static constexpr const char* name = "adafactor_step";
  double rate, keep;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T p, T u, T p_size, T u_size) const {
    using S = typename ScalarOf<T>::type;
    const T least(S(1e-3)), one(1);
    const T size = select(p_size < least, least, p_size), excess = select(u_size < one, one, u_size);
    return T(S(keep)) * p - T(S(rate)) * size * u / excess;
  }
};

}  // namespace

Adafactor::Adafactor(std::vector<NamedParameter> parameters, const Options& options)
    : Optimizer(std::move(parameters),
                {{"adafactor.rows", [](const Tensor& p) { return zero_means_over(p, -1); }},
                 {"adafactor.columns", [](const Tensor& p) { return zero_means_over(p, -2); }},
                 {"adafactor.square", [](const Tensor& p) { return p.rank() < 2 ? zeros_like(p) : Tensor(); }}}),
      options_(options) {
  require_option("Adafactor", "weight_decay", options.weight_decay, 0, unbounded);
}

Tensor Adafactor::over_deviation(std::size_t k, const Tensor& gradient) {
  const RunningMean running{1 - std::pow(static_cast<double>(updates_of_[k]), -0.8)};
  const Tensor squares = map(Affine{1, 1e-30}, map(Square{}, gradient));
  Tensor rows = state_tensors_[0].tensors[k], columns = state_tensors_[1].tensors[k],
         square = state_tensors_[2].tensors[k];
  if (square.defined()) {
    map_into(square, running, square, squares);
    return map(Divide{}, gradient, map(Sqrt{}, square));
  }
  map_into(rows, running, rows, mean_over(squares, -1));
  map_into(columns, running, columns, mean_over(squares, -2));
  // One root after the other: the mean square, row · column / mean of rows, may be too small for f32.
  const Tensor of_row = map(Divide{}, map(Sqrt{}, rows), map(Sqrt{}, mean_over(rows, -2)));
  return map(Divide{}, map(Divide{}, gradient, of_row), map(Sqrt{}, columns));
}

void Adafactor::update(const std::vector<std::size_t>& positions, double rate, double decay,
                       const Tensor& gradient_scale) {
  for (std::size_t k : positions) {
    Tensor p = parameters_[k].variable.value();
    if (p.elements() == 0) continue;
    const Limited limited{p.dtype() == DType::f32 ? 1e14 : 1e140};  // sums of squares are finite
    const Tensor g = map(limited, scaled_gradient(parameters_[k], gradient_scale));
    const Tensor u = over_deviation(k, g);
    const AdafactorStep step{rate, 1 - rate * decay * options_.weight_decay};
    map_into(p, step, p, u, root_mean_square(p), root_mean_square(u));
  }
}

void OptimizerOptions::check() const {
  const bool is_adam = kind == OptimizerKind::adam || kind == OptimizerKind::adamw;
  const bool has_betas = is_adam || kind == OptimizerKind::lion;
  const auto check_one = [](const char* name, const std::optional<double>& given, bool has, const char* kinds) {
    require(has || !given, "{} {}: only the optimizers {} have this option, and another one is chosen", name,
            given.value_or(0), kinds);
  };
  check_one("beta1", beta1, has_betas, "adam, adamw and lion");
  check_one("beta2", beta2, has_betas, "adam, adamw and lion");
  check_one("epsilon", epsilon, is_adam, "adam and adamw");
  require(!momentum || kind == OptimizerKind::sgd,
          "momentum {}: only the optimizer sgd has this option, and another one is chosen", momentum.value_or(0));
}

std::unique_ptr<Optimizer> make_optimizer(std::vector<NamedParameter> parameters, const OptimizerOptions& options) {
  options.check();
  std::unique_ptr<Optimizer> made;
  const double decay = options.weight_decay;
  Adam::Options adam;
  adam.beta1 = options.beta1.value_or(adam.beta1);
  adam.beta2 = options.beta2.value_or(adam.beta2);
  adam.epsilon = options.epsilon.value_or(adam.epsilon);
  adam.weight_decay = decay;
  Lion::Options lion;
  lion.beta1 = options.beta1.value_or(lion.beta1);
  lion.beta2 = options.beta2.value_or(lion.beta2);
  lion.weight_decay = decay;
  switch (options.kind) {
    case OptimizerKind::adam:
      made = std::make_unique<Adam>(std::move(parameters), adam);
      break;
    case OptimizerKind::adamw:
      made = std::make_unique<AdamW>(std::move(parameters), adam);
      break;
    case OptimizerKind::sgd:
      made = std::make_unique<Sgd>(std::move(parameters), Sgd::Options{options.momentum.value_or(0), decay});
      break;
    case OptimizerKind::lion:
      made = std::make_unique<Lion>(std::move(parameters), lion);
      break;
    case OptimizerKind::adafactor:
      made = std::make_unique<Adafactor>(std::move(parameters), Adafactor::Options{decay});
      break;
  }
  made->set_decayed(options.decayed);
  return made;
}

Tensor gradient_norm(const std::vector<NamedParameter>& parameters) {
  std::vector<Tensor> gradients;
  for (const NamedParameter& p : parameters)
    if (p.variable.grad().defined()) gradients.push_back(p.variable.grad().value());
  return global_norm(gradients);
}

Tensor clip_scale(const Tensor& norm, double max_norm, double count) {
  require(norm.defined() && norm.elements() == 1 && norm.dtype() == DType::f64,
          "clip_scale: the norm is {}; it must be f64 [], as global_norm() returns it", norm);
  require(max_norm >= 0, "clip: the largest norm is {}; it must be a positive number, or 0 to turn clipping off",
          max_norm);
  require(count > 0, "clip: the gradients are sums over {} items; there must be some, to take a mean", count);
  Tensor scale = Tensor::empty(norm.shape(), DType::f64, norm.device());
  map_several(formula::ClipScale{max_norm > 0 ? max_norm : unbounded, count}, {&scale}, {&norm});
  return scale;
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
