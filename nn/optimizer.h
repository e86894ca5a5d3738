/// Optimizers: SGD, Adam and AdamW, and gradient clipping.
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

  /// One update with learning rate `rate`, such as Schedule::rate(). Gradients are multiplied by `gradient_scale`, such
  /// as the result of clip_scale(), as they are read, without another pass over memory; it is f64 [] on their device,
  /// or undefined, which stands for 1. A parameter's own factor (NamedParameter::rate) multiplies the rate. A parameter
  /// without a gradient is not changed.
  void step(double rate, const Tensor& gradient_scale = {});
  /// Clears all gradients. Call it before the next backward(), which adds to existing gradients.
  void zero_grad();

  const std::vector<NamedParameter>& parameters() const { return parameters_; }

  /// The optimizer's state for a checkpoint: the averages of past gradients, such as "adam.mean.<parameter>", and the
  /// number of updates in which a parameter had a gradient, "updates.<parameter>", i64 [1]. With the parameters it
  /// suffices to resume training exactly. The states of optimizers of different parameters have different names. The
  /// averages share the optimizer's memory: the next step() changes them, so write or clone them before.
  NamedTensors state() const;
  /// Restores the values of an earlier state(). Throws Error for the state of another model or optimizer, as
  /// load_tensors() does, with a message that begins with `source`. Checkpoints of earlier versions have the number of
  /// all updates, "updates"; the oldest have no "updates.<parameter>", and their parameters had a gradient in all
  /// updates.
  void load_state(const NamedTensors& values, std::string_view source);

 protected:
  /// One kind of state: a tensor for each parameter, of the parameter's shape and initially zeros. In state() it is
  /// called `name`.<parameter>.
  struct StateTensors {
    std::string name;
    std::vector<Tensor> tensors;
  };

  Optimizer(std::vector<NamedParameter> parameters, const std::vector<std::string>& state_names);
  /// Updates parameters_[k] for each k in `positions`; these parameters have gradients. updates_of_ already
  /// includes this update.
  virtual void update(const std::vector<std::size_t>& positions, double rate, const Tensor& gradient_scale) = 0;

  std::vector<NamedParameter> parameters_;
  std::vector<StateTensors> state_tensors_;
  std::vector<std::int64_t> updates_of_;  ///< for each parameter, the number of updates in which it had a gradient
};

/// Stochastic gradient descent with momentum, of parameter θ with gradient g and velocity v:
///   g ← g + weight_decay · θ,  v ← momentum · v + g,  θ ← θ − rate · v
class Sgd : public Optimizer {
 public:
  using Options = SgdOptions;
  Sgd(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, const Tensor& gradient_scale) override;
  Options options_;
};

/// Adam with bias correction (Kingma and Ba 2015), by the number of updates of each parameter: a parameter that gets
/// its first gradient late moves as one does in the first update. weight_decay · parameter is added to the gradient,
/// unless options.decoupled selects the weight decay of AdamW.
class Adam : public Optimizer {
 public:
  using Options = AdamOptions;
  Adam(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, const Tensor& gradient_scale) override;
  Options options_;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019): each parameter θ gets Adam's update without weight
/// decay, and also θ ← θ − rate · weight_decay · θ. Sets options.decoupled.
class AdamW : public Adam {
 public:
  AdamW(std::vector<NamedParameter> parameters, const Options& options);
};

/// Returns the Euclidean norm of the vector of all gradients, concatenated, as global_norm() does.
Tensor gradient_norm(const std::vector<NamedParameter>& parameters);

/// Multiplies the gradients by clip_scale() and returns the norm that they had before. To clip without another pass
/// over memory, write:
///   optimizer.step(rate, clip_scale(gradient_norm(optimizer.parameters()), max_norm));
Tensor clip_gradients(const std::vector<NamedParameter>& parameters, double max_norm);

}  // namespace fovea
