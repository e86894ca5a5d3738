/// Optimizers: SGD, Adam, AdamW, Lion and Adafactor, the choice of one of them, and gradient clipping.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/checkpoint.h"
#include "nn/module.h"

namespace fovea {

/// The parameters to which weight decay applies. matrices: those with two dimensions or more. Norms' gains, biases and
/// other vectors and numbers are left out.
enum class Decayed { all, matrices };

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
  /// By default weight decay applies to all parameters.
  void set_decayed(Decayed decayed) { decayed_ = decayed; }

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
  /// Zeros of the shape, type and layout of a parameter.
  static Tensor zeros_like(const Tensor& parameter);
  /// One kind of state: a tensor for each parameter, in state() called `name`.<parameter>. `initial` makes it for a
  /// parameter; where it returns an undefined tensor, the parameter has no state of this kind.
  struct StateKind {
    std::string name;
    std::function<Tensor(const Tensor& parameter)> initial = zeros_like;
  };
  struct StateTensors {
    std::string name;
    std::vector<Tensor> tensors;
  };

  Optimizer(std::vector<NamedParameter> parameters, const std::vector<StateKind>& state_kinds);
  /// Updates parameters_[k] for each k in `positions`; these parameters have gradients. `decay` is a factor of the
  /// weight decay, 0 or 1. updates_of_ already includes this update.
  virtual void update(const std::vector<std::size_t>& positions, double rate, double decay,
                      const Tensor& gradient_scale) = 0;

  std::vector<NamedParameter> parameters_;
  std::vector<StateTensors> state_tensors_;
  std::vector<std::int64_t> updates_of_;  ///< for each parameter, the number of updates in which it had a gradient

 private:
  Decayed decayed_ = Decayed::all;
};

/// Stochastic gradient descent with momentum, of parameter θ with gradient g and velocity v:
///   g ← g + weight_decay · θ,  v ← momentum · v + g,  θ ← θ − rate · v
class Sgd : public Optimizer {
 public:
  struct Options {
    double momentum = 0, weight_decay = 0;
  };
  Sgd(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double decay,
              const Tensor& gradient_scale) override;
  Options options_;
};

/// Adam (Kingma and Ba 2015). The bias correction counts the updates of each parameter separately, so that a parameter
/// that gets its first gradient late moves as one does in the first update. weight_decay · parameter is added to the
/// gradient, unless options.decoupled selects the weight decay of AdamW.
class Adam : public Optimizer {
 public:
  /// The defaults are those of Vaswani et al. 2017, section 5.3. Kingma and Ba recommend beta2 = 0.999, epsilon = 1e-8.
  struct Options {
    double beta1 = 0.9;     ///< decay of the running average of the gradient, in [0, 1)
    double beta2 = 0.98;    ///< decay of the running average of its square, in [0, 1)
    double epsilon = 1e-9;  ///< added to the root of the latter
    double weight_decay = 0;
    /// true is AdamW: the weight decay multiplies the parameter. false: weight_decay · parameter is added to the
    /// gradient.
    bool decoupled = false;
  };
  Adam(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double decay,
              const Tensor& gradient_scale) override;
  Options options_;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019): each parameter θ gets Adam's update without weight
/// decay, and also θ ← θ − rate · weight_decay · θ. Sets options.decoupled.
class AdamW : public Adam {
 public:
  AdamW(std::vector<NamedParameter> parameters, const Options& options);
};

/// Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2): every element of a parameter
/// θ with gradient g and mean m moves by the rate, in the direction of a sign.
///   θ ← θ − rate · (sign(beta1 · m + (1 − beta1) · g) + weight_decay · θ),  m ← beta2 · m + (1 − beta2) · g
/// A good rate is 3 to 10 times smaller than Adam's.
class Lion : public Optimizer {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.99;  ///< in [0, 1)
    double weight_decay = 0;
  };
  Lion(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double decay,
              const Tensor& gradient_scale) override;
  Options options_;
};

/// Adafactor (Shazeer and Stern 2018, algorithms 4 and 5): the mean square v of a matrix's gradients is kept as means
/// over rows and columns, so that its state needs n + m numbers for n · m parameters. In update t of a parameter θ with
/// gradient g:
///   v ← β v + (1 − β)(g² + 1e-30), β = 1 − t^−0.8;   of a matrix: the means r over rows and c over columns instead,
///   and v = r cᵀ / mean(r).  u = g / √v,  θ ← θ − rate · max(1e-3, rms(θ)) · u / max(1, rms(u)),  rms(x) = √mean(x²)
/// `rate` is relative to the size of θ; the paper has min(0.01, 1 / √t). Finite numbers in g are limited to ±1e14 in
/// f32 and ±1e140 in f64, because sums of larger squares may be infinite. Weight decay is decoupled, as in AdamW. Of a
/// parameter with more than two dimensions, the last two are those of matrices.
class Adafactor : public Optimizer {
 public:
  struct Options {
    double weight_decay = 0;
  };
  Adafactor(std::vector<NamedParameter> parameters, const Options& options);

 private:
  void update(const std::vector<std::size_t>& positions, double rate, double decay,
              const Tensor& gradient_scale) override;
  /// Takes the squares of the gradient of parameters_[k] into its means, v, and returns gradient / √v.
  Tensor over_deviation(std::size_t k, const Tensor& gradient);
  Options options_;
};

enum class OptimizerKind { adam, adamw, sgd, lion, adafactor };

/// An optimizer as a program's flags choose it. An option without a value has the default of the kind's own options.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  std::optional<double> beta1 = {}, beta2 = {};  ///< of adam, adamw and lion
  std::optional<double> epsilon = {};            ///< of adam and adamw
  std::optional<double> momentum = {};           ///< of sgd
  double weight_decay = 0;
  Decayed decayed = Decayed::all;

  /// Throws Error for an option that the kind does not have.
  void check() const;
};
/// Throws Error as OptimizerOptions::check() does.
std::unique_ptr<Optimizer> make_optimizer(std::vector<NamedParameter> parameters, const OptimizerOptions& options);

/// Returns the Euclidean norm of the vector of all gradients, concatenated, as global_norm() does.
Tensor gradient_norm(const std::vector<NamedParameter>& parameters);

/// Returns the factor for gradients that are sums over `count` items, such as tokens, and have the joint norm `norm`:
/// it makes them means, and clips the norm of the means to `max_norm`. That is min(1, max_norm / (norm / count)) /
/// count, an f64 scalar on the norm's device, which the host does not wait for. A `max_norm` of 0 turns clipping off. A
/// norm that is not finite is not clipped either; the caller should check for it and skip the update.
Tensor clip_scale(const Tensor& norm, double max_norm, double count = 1);

/// Multiplies the gradients by clip_scale() and returns the norm that they had before. To clip without another pass
/// over memory, write:
///   optimizer.step(rate, clip_scale(gradient_norm(optimizer.parameters()), max_norm));
Tensor clip_gradients(const std::vector<NamedParameter>& parameters, double max_norm);

}  // namespace fovea
