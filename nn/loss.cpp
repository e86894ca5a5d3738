#include "nn/loss.h"

#include <algorithm>

namespace fovea {

std::int64_t counted_targets(const Tensor& targets, std::int64_t ignored) {
  std::vector<std::int64_t> values = targets.to_vector<std::int64_t>();
  return targets.elements() - std::count(values.begin(), values.end(), ignored);
}

Variable cross_entropy_loss(const Variable& logits, const Tensor& targets, const CrossEntropyOptions& options,
                            Total total) {
  Shape expected = targets.shape();
  require(logits.rank() >= 1, "cross_entropy_loss: the logits are {}, not [..., V]", logits);
  expected.push_back(logits.size(-1));
  require(logits.shape() == expected, "cross_entropy_loss: the logits are {}, the targets {}; targets must be {}",
          logits, targets, "the logits' shape without its last size");
  Variable losses = sum(cross_entropy(reshape(logits, {-1, logits.size(-1)}), targets.reshape({-1}), options));
  if (total == Total::sum) return losses;
  std::int64_t count = counted_targets(targets, options.ignored);
  require(count > 0, "cross_entropy_loss: there is no mean over no targets: all {} are {}, the ignored one",
          targets.elements(), options.ignored);
  return losses / static_cast<double>(count);
}

Variable binary_cross_entropy_loss(const Variable& logits, const Tensor& targets, Total total) {
  require(logits.shape() == targets.shape(), "binary_cross_entropy_loss: the logits are {}, the targets {}", logits,
          targets);
  Variable losses = binary_cross_entropy(logits, targets);
  return total == Total::mean ? mean(losses) : sum(losses);
}

}  // namespace fovea
