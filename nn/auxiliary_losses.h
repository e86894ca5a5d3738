/// Losses that modules add to the loss of their task.
#pragma once
#include <vector>

#include "autograd/variable.h"

namespace fovea {

/// Collects the auxiliary losses of one forward pass. While an object of this class lives, the modules that this thread
/// calls in training mode add their terms to it: for example, flexible attention rewards large gates (its option beta),
/// and adaptive_span penalises wide spans. Objects nest; modules add to the innermost one.
///
///   AuxiliaryLosses auxiliary;
///   Variable loss = model.loss(batch, targets, options);                  // Σ over the tokens of the batch
///   if (!auxiliary.empty()) loss = loss + mean(auxiliary.per_sentence(batch.lengths)) * tokens;
class AuxiliaryLosses {
 public:
  AuxiliaryLosses();
  ~AuxiliaryLosses();
  AuxiliaryLosses(const AuxiliaryLosses&) = delete;
  AuxiliaryLosses& operator=(const AuxiliaryLosses&) = delete;

  /// The innermost object of this thread; null if there is none.
  static AuxiliaryLosses* current();

  /// Adds the term weight · (mean of `values` over heads and queries). values: [B or 1, H, I or 1]. `lengths`, i32 [B],
  /// has the number of real queries of each sentence if the module knows it. The calls of one `owner` have consecutive
  /// queries: a recurrent decoder calls its attention step by step. `weight` and `lengths` are those of its first call;
  /// a term with one query in all stands for every sentence's queries. Throws Error unless `values` has rank 3.
  void add(const void* owner, double weight, const Variable& values, const Tensor& lengths = {});

  bool empty() const { return terms_.empty(); }

  /// The values that one owner has added, with their weight in the loss.
  struct Term {
    const void* owner;
    double weight;
    std::vector<Variable> values;  ///< [B or 1, H, I or 1] each, consecutive queries
    Tensor lengths;
  };
  const std::vector<Term>& terms() const { return terms_; }

  /// The sum of all terms for each sentence, [B]. `lengths`, i32 [B], has the number of real queries of each sentence
  /// for terms that were added without it. There must be a term (see empty()).
  Variable per_sentence(const Tensor& lengths) const;

 private:
  std::vector<Term> terms_;
  AuxiliaryLosses* before_;  ///< the enclosing object, or null
};

}  // namespace fovea
