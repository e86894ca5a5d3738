/// Weights by position alone: the mean, and Laplace and Gaussian densities around the query's own position.
/// Watson 2019, the slides on attention; i is the decoder's step, or the query's position.
///
///   mean               a_ij = 1 / len
///   laplace            a_ij = exp(−|j − i| / b) / (2 b)
///   gaussian_location  a_ij = exp(−(j − i)² / (2 sigma²)) / sqrt(2 pi sigma²)
///
/// The densities do not sum to 1 over the keys, as on the slides; with normalize = true they do. A learned scale is
/// softplus(rho), one number, for each head one.
#pragma once
#include "attention/registry.h"

namespace fovea {

/// Every key alike: with other methods' biases, a softmax of those alone.
class MeanWeights : public LocalnessMethod {
 public:
  struct Options {};
  static constexpr MethodCard card = {"mean", "no score: every key alike", "Watson 2019", "a_ij = 1 / len"};
  static void visit(OptionVisitor&, Options&) {}
  MeanWeights(const MethodShape&, const Options&) {}
  void add_terms(const AttentionContext& in, Terms& terms) override;
};

/// What Laplace and Gaussian weights share: a scale, fixed or learned, and whether the weights sum to 1.
class LocationDensity : public LocalnessMethod {
 public:
  struct Options {
    double scale = 1;        ///< b or sigma, in tokens; where it starts if it is learned
    bool learned = false;    ///< scale = softplus(rho)
    bool normalize = false;  ///< divide by the sum over the keys in sight
  };
  static void visit(OptionVisitor& visitor, Options& options);
  void add_terms(const AttentionContext& in, Terms& terms) override;

 protected:
  LocationDensity(const MethodShape& shape, const Options& options);
  /// log a_ij of this scale, [1] or [H]
  virtual std::unique_ptr<PairTerm> log_density(const PerHead& scale) const = 0;

 private:
  Options options_;
  Variable rho_;  // [1], or one per head
};

class LaplaceWeights : public LocationDensity {
 public:
  static constexpr MethodCard card = {"laplace", "no score: weights fall with the distance", "Watson 2019",
                                      "a_ij = exp(-|j - i| / scale) / (2 scale)"};
  LaplaceWeights(const MethodShape& shape, const Options& options) : LocationDensity(shape, options) {}

 protected:
  std::unique_ptr<PairTerm> log_density(const PerHead& scale) const override;
};

class GaussianWeights : public LocationDensity {
 public:
  static constexpr MethodCard card = {"gaussian_location", "no score: weights fall with the distance's square",
                                      "Watson 2019", "a_ij = exp(-(j - i)^2 / (2 scale^2)) / sqrt(2 pi scale^2)"};
  GaussianWeights(const MethodShape& shape, const Options& options) : LocationDensity(shape, options) {}

 protected:
  std::unique_ptr<PairTerm> log_density(const PerHead& scale) const override;
};

}  // namespace fovea
