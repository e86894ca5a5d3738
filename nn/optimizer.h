/// Optimizers. An update is one pass over all parameters.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "nn/checkpoint.h"
#include "nn/module.h"
#include "tensor/optimizer_step.h"

namespace fovea {

/// Updates parameters in place from their gradients. Throws Error for a parameter that is listed twice.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with learning rate `rate`, such as Schedule::rate(). Gradients are multiplied by `gradient_scale` as
  /// they are read, at no cost: for example by 1 / tokens after micro-batches whose losses are sums, or by
  /// clip_scale(). A parameter without a gradient is left as it is.
  void step(double rate, double gradient_scale = 1);
  /// Clears all gradients. Needed before the next backward(), which adds to the gradients that are there.
  void zero_grad();

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  std::int64_t updates() const { return updates_; }  ///< number of step() calls so far

  /// Averages of past gradients, as "adam.mean.<parameter>" and the like, and "updates", i64 [1]. Together with the
  /// parameters they suffice to resume training exactly. The tensors share the optimizer's memory, as those of
  /// state(module) share the module's.
  NamedTensors state() const;
  /// Loads what state() returned. Throws Error for the state of another model or optimizer, as load_tensors() does.
  void load_state(const NamedTensors& values, std::string_view source);

 protected:
  /// One tensor per parameter, of its shape, initially zeros. state() calls them name + '.' + the parameter's name.
  struct StateTensors {
    std::string name;
    std::vector<Tensor> tensors;
  };

  Optimizer(std::vector<NamedParameter> parameters, const std::vector<std::string>& state_names);
  /// Updates parameters_[k] for each k of `positions`. updates() counts this update already.
  virtual void update(const std::vector<std::size_t>& positions, double rate, double gradient_scale) = 0;

  std::vector<NamedParameter> parameters_;
  std::vector<StateTensors> state_tensors_;

 private:
  std::int64_t updates_ = 0;
};

/// Stochastic gradient descent: g ← g + weight_decay · θ; v ← momentum · v + g; θ ← θ − rate · v.
class Sgd : public Optimizer {
 public:
  using Options = SgdOptions;
  Sgd(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double gradient_scale) override;
  Options options_;
};

/// Adam with bias correction (Kingma and Ba 2015). Weight decay is added to the gradient, unless options.decoupled.
class Adam : public Optimizer {
 public:
  using Options = AdamOptions;
  Adam(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double gradient_scale) override;
  Options options_;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019): θ ← θ − rate · weight_decay · θ, besides Adam's
/// update. Sets options.decoupled.
class AdamW : public Adam {
 public:
  AdamW(std::vector<NamedParameter> parameters, const Options& options);
};

/// The Euclidean norm of all gradients together.
double gradient_norm(const std::vector<NamedParameter>& parameters);

/// The factor that clips gradients of joint norm `norm` to `max_norm`: min(1, max_norm / norm). 1 if max_norm is 0,
/// which turns clipping off, and if the norm is not finite: the caller should check that and skip the update.
double clip_scale(double norm, double max_norm);

/// Multiplies the gradients by clip_scale() and returns their norm before. This clips without a pass over memory:
///   optimizer.step(rate, clip_scale(gradient_norm(optimizer.parameters()), max_norm));
double clip_gradients(const std::vector<NamedParameter>& parameters, double max_norm);

}  // namespace fovea
