#include "attention/formula/window.h"

#include <algorithm>
#include <cmath>

#include "autograd/operations.h"
#include "tensor/comparison.h"

namespace fovea {

namespace {

/// The division of J keys into segments.
struct Segments {
  Tensor first, last, number;  ///< for each key, its segment's first key, last key and number, i64 [J]
  std::int64_t count;          ///< number of segments
};

/// Segments of b keys each; the last one may be shorter.
Segments segments_of(std::int64_t J, std::int64_t b, Device device) {
  std::vector<std::int64_t> first, last, number;
  for (std::int64_t j = 0; j < J; ++j) {
    number.push_back(j / b);
    first.push_back(j / b * b);
    last.push_back(std::min(J - 1, j / b * b + b - 1));
  }
  auto there = [&](const std::vector<std::int64_t>& keys) { return Tensor::from(keys, {J}).to(device); };
  return {there(first), there(last), there(number), (J + b - 1) / b};
}

/// For each row, 1 at its first maximum and 0 elsewhere. A row of zeros stays zero, and a row that contains a NaN is
/// not changed. The result has no gradient.
Tensor first_largest(const Tensor& phi) {
  std::vector<double> values = phi.to_vector<double>();
  std::int64_t J = phi.size(-1);
  for (auto row = values.begin(); row != values.end(); row += J) {
    if (std::any_of(row, row + J, [](double x) { return std::isnan(x); })) continue;
    auto largest = std::max_element(row, row + J);
    std::int64_t at = *largest > 0 ? largest - row : J;
    std::fill(row, row + J, 0);
    if (at < J) row[at] = 1;
  }
  return Tensor::from(values, phi.shape()).to(phi.dtype()).to(phi.device());
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

WindowPointers window_pointers(const PointerWindow& window, std::span<const Variable> captured,
                               const AttentionContext& in) {
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

Variable window_mask(const PointerWindow& window, std::span<const Variable> captured, const AttentionContext& in) {
  Variable mask = mask_of(window, window_pointers(window, captured, in));
  Tensor allow = in.allow();
  if (!allow.defined()) return mask;
  return where(allow, mask, Tensor::zeros({1}, mask.dtype(), mask.device()));
}

Variable apply_window(const PointerWindow& window, const Variable& pairs, std::span<const Variable> captured,
                      const AttentionContext& in) {
  Variable mask = window_mask(window, captured, in);
  if (!window.additive) return pairs * mask;
  return pairs + matmul(captured[4], transpose(captured[5], -1, -2), {.scale = window.local_scale}) * mask;
}

}  // namespace fovea
