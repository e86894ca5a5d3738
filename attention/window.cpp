#include "attention/window.h"

#include "tensor/select.h"

namespace fovea {

namespace {

/// F^L S^R + F^R S^L, one pass over the matrices.
struct WindowMask {
  static constexpr const char* name = "window_mask";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T from_left, T to_right, T from_right, T to_left) const {
    return from_left * to_right + from_right * to_left;
  }
};

/// x + y − x y of x = F^L S^R and y = F^R S^L.
struct EitherMask {
  static constexpr const char* name = "either_mask";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T from_left, T to_right, T from_right, T to_left) const {
    T x = from_left * to_right, y = from_right * to_left;
    return x + y - x * y;
  }
};

/// The keys' segments: first and last key of each key's, and its number, all [J] i64.
struct Segments {
  Tensor first, last, number;
  std::int64_t count;
};

Segments segments_of(std::int64_t J, std::int64_t b) {
  std::vector<std::int64_t> first, last, number;
  for (std::int64_t j = 0; j < J; ++j) {
    number.push_back(j / b);
    first.push_back(j / b * b);
    last.push_back(std::min(J - 1, j / b * b + b - 1));
  }
  return {Tensor::from(first, {J}), Tensor::from(last, {J}), Tensor::from(number, {J}), (J + b - 1) / b};
}

/// Σ_j w_ij = 1 again.
class Renormalize : public PairTerm {
 public:
  Variable composed(const Variable& weights, const AttentionContext&) const override {
    Variable total = sum(weights, {-1}, true);
    return weights / maximum(total, Tensor::full({1}, 1e-9, total.dtype(), total.device()));
  }
};

}  // namespace

void DifferentiableWindow::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("use", options.use, {"multiplicative", "additive"}, "on the weights (MW) or on local logits (AW)");
  visitor.integer("segment", options.segment, 1, 1 << 20, "keys per segment, b; 1: by token");
  visitor.choice("mask", options.mask, {"paper", "exact", "prob_or"}, "eq. 9; less its double count; x + y - x y");
  visitor.flag("renormalize", options.renormalize, "use=multiplicative: weights sum to 1 again");
  visitor.flag("forward_only", options.forward_only, "encoder: left pointer at or before i, right at or after");
  visitor.number("pointer_scale", options.pointer_scale, -1e3, 1e3, "multiplies the pointers' logits");
  visitor.flag("pointer_scale_by_length", options.pointer_scale_by_length, "and by the number of keys in sight");
}

DifferentiableWindow::DifferentiableWindow(const MethodShape& shape, const Options& options)
    : options_(options),
      head_dim_(shape.head_dim),
      left_query_(shape.model_dim, shape.heads * shape.head_dim),
      left_key_(shape.model_dim, shape.heads * shape.head_dim),
      right_query_(shape.model_dim, shape.heads * shape.head_dim),
      right_key_(shape.model_dim, shape.heads * shape.head_dim) {
  require(!options.forward_only || (shape.place == Place::encoder && options.mask == Mask::paper),
          "window: forward_only is for encoder self-attention with mask=paper");
  require(!options.renormalize || options.use == Use::multiplicative, "window: renormalize is for use=multiplicative");
  child("left_query", left_query_);
  child("left_key", left_key_);
  child("right_query", right_query_);
  child("right_key", right_key_);
  if (options.use == Use::additive) {
    child("local_query", local_query_.emplace(shape.model_dim, shape.heads * shape.head_dim));
    child("local_key", local_key_.emplace(shape.model_dim, shape.heads * shape.head_dim));
  }
}

void DifferentiableWindow::add_terms(const AttentionContext& in, Terms& terms) {
  const Tensor allow = in.allow();
  Tensor left_allow = allow, right_allow = allow;
  if (options_.forward_only) {
    std::int64_t I = in.query.size(2);
    Tensor query = in.query_positions.value().reshape({I, 1}), key = in.key_positions.value();
    auto both = [&](const Tensor& other) { return allow.defined() ? logical_and(allow, other) : other; };
    left_allow = both(less_equal(key, query));
    right_allow = both(greater_equal(key, query));
  }
  Variable left = pointer(in, left_query_, left_key_, left_allow);
  Variable right = pointer(in, right_query_, right_key_, right_allow);
  Variable mask = window(in, left, right);
  if (options_.use == Use::multiplicative) {
    terms.windows.push_back(pointwise(MultiplyWindow{}, PerPair{mask}));
    if (options_.renormalize) terms.windows.push_back(std::make_unique<Renormalize>());
  } else {
    Variable local =
        matmul(split_heads(local_query_->forward(in.query_states), head_dim_),
               transpose(split_heads(local_key_->forward(in.key_states), head_dim_), -1, -2), {.scale = in.scale()});
    terms.biases.push_back(pointwise(AddBias{}, PerPair{local * mask}));
  }
  terms.quantity("left_pointer", left);
  terms.quantity("right_pointer", right);
  terms.quantity("window", mask);
}

Variable DifferentiableWindow::pointer(const AttentionContext& in, const Linear& query, const Linear& key,
                                       const Tensor& allow) const {
  Variable logits = matmul(split_heads(query.forward(in.query_states), head_dim_),
                           transpose(split_heads(key.forward(in.key_states), head_dim_), -1, -2),
                           {.scale = in.scale() * options_.pointer_scale});
  if (options_.pointer_scale_by_length) logits = logits * unsqueeze(in.length, -1);
  return softmax(logits, allow);
}

Variable DifferentiableWindow::window(const AttentionContext& in, const Variable& left, const Variable& right) const {
  Segments segments = segments_of(left.size(-1), options_.segment);
  bool by_token = options_.segment == 1;
  auto prefix = [&](const Variable& phi) {
    Variable sums = cumulative_sum(phi);
    return by_token ? sums : gather_last(sums, segments.last);
  };
  auto suffix = [&](const Variable& phi) {
    Variable sums = cumulative_sum(phi, true);
    return by_token ? sums : gather_last(sums, segments.first);
  };
  auto mass = [&](const Variable& phi) {  // of each key's segment
    return by_token ? phi : gather_last(scatter_last(phi, segments.number, segments.count), segments.number);
  };
  Variable mask;
  if (options_.forward_only) {
    mask = prefix(left) * suffix(right);
  } else if (options_.mask == Mask::either) {
    mask = map(EitherMask{}, prefix(left), suffix(right), prefix(right), suffix(left));
  } else {
    mask = map(WindowMask{}, prefix(left), suffix(right), prefix(right), suffix(left));
    if (options_.mask == Mask::exact) mask = mask - mass(left) * mass(right);
  }
  Tensor allow = in.allow();
  if (!allow.defined()) return mask;
  return where(allow, mask, Tensor::zeros({1}, mask.dtype(), mask.device()));
}

}  // namespace fovea
