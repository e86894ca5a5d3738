#include "attention/methods/linear.h"

#include <algorithm>

#include "tensor/comparison.h"
#include "tensor/constant.h"

namespace fovea {

namespace {

Variable feature_map(const Variable& x) { return exp(-relu(-x)) + relu(x); }  // elu(x) + 1

/// sums / max(total, 1e-9)
Variable ratio(const Variable& sums, const Variable& total) {
  return sums / maximum(total, constant_like(total, Renormalization::least));
}

class FeatureProducts : public PairlessMixer {
 public:
  explicit FeatureProducts(const void* method) : method_(method) {}

  Variable output(const AttentionContext& in, const Captured& captured) const override {
    if (in.query.size(2) == 0) return matmul(weights(in, captured), in.value);
    const std::int64_t D = in.value.size(3);
    Shape column = in.value.shape();
    column[3] = 1;
    const Variable one = Tensor::full(column, 1, in.value.dtype(), in.value.device());
    const Variable q = feature_map(in.query), k = without_padding(in, feature_map(in.key)),
                   v = concat({without_padding(in, in.value), one}, 3);
    const Variable sums = in.document_start.defined() ? document_sums(in, q, k, v)
                          : in.causal                 ? prefix_sums(in, q, k, v)
                                                      : matmul(q, matmul(transpose(k, 2, 3), v));
    if (in.allowed.defined()) return matmul(weights(in, captured), in.value);  // a mask of pairs needs all pairs
    return ratio(slice(sums, 3, 0, D), slice(sums, 3, D, D + 1));
  }
  Variable weights(const AttentionContext& in, const Captured&) const override {
    Variable products = matmul(feature_map(in.query), transpose(feature_map(in.key), 2, 3));
    if (const Tensor seen = in.seen(); seen.defined()) products = where(seen, products, constant_like(products, 0));
    return ratio(products, sum(products, {-1}, true));
  }

 private:
  /// φ(q_i) · Σ_{j≤i} φ(k_j) [v_j; 1] for all queries i, in chunks of queries. q, k and v are φ(queries), φ(keys) and
  /// [values; 1], as in output().
  Variable prefix_sums(const AttentionContext& in, const Variable& q, const Variable& k, const Variable& v) const {
    const std::int64_t I = q.size(2), offset = in.query_offset, most = 64;  // most: queries in a chunk
    // state: Σ φ(k_j) [v_j; 1] over the keys before the chunk
    Variable state = in.memory && offset > 0 ? in.memory->step_state(method_) : Variable();
    if (!state.defined()) state = matmul(transpose(slice(k, 2, 0, offset), 2, 3), slice(v, 2, 0, offset));
    std::vector<Variable> chunks;
    for (std::int64_t first = 0; first < I; first += most) {
      const std::int64_t n = std::min(most, I - first), key = offset + first;
      const Variable queries = slice(q, 2, first, first + n), values = slice(v, 2, key, key + n),
                     keys = transpose(slice(k, 2, key, key + n), 2, 3);
      const Tensor seen = allowed_pairs({{}, Tensor::arange(n, DType::i32, q.device(), 1)}, n);
      const Variable zero = constant_like(q, 0);
      chunks.push_back(matmul(where(seen, matmul(queries, keys), zero), values) + matmul(queries, state));
      state = state + matmul(keys, values);
    }
    if (in.memory) in.memory->step_state(method_) = state;
    return concat(chunks, 2);
  }

  /// φ(q_i) · Σ_j φ(k_j) [v_j; 1], where j runs over the keys of i's document that i may see, in chunks of queries. Of
  /// the keys before a chunk only those of one document matter, the document of the chunk's first query; likewise
  /// behind the chunk only those of the document of its last query. q, k and v as in output().
  static Variable document_sums(const AttentionContext& in, const Variable& q, const Variable& k, const Variable& v) {
    const std::int64_t I = q.size(2), most = 64;
    const Variable zero = constant_like(q, 0);
    const Tensor first = in.visible.first.unsqueeze(-1), end = in.visible.end.unsqueeze(-1);  // [B, 1, I, 1]
    const Tensor position = Tensor::arange(I, DType::i32, q.device()).reshape({I, 1});
    auto at = [&](std::int64_t i) { return position.slice(0, i, i + 1); };
    auto behind = [&](std::int64_t a) { return std::min(a + most, I); };  // the end of the chunk that begins at a
    auto products = [&](std::int64_t a, const Tensor& wanted) {  // Σ φ(k_j) [v_j; 1] over the chunk's keys in `wanted`
      const Variable keys = where(wanted, slice(k, 2, a, behind(a)), zero);
      return matmul(transpose(keys, 2, 3), slice(v, 2, a, behind(a)));
    };
    std::vector<Variable> chunks;
    Variable state;  // Σ φ(k_j) [v_j; 1] over the keys before the chunk that are in the document of its first query
    for (std::int64_t a = 0; a < I; a += most) {
      const std::int64_t b = behind(a);
      const Variable queries = slice(q, 2, a, b);
      const Tensor seen = allowed_pairs({in.visible.first.slice(2, a, b), in.visible.end.slice(2, a, b)}, b - a, a);
      Variable sums = matmul(where(seen, matmul(queries, transpose(slice(k, 2, a, b), 2, 3)), zero), slice(v, 2, a, b));
      if (a > 0) sums = sums + where(less(first.slice(2, a, b), at(a)), matmul(queries, state), zero);
      chunks.push_back(sums);
      if (b == I) break;
      const Tensor begin = first.slice(2, b, b + 1);
      const Variable own = products(a, less_equal(begin, position.slice(0, a, b)));
      state = a > 0 ? where(less(begin, at(a)), state, zero) + own : own;
    }
    if (in.causal) return concat(chunks, 2);
    for (std::int64_t c = std::ssize(chunks) - 1; c >= 0; --c) {  // `state` is now that of the keys behind the chunk
      const std::int64_t a = c * most, b = behind(a);
      Variable& sums = chunks[static_cast<std::size_t>(c)];
      if (b < I) sums = sums + where(less(at(b), end.slice(2, a, b)), matmul(slice(q, 2, a, b), state), zero);
      if (a == 0) break;
      const Tensor limit = end.slice(2, a - 1, a);
      const Variable own = products(a, less(position.slice(0, a, b), limit));
      state = b < I ? where(less(at(b), limit), state, zero) + own : own;
    }
    return concat(chunks, 2);
  }

  const void* method_;  // identifies the method's step state in the decoder's memory
};

}  // namespace

void LinearAttention::add_terms(const AttentionContext& in, Plan& plan) {
  const std::int64_t end = in.query_offset + in.query.size(2), J = in.key.size(2);
  require(
      !in.causal || end <= J,
      "linear: the last query is at position {}, but there are {} keys; causal attention needs a key at the position "
      "of every query",
      end - 1, J);
  plan.mixers.push_back({std::make_shared<const FeatureProducts>(this)});
}

}  // namespace fovea
