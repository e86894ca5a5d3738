#include "attention/methods/location_weights.h"

#include <cmath>
#include <limits>

#include "attention/engine/composed.h"
#include "attention/methods/score.h"
#include "tensor/constant.h"

namespace fovea {

namespace {

struct LaplaceLogDensity {
  static constexpr const char* name = "laplace_log_density";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T b) const {
    return z - abs(at.key - at.query) / b - log(T(2) * b);
  }
};

struct GaussianLogDensity {
  static constexpr const char* name = "gaussian_log_density";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T> at, T sigma) const {
    T distance = (at.key - at.query) / sigma;
    return z - T(0.5) * distance * distance - log(T(2.5066282746310002) * sigma);  // sqrt(2 pi)
  }
};

/// Σ_j a_ij over the keys that the query sees, [B, H, I].
Variable density_sum(const AttentionContext& in, const PairTerm& log_density) {
  Variable z = apply_term(log_density, Tensor::zeros(in.pairs(), in.query.dtype(), in.query.device()), in);
  Tensor allow = in.seen();
  if (!allow.defined()) return sum(exp(z), {-1});
  return sum(exp(where(allow, z, constant_like(z, -std::numeric_limits<double>::infinity()))), {-1});
}

}  // namespace

void MeanWeights::add_terms(const AttentionContext& in, Plan& plan) { plan.scores.push_back(no_score(in)); }

void LocationDensity::visit(OptionVisitor& visitor, Options& options) {
  visitor.number("scale", options.scale, 1e-3, 1e6, "b of laplace, or sigma of gaussian_location, in tokens");
  visitor.flag("learned", options.learned, "learn scale = softplus(rho); `scale` is the initial value");
  visitor.flag("normalize", options.normalize, "divide by the sum over the keys that the query sees");
}

LocationDensity::LocationDensity(const MethodShape& shape, const Options& options) : options_(options) {
  // rho such that softplus(rho) = scale; for large scales, rho equals scale up to rounding
  double rho = options.scale > 30 ? options.scale : std::log(std::expm1(options.scale));
  if (options.learned) rho_ = parameter("rho", {shape.heads}, Initializer::constant(rho));
}

void LocationDensity::add_terms(const AttentionContext& in, Plan& plan) {
  Variable scale = options_.learned ? softplus(rho_) : Variable(constant_like(in.query, options_.scale));
  plan.scores.push_back(no_score(in));
  plan.biases.push_back(log_density({scale}));
  plan.quantity("scale", scale);
  if (options_.normalize) return;
  plan.normalizers.push_back({Normalizer::Form::density});
  plan.quantity("density_sum", [in, density = log_density({scale})] { return density_sum(in, density); });
}

PairTerm LaplaceWeights::log_density(const PerHead& scale) const { return pointwise(LaplaceLogDensity{}, scale); }

PairTerm GaussianWeights::log_density(const PerHead& scale) const { return pointwise(GaussianLogDensity{}, scale); }

}  // namespace fovea
