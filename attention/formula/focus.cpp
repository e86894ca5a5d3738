#include "attention/formula/focus.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/map.h"

namespace fovea {

namespace {

Tensor number_like(const Tensor& x, double value) { return constant_like(x, value); }

/// The first and last key of focus_window() for many queries at once, [B, h, n] in f64.
struct Windows {
  Tensor first, last;
};

/// The windows for `focus` and `gate` [B or 1, h or 1, n or 1]; `threshold` and `length` broadcast to these shapes.
Windows windows_of(const FocusedSoftmax& form, const Tensor& focus, const Tensor& gate, const Tensor& threshold,
                   const Tensor& length) {
  const Tensor center = focus.to(DType::f64), strength = gate.to(DType::f64), zero = number_like(center, 0);
  const Tensor last_key = map(Affine{1, -1}, length);
  auto floor_of = [](const Tensor& x) { return map(Floor{}, x); };
  auto ceiling_of = [&](const Tensor& x) { return map(Affine{-1, 0}, floor_of(map(Affine{-1, 0}, x))); };
  auto within_row = [&](const Tensor& x) { return map(Maximum{}, zero, map(Minimum{}, x, last_key)); };
  const Tensor radius = map(Affine{form.sigma, 0}, map(Sqrt{}, map(Divide{}, map(Affine{2, 0}, threshold), strength)));
  const Tensor first = map(Maximum{}, zero, map(Affine{1, 1}, floor_of(map(Subtract{}, center, radius)))),
               last = map(Minimum{}, last_key, map(Affine{1, -1}, ceiling_of(map(Add{}, center, radius)))),
               nearest = within_row(floor_of(map(Affine{1, 0.5}, center)));
  // A focus that is not a number is near no key and far from none: the window is the row, and the logits are not
  // numbers.
  const Tensor nothing = less(last, first), has_penalty = logical_and(less(zero, strength), equal(center, center));
  auto chosen = [&](const Tensor& bound, const Tensor& without) {
    return where(has_penalty, where(nothing, nearest, bound), without);
  };
  const Tensor is_empty = less(last_key, zero);
  return {where(is_empty, zero, chosen(first, zero)), where(is_empty, last_key, chosen(last, last_key))};
}

/// The number of keys that each query may see, f64; broadcasts to [B, h, I].
Tensor visible_lengths(const AttentionContext& in) {
  if (in.visible.end.defined()) return in.visible.end.to(DType::f64);
  return Tensor::full({1, 1, 1}, static_cast<double>(in.key.size(2)), DType::f64, in.query.device());
}

/// Query t of x [B, h, I or 1, ...]; x itself if one row serves all queries.
Tensor of_query(const Tensor& x, std::int64_t t) { return x.size(2) > 1 ? x.slice(2, t, t + 1) : x; }

/// The recurrence over queries: computes the weights of one query after the other and keeps the focus.
class FocusLoop {
 public:
  FocusLoop(const FocusedSoftmax& form, const AttentionContext& in)
      : form_(form), in_(in), gates_(slices(form.gate, 2)), lengths_(visible_lengths(in)) {
    focus_ = form.previous.defined()
                 ? unsqueeze(form.previous, -1)
                 : Variable(Tensor::full({1, 1, 1}, form.first_focus, form.gate.dtype(), form.gate.device()));
    if (form.detach) focus_ = focus_.detach();
  }

  /// The weights of query t from its logits [B, h, 1, J]. `seen` is bool and broadcasts to them, or undefined.
  Variable weights(std::int64_t t, const Variable& logits, const Tensor& seen) {
    const bool focused = form_.has_focus(t);
    Tensor near = focused && std::isfinite(form_.threshold) ? window(t, logits.size(3)) : Tensor();
    if (near.defined() && seen.defined()) near = logical_and(near, seen);
    const Variable row = softmax(focused ? logits - penalty(t) : logits, near.defined() ? near : seen);
    const Variable after = sum(row * in_.key_positions, {-1});  // p_t [B, h, 1]
    focus_of_queries_.push_back(after);
    focus_ = form_.detach ? after.detach() : after;
    return row;
  }
  /// The focus after each query, [B, h, I].
  Variable focus() const { return concat(focus_of_queries_, 2); }

 private:
  /// g_t (s − p_{t−1})² / (2 sigma²), [B, h, 1, J]
  Variable penalty(std::int64_t t) const {
    const Variable distance = in_.key_positions - unsqueeze(focus_, -1);
    return unsqueeze(gates_[static_cast<std::size_t>(t)], -1) * square(distance) *
           (1 / (2 * form_.sigma * form_.sigma));
  }
  /// Whether a key is in the window of query t, bool [B, h, 1, J].
  Tensor window(std::int64_t t, std::int64_t J) const {
    const Tensor gate = gates_[static_cast<std::size_t>(t)].value();
    const Windows keys =
        windows_of(form_, focus_.value(), gate, Tensor::full({1, 1, 1}, form_.threshold, DType::f64, gate.device()),
                   of_query(lengths_, t));
    return allowed_pairs({keys.first.to(DType::i32), map(Affine{1, 1}, keys.last).to(DType::i32)}, J);
  }

  const FocusedSoftmax& form_;
  const AttentionContext& in_;
  std::vector<Variable> gates_;             // gate of each query, [B, h, 1]
  Tensor lengths_;                          // keys that each query sees
  std::vector<Variable> focus_of_queries_;  // focus after each query so far, [B, h, 1]
  Variable focus_;                          // focus before the next query, [B or 1, h or 1, 1]
};

}  // namespace

FocusedWeights focused_softmax(const FocusedSoftmax& form, const Variable& logits, const Tensor& allow,
                               const AttentionContext& in) {
  require(logits.rank() == 4,
          "flexible: a score with weights per dimension of the values (fine_grained) has no single focus; use "
          "another score");
  FocusLoop loop(form, in);
  std::vector<Variable> rows = slices(logits, 2);
  for (std::int64_t t = 0; t < logits.size(2); ++t) {
    Variable& row = rows[static_cast<std::size_t>(t)];
    row = loop.weights(t, row, allow.defined() ? of_query(allow, t) : allow);
  }
  return {concat(rows, 2), loop.focus()};
}

namespace {

/// The focus before each query, [B, h, I], from the focus after each query.
Tensor focus_before(const FocusedSoftmax& form, const Tensor& focus) {
  const std::int64_t B = focus.size(0), h = focus.size(1), I = focus.size(2);
  const Tensor first = form.previous.defined()
                           ? form.previous.value().unsqueeze(-1).expand({B, h, 1})
                           : Tensor::full({B, h, 1}, form.first_focus, focus.dtype(), focus.device());
  return concat({first, focus.slice(2, 0, I - 1)}, 2).value();
}

}  // namespace

Tensor focus_windows(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in) {
  const Shape own = focus.shape();  // [B, h, I]
  const std::int64_t I = own[2];
  Tensor threshold = Tensor::full({1, 1, I}, form.threshold, DType::f64, focus.device());
  if (!form.has_focus(0)) threshold.slice(2, 0, 1).fill(std::numeric_limits<double>::infinity());
  const Windows keys = windows_of(form, focus_before(form, focus), form.gate.value(), threshold, visible_lengths(in));
  return concat({keys.first.expand(own).unsqueeze(-1), keys.last.expand(own).unsqueeze(-1)}, 3).value();
}

Tensor focus_penalty(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in) {
  const Variable before = focus_before(form, focus), gate = broadcast_to(form.gate.detach(), focus.shape());
  const Variable distance = in.key_positions.detach() - unsqueeze(before, -1);
  Tensor penalty = (unsqueeze(gate, -1) * square(distance) * (1 / (2 * form.sigma * form.sigma))).value().contiguous();
  if (!form.has_focus(0)) penalty.slice(2, 0, 1).fill(0);
  return penalty;
}

}  // namespace fovea
