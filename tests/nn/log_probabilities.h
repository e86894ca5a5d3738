#pragma once
#include "autograd/operations.h"
#include "nn/decoding.h"

namespace fovea::test {

/// Returns the sum of log p over the targets of each sentence, computed by teacher forcing without gradients and
/// dropout. Targets that are 0 are padding and do not count.
inline std::vector<double> log_probabilities(SequenceModel& model, const TeacherForcingBatch& batch) {
  NoGrad no_grad;
  Evaluating evaluating(model);
  Tensor logits = model.logits(batch.batch).value();
  const Shape& shape = batch.targets.shape();
  const Tensor targets = batch.targets.to(logits.device()).reshape({-1});
  Variable losses = cross_entropy(Variable(logits.reshape({-1, logits.size(-1)})), targets, {.ignored = 0});
  std::vector<double> all = losses.value().to_vector<double>(), out(static_cast<std::size_t>(shape[0]), 0);
  for (std::size_t k = 0; k < all.size(); ++k) out[k / static_cast<std::size_t>(shape[1])] -= all[k];
  return out;
}

}  // namespace fovea::test
