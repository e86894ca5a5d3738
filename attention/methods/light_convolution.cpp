#include "attention/methods/light_convolution.h"

#include <algorithm>

#include "tensor/comparison.h"
#include "tensor/constant.h"

namespace fovea {

namespace {

/// The convolution of the values. The capture is c, [1, h, 1, width] or [B, h, I, width].
class Convolution : public PairlessMixer {
 public:
  Variable output(const AttentionContext& in, const Captured& captured) const override {
    return in.allowed.defined() ? matmul(weights(in, captured), in.value) : convolved(in, in.value, captured[0]);
  }
  /// Computed as the convolution of unit vectors in place of the values.
  Variable weights(const AttentionContext& in, const Captured& captured) const override {
    const std::int64_t J = in.key.size(2);
    const Tensor key = Tensor::arange(J, DType::i32, in.key.device());
    const Tensor units = equal(key.reshape({J, 1}), key).to(in.value.dtype()).reshape({1, 1, J, J});
    const Variable w =
        broadcast_to(convolved(in, units, captured[0]), {in.query.size(0), in.query.size(1), in.query.size(2), J});
    return in.allowed.defined() ? where(in.allowed, w, constant_like(w, 0)) : w;
  }

 private:
  /// The convolution of x [B or 1, h or 1, J, n] with the weights c, for each query: [B, h, I, n].
  static Variable convolved(const AttentionContext& in, const Variable& x, const Variable& c) {
    const std::int64_t width = c.size(3), I = in.query.size(2), J = x.size(2);
    const std::int64_t first = in.query_offset - (in.causal ? width - 1 : (width - 1) / 2), end = first + I + width - 1;
    const std::int64_t from = std::clamp<std::int64_t>(first, 0, J), to = std::clamp<std::int64_t>(end, from, J);
    // a convolution reads the rows first ≤ t < end; those outside of 0 ≤ t < J count as zeros
    const Variable known = slice(without_padding(in, x), 2, from, to);
    auto zeros = [&](std::int64_t rows) {
      return Tensor::zeros({known.size(0), known.size(1), rows, known.size(3)}, x.dtype(), x.device());
    };
    const std::int64_t before = std::clamp<std::int64_t>(from - first, 0, end - first);
    const Variable rows = concat({zeros(before), known, zeros(end - first - before - (to - from))}, 2);
    const Variable zero = constant_like(x, 0);
    auto neighbour = [&](std::int64_t r) {  // c_r v_{i+r−left} for all queries i
      const Variable weighted = slice(c, 3, r, r + 1) * slice(rows, 2, r, r + I);
      return in.document_start.defined() ? where(is_visible(in, first + r), weighted, zero) : weighted;
    };
    Variable out = neighbour(0);
    for (std::int64_t r = 1; r < width; ++r) out = out + neighbour(r);
    return out;
  }
  /// Whether query i sees the key at i + shift: bool [B or 1, 1, I, 1].
  static Tensor is_visible(const AttentionContext& in, std::int64_t shift) {
    const std::int64_t I = in.query.size(2);
    const Tensor key = Tensor::arange(I, DType::i32, in.query.device(), shift);
    return logical_and(less_equal(in.visible.first, key), less(key, in.visible.end)).unsqueeze(-1);
  }
};

}  // namespace

void LightConvolution::visit(OptionVisitor& visitor, Options& options) {
  visitor.integer("width", options.width, 1, 65536, "number of tokens in the convolution, including the query's own");
  visitor.flag("dynamic", options.dynamic, "weights are computed from each query's state instead of learned");
}

LightConvolution::LightConvolution(const MethodShape& shape, const Options& options) : options_(options) {
  require(shape.place != Place::cross,
          "light_convolution: it needs the values at the positions around the query, so it is not defined in "
          "cross-attention");
  if (options.dynamic)
    child("filter", filter_.emplace(shape.model_dim, shape.heads * options.width, Linear::Options{.bias = false}));
  else
    weight_ = parameter("weight", {shape.heads, options.width}, Initializer::xavier_uniform());
}

void LightConvolution::add_terms(const AttentionContext& in, Plan& plan) {
  const Variable logits = options_.dynamic ? split_heads(filter_->forward(in.query_states), options_.width)
                                           : unsqueeze(unsqueeze(weight_, 1), 0);
  plan.mixers.push_back({std::make_shared<const Convolution>(), {{Per::query_vector, softmax(logits)}}});
}

}  // namespace fovea
