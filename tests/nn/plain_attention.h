/// Multi-head attention in plain operations, so that nn/ is tested without attention/.
#pragma once
#include <cmath>
#include <memory>
#include <vector>

#include "autograd/operations.h"
#include "nn/attention.h"
#include "nn/linear.h"

namespace fovea::test {

class PlainAttention : public Attention {
 public:
  explicit PlainAttention(const AttentionShape& shape)
      : heads_(shape.heads),
        dim_(shape.model_dim),
        query_(shape.query_dim ? shape.query_dim : dim_, dim_),
        key_(shape.key_dim ? shape.key_dim : dim_, dim_),
        value_(shape.value_dim ? shape.value_dim : dim_, dim_),
        output_(shape.model_dim, shape.model_dim) {
    child("query", query_);
    child("key", key_);
    child("value", value_);
    child("output", output_);
  }

  Variable forward(const AttentionInput& in) override {
    Scope scope = enter();
    Variable query = split(query_.forward(in.query));
    Variable key = split(in.all_keys(&key_, [&] { return key_.forward(in.key); }));
    Variable value = split(in.all_keys(&value_, [&] { return value_.forward(in.value); }));
    double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
    Variable weights = softmax(matmul(query, transpose(key, 2, 3)) * scale, allowed(in));
    if (in.trace) in.trace->weights = weights;
    Variable mixed = matmul(weights, value);
    return output_.forward(reshape(permute(mixed, {0, 2, 1, 3}), {in.query.size(0), in.query.size(1), dim_}));
  }
  std::int64_t output_dim() const override { return dim_; }
  std::int64_t heads() const override { return heads_; }

 private:
  Variable split(const Variable& x) const {  // [B, T, d] -> [B, H, T, d / H]
    return permute(reshape(x, {x.size(0), x.size(1), heads_, x.size(2) / heads_}), {0, 2, 1, 3});
  }

  static Tensor allowed(const AttentionInput& in) {
    std::int64_t B = in.key.size(0), I = in.query.size(1), J = in.key_count();
    std::vector<std::int64_t> lengths(static_cast<std::size_t>(B), J);
    if (in.key_lengths.defined()) lengths = in.key_lengths.to_vector<std::int64_t>();
    Tensor out = Tensor::empty({B, 1, I, J}, DType::boolean);
    for (std::int64_t b = 0, at = 0; b < B; ++b)
      for (std::int64_t i = 0; i < I; ++i)
        for (std::int64_t j = 0; j < J; ++j, ++at)
          out.mutable_data<bool>()[at] =
              j < lengths[static_cast<std::size_t>(b)] && (!in.causal || j <= i + in.query_offset);
    return out.to(in.query.device());
  }

  int heads_;
  std::int64_t dim_;
  Linear query_, key_, value_, output_;
};

inline std::unique_ptr<Attention> plain_attention(const AttentionShape& shape) {
  return std::make_unique<PlainAttention>(shape);
}

}  // namespace fovea::test
