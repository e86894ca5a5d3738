/// Optimizers: one fused pass over all parameters per update.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "nn/checkpoint.h"
#include "nn/module.h"

namespace fovea {

/// Changes parameters in place by their gradients. A parameter that is listed twice, under two names, is refused.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with this learning rate (Schedule::rate). Gradients are multiplied by `gradient_scale` as they are
  /// read, at no cost: 1 / tokens after micro-batches whose losses are sums, or clip_scale of their norm. A parameter
  /// that no gradient has reached stays as it is.
  void step(double rate, double gradient_scale = 1);
  /// Drops all gradients: backward() adds to what is there.
  void zero_grad();

  const std::vector<NamedParameter>& parameters() const { return parameters_; }
  std::int64_t updates() const { return updates_; }

  /// What it remembers of past gradients, "adam.mean.<parameter>" and so on, and "updates", i64 [1]. With the
  /// parameters, all that is needed to go on as if never stopped. Handles on its own tensors, as state() of a module.
  NamedTensors state() const;
  /// Throws Error, as load_state of a module does, for the state of another model or optimizer.
  void load_state(const NamedTensors& values, std::string_view source);

 protected:
  /// One tensor like each parameter, zeros at first, saved under this name.
  struct Memory {
    std::string name;
    std::vector<Tensor> tensors;
  };

  Optimizer(std::vector<NamedParameter> parameters, const std::vector<std::string>& memories);
  /// Updates the parameters with these positions; updates() already counts this update.
  virtual void update(const std::vector<std::size_t>& positions, double rate, double gradient_scale) = 0;

  std::vector<NamedParameter> parameters_;
  std::vector<Memory> memories_;

 private:
  std::int64_t updates_ = 0;
};

/// g ← g + decay · θ; v ← momentum · v + g; θ ← θ − rate · v.
class Sgd : public Optimizer {
 public:
  struct Options {
    double momentum = 0, weight_decay = 0;
  };
  Sgd(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double gradient_scale) override;
  Options options_;
};

/// Kingma & Ba 2015, with bias correction; weight decay is added to the gradient.
class Adam : public Optimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, weight_decay = 0;
  };
  Adam(std::vector<NamedParameter> parameters, const Options& options) : Adam(std::move(parameters), options, false) {}

 protected:
  Adam(std::vector<NamedParameter> parameters, const Options& options, bool decoupled);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double gradient_scale) override;
  Options options_;
  bool decoupled_;
};

/// Loshchilov & Hutter 2019: the weight decay acts on the parameter, θ ← θ − rate · decay · θ, not on the averages.
class AdamW : public Adam {
 public:
  AdamW(std::vector<NamedParameter> parameters, const Options& options) : Adam(std::move(parameters), options, true) {}
};

/// The joint Euclidean norm of all gradients.
double gradient_norm(const std::vector<NamedParameter>& parameters);

/// What gradients of this joint norm are multiplied by so that it is at most max_norm: min(1, max_norm / norm). 1 where
/// max_norm is 0 (any norm will do), and where the norm is not finite: the caller sees that and skips the update.
double clip_scale(double norm, double max_norm);

/// Multiplies the gradients by clip_scale; returns their norm before. To clip without a pass over memory:
///   optimizer.step(rate, clip_scale(gradient_norm(optimizer.parameters()), max_norm));
double clip_gradients(const std::vector<NamedParameter>& parameters, double max_norm);

}  // namespace fovea
