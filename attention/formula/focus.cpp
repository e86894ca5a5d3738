#include "attention/formula/focus.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

namespace {

/// The first and last key of focus_window() for many queries at once, [B, h, n] in f64.
struct Windows {
  Tensor first, last;
};

/// The windows for `focus` and `gate` [B or 1, h or 1, n or 1]; `threshold` and `length` broadcast to these shapes.
Windows windows_of(const FocusedSoftmax& form, const Tensor& focus, const Tensor& gate, const Tensor& threshold,
                   const Tensor& length) {
  const Tensor center = focus.to(DType::f64), strength = gate.to(DType::f64), zero = constant_like(center, 0);
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

/// The entries of the first query in x [B, h, I, ...]; empty if there is no query.
Tensor of_first_query(const Tensor& x) { return x.slice(2, 0, std::min<std::int64_t>(x.size(2), 1)); }

/// g_t (s − p_{t−1})² / (2 sigma²), [B, h, n, J], of n queries with the gate g and the focus before each query, [B or
/// 1, h or 1, n].
Variable penalty_of(const FocusedSoftmax& form, const Variable& gate, const Variable& focus,
                    const AttentionContext& in) {
  const Variable distance = in.key_positions - unsqueeze(focus, -1);
  return unsqueeze(gate, -1) * square(distance) * (1 / (2 * form.sigma * form.sigma));
}

/// The focus before each query, [B, h, I], from the focus after each query.
Tensor focus_before(const FocusedSoftmax& form, const Tensor& focus) {
  const std::int64_t B = focus.size(0), h = focus.size(1);
  const Tensor first = form.previous.defined()
                           ? form.previous.value().unsqueeze(-1).expand({B, h, 1})
                           : Tensor::full({B, h, 1}, form.first_focus, focus.dtype(), focus.device());
  return concat({first, focus}, 2).value().slice(2, 0, focus.size(2));
}

}  // namespace

FocusedWeights focused_softmax(const FocusedSoftmax& form, const Variable& logits, const Tensor& allow,
                               const AttentionContext& in) {
  require(logits.rank() == 4,
          "flexible: a score with weights per dimension of the values (fine_grained) has no single focus; use "
          "another score");
  if (logits.size(2) == 0) return {logits, form.gate};  // no queries: [B, h, 0, J] and [B, h, 0]
  const Device device = form.gate.device();
  const Tensor lengths = visible_lengths(in), threshold = Tensor::full({1, 1, 1}, form.threshold, DType::f64, device);
  const std::vector<Variable> gates = slices(form.gate, 2);
  std::vector<Variable> rows = slices(logits, 2), focus_of_queries;
  Variable focus = form.previous.defined()  // before the query, [B or 1, h or 1, 1]
                       ? unsqueeze(form.previous, -1)
                       : Variable(Tensor::full({1, 1, 1}, form.first_focus, form.gate.dtype(), device));
  if (form.detach) focus = focus.detach();
  for (std::int64_t t = 0; t < logits.size(2); ++t) {
    Variable& row = rows[static_cast<std::size_t>(t)];
    const Variable& gate = gates[static_cast<std::size_t>(t)];
    Tensor seen = allow.defined() ? of_query(allow, t) : allow;
    if (form.has_focus(t)) {
      row = row - penalty_of(form, gate, focus, in);
      if (std::isfinite(form.threshold)) {
        const Windows keys = windows_of(form, focus.value(), gate.value(), threshold, of_query(lengths, t));
        const Tensor near =
            allowed_pairs({keys.first.to(DType::i32), map(Affine{1, 1}, keys.last).to(DType::i32)}, logits.size(3));
        seen = seen.defined() ? logical_and(near, seen) : near;
      }
    }
    row = softmax(row, seen);
    focus = sum(row * in.key_positions, {-1});  // p_t [B, h, 1]
    focus_of_queries.push_back(focus);
    if (form.detach) focus = focus.detach();
  }
  return {concat(rows, 2), concat(focus_of_queries, 2)};
}

Tensor focus_windows(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in) {
  const Shape own = focus.shape();  // [B, h, I]
  const Tensor threshold = Tensor::full({1, 1, own[2]}, form.threshold, DType::f64, focus.device());
  if (!form.has_focus(0)) of_first_query(threshold).fill(std::numeric_limits<double>::infinity());
  const Windows keys = windows_of(form, focus_before(form, focus), form.gate.value(), threshold, visible_lengths(in));
  return concat({keys.first.expand(own).unsqueeze(-1), keys.last.expand(own).unsqueeze(-1)}, 3).value();
}

Tensor focus_penalty(const FocusedSoftmax& form, const Tensor& focus, const AttentionContext& in) {
  NoGrad off;
  const Tensor penalty = penalty_of(form, form.gate, focus_before(form, focus), in).value();
  if (!form.has_focus(0)) of_first_query(penalty).fill(0);
  return penalty;
}

}  // namespace fovea
