#include "attention/methods/window.h"

#include <cmath>
#include <string>

#include "attention/engine/composed.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

using Mask = PointerWindow::Mask;

/// w · m̂_j for a window between two positions l and r. F^L_j = 1 if l is at or before the end of j's segment,
/// otherwise 0. S^R_j = 1 if r is at or after the start of j's segment. Both are computed by comparing numbers of
/// segments.
struct WindowBetween {
  static constexpr const char* name = "window_between";
  Mask mask;
  double segment;
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T> at, T left, T right) const {
    using S = typename ScalarOf<T>::type;
    auto number = [&](T position) {  // of its segment; + 0.5 protects exact quotients from rounding errors
      return segment == 1 ? position : T(floor((position + T(S(0.5))) / T(S(segment))));
    };
    const T one(S(1)), zero(S(0)), j = number(at.key), l = number(left), r = number(right);
    const T x = select(l <= j, one, zero) * select(j <= r, one, zero);  // F^L S^R
    if (mask == Mask::discrete) return w * x;
    const T y = select(r <= j, one, zero) * select(j <= l, one, zero);  // F^R S^L
    return w * (mask == Mask::paper ? x + y : x + y - x * y);  // exact, either: l = j = r counts once, not twice
  }
};

/// A pointer as a distribution over the keys: for positions [B or 1, H or 1, I or 1], the distribution with all its
/// mass at the position; a distribution is returned as it is.
Variable distribution(const Variable& pointer, const AttentionContext& in) {
  if (pointer.rank() == 4) return pointer;
  const Tensor there = equal(in.key_positions.value(), pointer.value().unsqueeze(-1));
  return there.to(pointer.dtype());
}

/// Sums of a pointer φ [..., J] for each key: F up to the end of its segment, S from its segment's start on, and the
/// mass of its segment.
struct PointerSums {
  Variable F, S, mass;
};
PointerSums pointer_sums(const Variable& phi, std::int64_t segment) {
  const std::int64_t J = phi.size(-1), last_segment = (J - 1) / segment;
  const Tensor j = Tensor::arange(J, DType::f64, phi.device());
  const Tensor number = map(Floor{}, map(Affine{1.0 / static_cast<double>(segment), 0.5 / double(segment)}, j));
  auto scaled = [&](double first) {  // the key `first` of every key's segment, or the last key
    const Tensor key = map(Affine{static_cast<double>(segment), first}, number);
    return map(Minimum{}, key, constant(static_cast<double>(J - 1), DType::f64, j.device())).to(DType::i64);
  };
  const Tensor segments = number.to(DType::i64);
  return {.F = gather_last(cumulative_sum(phi), scaled(static_cast<double>(segment - 1))),
          .S = gather_last(cumulative_sum(phi, true), scaled(0)),
          .mass = gather_last(scatter_last(phi, segments, last_segment + 1), segments)};
}

/// A window between given pointers in the cases that need a matrix of all pairs: pointers that are distributions, or
/// local logits. The captures are the two pointers and, if the window is additive, q^loc [B, H, I, D] and k^loc [B, H,
/// J, D].
class GivenWindow : public CustomTerm {
 public:
  GivenWindow(bool additive, Mask mask, std::int64_t segment, double local_scale)
      : additive_(additive), mask_(mask), segment_(segment), local_scale_(local_scale) {}

  /// m̂ [B or 1, H or 1, I or 1, J]
  Variable window(const AttentionContext& in, const Captured& captured) const {
    const Variable &left = captured[0], &right = captured[1];
    if (left.rank() == 3 && right.rank() == 3) {
      const Variable one = Tensor::full({1, 1, 1, in.key.size(2)}, 1, in.query.dtype(), in.query.device());
      return apply_term(pointwise(WindowBetween{mask_, static_cast<double>(segment_)}, PerQuery{left}, PerQuery{right}),
                        one, in);
    }
    const PointerSums l = pointer_sums(distribution(left, in), segment_),
                      r = pointer_sums(distribution(right, in), segment_);
    const Variable x = l.F * r.S, y = r.F * l.S;
    if (mask_ == Mask::exact) return x + y - l.mass * r.mass;
    return mask_ == Mask::either ? x + y - x * y : x + y;
  }

  Variable composed(const Variable& pairs, const AttentionContext& in, const Captured& captured) const override {
    const Variable mask = window(in, captured);
    if (!additive_) return pairs * mask;
    return pairs + matmul(captured[2], transpose(captured[3], -1, -2), {.scale = local_scale_}) * mask;
  }

 private:
  bool additive_;
  Mask mask_;
  std::int64_t segment_;
  double local_scale_;
};

}  // namespace

void DifferentiableWindow::visit(OptionVisitor& visitor, Options& options) {
  visitor.choice("pointers", options.pointers, {"learned", "given"},
                 "learned: from projections; given: the inputs left_pointer and right_pointer of the call");
  visitor.choice("use", options.use, {"multiplicative", "additive"},
                 "multiplicative: m multiplies the weights (MW); additive: local logits times m are added (AW)");
  visitor.integer("segment", options.segment, 1, 1 << 20, "b, the number of keys in a segment");
  visitor.choice("mask", options.mask, {"paper", "exact", "prob_or", "discrete"},
                 "paper: eq. 9; exact: without its double count; prob_or: x + y - x y; discrete: eq. 6");
  visitor.flag("renormalize", options.renormalize, "with use=multiplicative: divide the weights by their sum");
  visitor.flag("forward_only", options.forward_only,
               "in encoders: restrict the left pointer to keys up to i, the right one to keys from i on");
  visitor.number("pointer_scale", options.pointer_scale, -1e3, 1e3, "factor of the pointers' logits");
  visitor.flag("pointer_scale_by_length", options.pointer_scale_by_length,
               "also multiply the pointers' logits by the number of keys that the query may see");
  visitor.flag(
      "published_initial", options.published_initial,
      "initial values as in the authors' code: random pointers and local logits, which hide keys from the start");
}

DifferentiableWindow::DifferentiableWindow(const MethodShape& shape, const Options& options)
    : options_(options), head_dim_(shape.head_dim) {
  require(!options.forward_only || (shape.place == Place::encoder && options.mask == Mask::paper),
          "window: forward_only=true needs encoder self-attention and mask=paper");
  require(!options.renormalize || options.use == Use::multiplicative,
          "window: renormalize=true needs use=multiplicative");
  if (options.segment > 1 && shape.place == Place::decoder)
    warn(fmt::format(
        "window: segment={} in a decoder's self-attention: a query at the end of the prefix sees only a part of its "
        "last segment. No later key is read, but the paper uses segments in cross-attention only",
        options.segment));
  require(options.pointers == Pointers::learned ||
              (!options.forward_only && options.pointer_scale == 1 && !options.pointer_scale_by_length),
          "window: forward_only, pointer_scale and pointer_scale_by_length need pointers=learned");
  const std::int64_t width = shape.heads * shape.head_dim;
  // Both factors of a product are small and slow alike: the product of their rates is 1 / sqrt(d). Local logits at the
  // full rate would double that of the logits, which is too much for them at a rate that suits plain attention.
  Linear::Options of_pointers, of_local_logits;
  if (!options.published_initial) {
    of_pointers.initializer = Initializer::xavier_uniform().scaled(0.3);
    of_pointers.rate = std::sqrt(rate_of_reading(shape.model_dim));
    of_local_logits.initializer = Initializer::xavier_uniform().scaled(0.5);
    of_local_logits.rate = of_pointers.rate;
  }
  auto add = [&](const char* query_name, std::optional<Linear>& query, const char* key_name, std::optional<Linear>& key,
                 const Linear::Options& layer) {
    child(query_name, query.emplace(shape.model_dim, width, layer));
    child(key_name, key.emplace(shape.key_state_dim, width, layer));
  };
  if (options.pointers == Pointers::learned) {
    add("left_query", left_query_, "left_key", left_key_, of_pointers);
    add("right_query", right_query_, "right_key", right_key_, of_pointers);
  }
  if (options.use == Use::additive) add("local_query", local_query_, "local_key", local_key_, of_local_logits);
}

void DifferentiableWindow::add_layers(StateLayers& layers) const {
  for (const std::optional<Linear>* layer : {&left_query_, &right_query_, &local_query_})
    if (*layer) layers.of_query.push_back(&**layer);
  for (const std::optional<Linear>* layer : {&left_key_, &right_key_, &local_key_})
    if (*layer) layers.of_key.push_back(&**layer);
}

Variable DifferentiableWindow::queries(const AttentionContext& in, const Linear& projection) const {
  return split_heads(in.project(projection, in.query_states), head_dim_);
}

Variable DifferentiableWindow::keys(const AttentionContext& in, const Linear& projection) const {
  return split_heads(in.all_keys(&projection, [&] { return in.project(projection, in.key_states); }), head_dim_);
}

void DifferentiableWindow::add_terms(const AttentionContext& in, Plan& plan) {
  require(options_.segment == 1 || !in.document_start.defined(),
          "window: segments are counted from the start of the row, so segment={} is not defined for several documents "
          "in one row; use segment=1",
          options_.segment);
  if (options_.pointers == Pointers::given) {
    add_given_window(in, plan);
  } else {
    add_learned_window(in, plan);
  }
  if (options_.renormalize) plan.windows.push_back({Renormalization{}});
}

void DifferentiableWindow::add_local_logits(const AttentionContext& in, std::vector<Capture>& captures) const {
  if (options_.use != Use::additive) return;
  captures.push_back({Per::query_vector, queries(in, *local_query_)});
  captures.push_back({Per::key_vector, keys(in, *local_key_)});
}

void DifferentiableWindow::add_given_window(const AttentionContext& in, Plan& plan) const {
  auto capture = [&](const Variable& given, const Variable& otherwise) -> Capture {
    if (given.defined() && given.rank() == 4) return {Per::pair, given};
    return PerQuery{in.in_row(given.defined() ? given : otherwise)};
  };
  const Variable first = Tensor::zeros({1, 1, 1}, in.query.dtype(), in.query.device());
  std::vector<Capture> captures{capture(in.left_pointer, first), capture(in.right_pointer, in.length - 1)};
  const bool positions = captures[0].per == Per::query && captures[1].per == Per::query;
  require(positions || options_.mask != Mask::discrete,
          "window: mask=discrete needs two positions, i32 or i64, but left_pointer or right_pointer is a distribution");
  add_local_logits(in, captures);
  const bool additive = options_.use == Use::additive;
  const auto term = std::make_shared<const GivenWindow>(additive, options_.mask, options_.segment, in.scale());
  plan.quantity("window", [term, in, left = captures[0].value, right = captures[1].value] {
    const Variable mask = broadcast_to(term->window(in, std::vector<Variable>{left, right}), in.pairs());
    const Tensor allow = in.allow();
    return allow.defined() ? where(allow, mask, constant_like(mask, 0)) : mask;
  });
  const auto show = [&](const std::string& side, const Variable& pointer) {
    const auto sums = [pointer, in, b = options_.segment] { return pointer_sums(distribution(pointer, in), b); };
    plan.quantity("phi_" + side, [pointer, in] { return distribution(pointer, in); });
    plan.quantity("F_" + side, [sums] { return sums().F; });
    plan.quantity("S_" + side, [sums] { return sums().S; });
  };
  show("left", captures[0].value);
  show("right", captures[1].value);
  if (positions && !additive)
    plan.windows.push_back(pointwise(WindowBetween{options_.mask, static_cast<double>(options_.segment)},
                                     PerQuery{captures[0].value}, PerQuery{captures[1].value}));
  else
    (additive ? plan.biases : plan.windows).push_back({term, std::move(captures)});
}

void DifferentiableWindow::add_learned_window(const AttentionContext& in, Plan& plan) const {
  std::vector<Capture> captures{{Per::query_vector, queries(in, *left_query_)},
                                {Per::key_vector, keys(in, *left_key_)},
                                {Per::query_vector, queries(in, *right_query_)},
                                {Per::key_vector, keys(in, *right_key_)}};
  add_local_logits(in, captures);
  const PointerWindow window{.additive = options_.use == Use::additive,
                             .segment = options_.segment,
                             .mask = options_.mask,
                             .forward_only = options_.forward_only,
                             .pointer_scale = in.scale() * options_.pointer_scale,
                             .pointer_scale_by_length = options_.pointer_scale_by_length,
                             .local_scale = in.scale()};
  const std::vector<Variable> captured = values_of(captures);
  plan.quantity("left_pointer", [=] { return window_pointers(window, captured, in).left; });
  plan.quantity("right_pointer", [=] { return window_pointers(window, captured, in).right; });
  plan.quantity("window", [=] { return window_mask(window, captured, in); });
  (window.additive ? plan.biases : plan.windows).push_back({window, std::move(captures)});
}

}  // namespace fovea
