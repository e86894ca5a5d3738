#include "nn/sequence_model.h"

#include "autograd/operations.h"

namespace fovea {

bool looks_at_source(const AttentionTrace& trace) { return trace.place == Place::cross; }

Variable SequenceModel::logits_of(const Variable& states) const {
  const Scope scope("output");
  auto [weight, bias] = output();
  return linear(states, weight, bias);
}

Variable SequenceModel::logits(const SequenceBatch& batch, SequenceTrace* trace) {
  return logits_of(states(batch, trace));
}

Variable SequenceModel::loss(const SequenceBatch& batch, const Tensor& targets, const CrossEntropyOptions& options,
                             Tensor* unsmoothed) {
  Variable hidden_states = states(batch, nullptr);
  auto [weight, bias] = output();
  return projected_cross_entropy(hidden_states, weight, bias, targets, options, unsmoothed);
}

void check_tokens(const char* what, const Tensor& tokens, const Tensor& lengths) {
  require(tokens.defined() && tokens.rank() == 2, "{}: the tokens are {}; expected [B, T]", what, tokens);
  require(!lengths.defined() || (lengths.rank() == 1 && lengths.size(0) == tokens.size(0)),
          "{}: the lengths are {}, the tokens {}; expected one length for each of the {} sentences", what, lengths,
          tokens, tokens.size(0));
}

}  // namespace fovea
