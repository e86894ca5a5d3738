#include "attention/methods/local.h"

#include <algorithm>
#include <cmath>

#include "attention/methods/gaussian.h"
#include "attention/methods/score.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// The window: weight · exp(−(j − p)² / (2 sigma²)), sigma = D / 2.
struct GaussianWindow {
  static constexpr const char* name = "gaussian_window";
  double half_width;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T> at, T center) const {
    using S = typename ScalarOf<T>::type;
    T distance = (at.key - center) * T(S(1 / half_width));
    return w * exp(T(-2) * distance * distance);
  }
};

}  // namespace

void LocalMonotonic::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("half_width", options.half_width, 0, std::int64_t{1} << 31, "D: number of keys on each side");
}

void LocalMonotonic::add_terms(const AttentionContext& in, Plan& plan) {
  Variable position = minimum(in.query_positions, in.in_row(in.length - 1));  // p [B or 1, 1, I]
  const auto D = static_cast<double>(options_.half_width);
  add_range(plan, in, keys_between(map(Affine{1, -D}, position.value()), map(Affine{1, D}, position.value())));
  plan.quantity("center", broadcast_to(position, {in.query.size(0), 1, in.query.size(2)}));
}

void LocalPredictive::visit(OptionVisitor& visitor, Options& options) {
  visitor.number("half_width", options.half_width, 1e-3, 1e6, "D: keys on each side, in tokens; sigma = D / 2");
  visitor.integer("hidden", options.hidden, 0, 1 << 16,
                  "width of the hidden layer that predicts p; 0: the width of the queries");
  visitor.choice("center_scale", options.center_scale, {"last", "paper"},
                 "last: p = (len - 1) sigmoid; paper: len sigmoid");
  visitor.choice("truncation", options.truncation, {"floor", "exact"},
                 "floor: the hard window is around floor(p); exact: around p");
  visitor.flag("renormalize", options.renormalize, "divide the weights by their sum after the Gaussian");
}

LocalPredictive::LocalPredictive(const MethodShape& shape, const Options& options) : options_(options) {
  std::int64_t a = options.hidden > 0 ? options.hidden : shape.query_dim;
  projection_ = parameter("projection", shape_of_heads(shape, {shape.query_dim, a}), Initializer::xavier_uniform(),
                          rate_of_reading(shape.query_dim));
  vector_ = parameter("vector", shape_of_heads(shape, {a}), vector_initializer(a).scaled(0.1), rate_of_reading(a));
}

void LocalPredictive::add_terms(const AttentionContext& in, Plan& plan) {
  const Variable hidden = tanh(project(in.query, projection_));           // [B, H, I, a]
  const Variable fraction = sigmoid(project_to_number(hidden, vector_));  // [B, H, I]
  Variable center = in.in_row((options_.center_scale == CenterScale::last ? in.length - 1 : in.length) * fraction);
  const double D = options_.half_width;
  Tensor around = center.value();
  if (options_.truncation == Truncation::floor) around = map(Floor{}, around);
  add_range(plan, in, keys_between(map(Affine{1, -D}, around), map(Affine{1, D}, around)));
  if (options_.renormalize) {
    // softmax(s) g divided by its sum is softmax(s + log g): the Gaussian becomes a bias
    Variable inverse_width = Tensor::full({1, 1, 1}, 1 / D, center.dtype(), center.device());
    plan.biases.push_back(pointwise(GaussianBias{}, PerQuery{center}, PerQuery{inverse_width}));
  } else {
    plan.windows.push_back(pointwise(GaussianWindow{D}, PerQuery{center}));
  }
  plan.quantity("hidden", [hidden] { return mean(abs(hidden), {3}); });
  plan.quantity("center", center);
}

}  // namespace fovea
