/// Weights that depend on positions only: equal weights, and Laplace and Gaussian densities of the distance. Watson
/// 2019, slides on attention. i is the position of the query, in a decoder the step.
///
///   mean               a_ij = 1 / len
///   laplace            a_ij = exp(−|j − i| / b) / (2 b)
///   gaussian_location  a_ij = exp(−(j − i)² / (2 sigma²)) / sqrt(2 pi sigma²)
///
/// As on the slides, the densities do not sum to 1 over the keys, unless `normalize` is set. A learned scale is
/// softplus(rho), one number per head. Biases of other methods multiply the densities by their exponentials.
#pragma once
#include "attention/method.h"

namespace fovea {

/// Equal weights for all keys. With biases of other methods, the weights are the softmax of these biases.
class MeanWeights : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"mean", "no score: equal weights for all keys", "Watson 2019", "a_ij = 1 / len"};
  static void visit(OptionVisitor&, Options&) {}
  MeanWeights(const MethodShape&, const Options&) {}
  void add_terms(const AttentionContext& in, Plan& plan) override;
};

/// The base class of Laplace and Gaussian weights.
class LocationDensity : public LocalnessMethod {
 public:
  struct Options {
    double scale = 1;        ///< b or sigma, in tokens; the initial value if it is learned
    bool learned = false;    ///< scale = softplus(rho), with rho learned for each head
    bool normalize = false;  ///< divide by the sum over the keys that the query sees
  };
  static void visit(OptionVisitor& visitor, Options& options);
  void add_terms(const AttentionContext& in, Plan& plan) override;

 protected:
  LocationDensity(const MethodShape& shape, const Options& options);
  /// The bias log a_ij for a scale [1] or [H].
  virtual PairTerm log_density(const PerHead& scale) const = 0;

 private:
  Options options_;
  Variable rho_;  // [H], with learned
};

class LaplaceWeights : public LocationDensity {
 public:
  static constexpr MethodCard card = {"laplace", "no score: weights are a Laplace density of the distance",
                                      "Watson 2019", "a_ij = exp(-|j - i| / scale) / (2 scale)"};
  LaplaceWeights(const MethodShape& shape, const Options& options) : LocationDensity(shape, options) {}

 protected:
  PairTerm log_density(const PerHead& scale) const override;
};

class GaussianWeights : public LocationDensity {
 public:
  static constexpr MethodCard card = {"gaussian_location", "no score: weights are a Gaussian density of the distance",
                                      "Watson 2019", "a_ij = exp(-(j - i)^2 / (2 scale^2)) / sqrt(2 pi scale^2)"};
  GaussianWeights(const MethodShape& shape, const Options& options) : LocationDensity(shape, options) {}

 protected:
  PairTerm log_density(const PerHead& scale) const override;
};

}  // namespace fovea
