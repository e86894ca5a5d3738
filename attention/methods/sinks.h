/// Attention sinks: keys, or a logit without a value, that absorb weight which the query needs nowhere else.
/// Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks", §3.
///
///     tokens   the first keys are seen even outside of hard windows: sliding(left=64, right=0) +
///              sinks(tokens=4)
///     logit    a_ij = exp(z_ij) / (exp(t_h) + Σ_k exp(z_ik)), t_h learned: rows sum to less than 1
#pragma once
#include "attention/method.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"

namespace fovea {

class AttentionSinks : public LocalnessMethod {
 public:
  struct Options {
    std::int64_t tokens = 4;  ///< number of first keys that every query sees
    bool logit = false;       ///< a learned logit per head takes part in the softmax
  };
  static constexpr MethodCard card = {
      "sinks", "the first keys are in every window; or a learned logit absorbs weight", "Xiao et al. 2024, section 3",
      "keys j < tokens are in every window; with logit: a_ij = exp(z_ij) / (exp(t_h) + sum_k exp(z_ik))"};
  static void visit(OptionVisitor& visitor, Options& options) {
    visitor.integer("tokens", options.tokens, 0, std::int64_t{1} << 31,
                    "number of first keys that are in every window");
    visitor.flag("logit", options.logit, "a learned logit per head, without a value, takes part in the softmax");
  }

  AttentionSinks(const MethodShape& shape, const Options& options) : options_(options) {
    if (options.logit) logit_ = parameter("logit", {shape.heads}, Initializer::zeros());
  }
  void add_terms(const AttentionContext& in, Plan& plan) override {
    if (options_.tokens > 0) {
      const auto tokens = static_cast<double>(std::min(options_.tokens, in.key.size(2)));
      const Variable first = Tensor::zeros({1, 1, 1}, in.query.dtype(), in.query.device());
      plan.always.push_back({{{}, map(Affine{1, tokens}, in.in_row(first).value()).to(DType::i32)}});
    }
    plan.sink = logit_;
  }

 private:
  Options options_;
  Variable logit_;  // t [H]
};

}  // namespace fovea
