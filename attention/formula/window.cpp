#include "attention/formula/window.h"

#include <algorithm>

#include "attention/engine/cpu/pointwise_loops.h"
#include "autograd/operations.h"
#include "autograd/operations/gather.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tensor/top_k.h"

namespace fovea {

namespace {

/// m̂ of one pair. `forward_only` as in PointerWindow, and then the mask is `paper`.
template <PointerWindow::Mask mask, bool forward_only>
struct WindowOfPair {
  template <class T>
  static FOVEA_HD FOVEA_INLINE T value(T left_F, T left_S, T right_F, T right_S) {
    const T x = left_F * right_S;
    if constexpr (forward_only) return x;
    const T y = right_F * left_S;
    if constexpr (mask == PointerWindow::Mask::exact)  // F + S − 1 is the sum over the key's segment
      return x + y - (left_F + left_S - T(1)) * (right_F + right_S - T(1));
    if constexpr (mask == PointerWindow::Mask::either) return x + y - x * y;
    return x + y;
  }
};

/// w m̂
template <PointerWindow::Mask mask, bool forward_only>
struct WindowOfWeight {
  static constexpr const char* name = "pointer_window";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T w, Position<T>, T left_F, T left_S, T right_F, T right_S) const {
    return w * WindowOfPair<mask, forward_only>::value(left_F, left_S, right_F, right_S);
  }
};

/// z + (q^loc · k^loc / sqrt(D)) m̂
template <PointerWindow::Mask mask, bool forward_only>
struct WindowOfLogit {
  static constexpr const char* name = "additive_pointer_window";
  template <class T>
  FOVEA_HD FOVEA_INLINE T operator()(T z, Position<T>, T left_F, T left_S, T right_F, T right_S, T local) const {
    return z + local * WindowOfPair<mask, forward_only>::value(left_F, left_S, right_F, right_S);
  }
};

template <PointerWindow::Mask mask, bool forward_only>
PointwiseFormula window_formula_of(bool additive) {
  constexpr Per pair = Per::pair;
  if (additive)
    return pointwise_formula<WindowOfLogit<mask, forward_only>, pair, pair, pair, pair, pair>(
        WindowOfLogit<mask, forward_only>{});
  return pointwise_formula<WindowOfWeight<mask, forward_only>, pair, pair, pair, pair>(
      WindowOfWeight<mask, forward_only>{});
}

/// The division of J keys into segments.
struct Segments {
  Tensor first, last, number;  ///< for each key, its segment's first key, last key and number, i64 [J]
  std::int64_t count;          ///< number of segments
};

/// Segments of b keys each; the last one may be shorter.
Segments segments_of(std::int64_t J, std::int64_t b, Device device) {
  b = std::min(b, std::max<std::int64_t>(J, 1));  // a longer segment has the same keys
  const std::int64_t count = (J + b - 1) / b;
  const Tensor segments = Tensor::arange(count, DType::f64, device).unsqueeze(1).expand({count, b});
  const Tensor number = segments.reshape({count * b}).slice(0, 0, J);
  const auto size = static_cast<double>(b);
  const Tensor end = constant(static_cast<double>(J - 1), DType::f64, device);
  const Tensor first = map(Affine{size, 0}, number), last = map(Minimum{}, map(Affine{size, size - 1}, number), end);
  return {first.to(DType::i64), last.to(DType::i64), number.to(DType::i64), count};
}

/// For each row, 1 at its first maximum and 0 elsewhere. A row of zeros stays zero, and a row that contains a NaN is
/// not changed. The result has no gradient.
Tensor first_largest(const Tensor& phi) {
  if (phi.size(-1) == 0) return phi;
  const Tensor zero = constant_like(phi, 0);
  const TopK first = top_k(phi, 1);
  const Tensor one = Tensor::full(first.values.shape(), 1, phi.dtype(), phi.device());
  const Tensor chosen = scatter_add_last(where(greater(first.values, zero), one, zero), first.index, phi.size(-1));
  const Tensor total = sum(phi, {-1}, true);
  return where(equal(total, total), chosen, phi);  // a NaN does not equal itself
}

/// One pointer φ: the softmax of its logits over the keys in `allow`.
Variable pointer(const PointerWindow& window, const Variable& query, const Variable& key, const Tensor& allow,
                 const AttentionContext& in) {
  Variable logits = matmul(query, transpose(key, -1, -2), {.scale = window.pointer_scale});
  if (window.pointer_scale_by_length) logits = logits * unsqueeze(in.length, -1);
  return softmax(logits, allow);
}

/// m̂ from both pointers, for all keys.
Variable mask_of(const PointerWindow& window, const WindowPointers& phi) {
  Segments segments = segments_of(phi.left.size(-1), window.segment, phi.left.device());
  const bool by_token = window.segment == 1;
  auto F = [&](const Variable& phi) {
    Variable sums = cumulative_sum(phi);
    return by_token ? sums : gather_last(sums, segments.last);
  };
  auto S = [&](const Variable& phi) {
    Variable sums = cumulative_sum(phi, true);
    return by_token ? sums : gather_last(sums, segments.first);
  };
  auto mass = [&](const Variable& phi) {  // Σ φ over each key's segment
    return by_token ? phi : gather_last(scatter_last(phi, segments.number, segments.count), segments.number);
  };
  if (window.mask == PointerWindow::Mask::discrete)
    return F(first_largest(phi.left.value())) * S(first_largest(phi.right.value()));
  Variable x = F(phi.left) * S(phi.right);
  if (window.forward_only) return x;
  Variable y = F(phi.right) * S(phi.left);
  if (window.mask == PointerWindow::Mask::exact) return x + y - mass(phi.left) * mass(phi.right);
  if (window.mask == PointerWindow::Mask::either) return x + y - x * y;
  return x + y;
}

}  // namespace

PointwiseFormula window_formula(const PointerWindow& window) {
  using Mask = PointerWindow::Mask;
  if (window.forward_only) return window_formula_of<Mask::paper, true>(window.additive);
  if (window.mask == Mask::exact) return window_formula_of<Mask::exact, false>(window.additive);
  if (window.mask == Mask::either) return window_formula_of<Mask::either, false>(window.additive);
  return window_formula_of<Mask::paper, false>(window.additive);
}

WindowPointers window_pointers(const PointerWindow& window, const Captured& captured, const AttentionContext& in) {
  const Tensor allow = in.allow();
  Tensor left_allow = allow, right_allow = allow;
  if (window.forward_only) {
    Tensor query = in.query_positions.value().reshape({in.query.size(2), 1}), key = in.key_positions.value();
    auto both = [&](const Tensor& other) { return allow.defined() ? logical_and(allow, other) : other; };
    left_allow = both(less_equal(key, query));
    right_allow = both(less_equal(query, key));
  }
  return {pointer(window, captured[0], captured[1], left_allow, in),
          pointer(window, captured[2], captured[3], right_allow, in)};
}

Variable window_mask(const PointerWindow& window, const Captured& captured, const AttentionContext& in) {
  Variable mask = mask_of(window, window_pointers(window, captured, in));
  Tensor allow = in.allow();
  if (!allow.defined()) return mask;
  return where(allow, mask, constant_like(mask, 0));
}

Variable apply_window(const PointerWindow& window, const Variable& pairs, const Captured& captured,
                      const AttentionContext& in) {
  Variable mask = window_mask(window, captured, in);
  if (!window.additive) return pairs * mask;
  return pairs + matmul(captured[4], transpose(captured[5], -1, -2), {.scale = window.local_scale}) * mask;
}

}  // namespace fovea
