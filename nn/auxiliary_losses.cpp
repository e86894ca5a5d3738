#include "nn/auxiliary_losses.h"

#include <algorithm>

#include "autograd/operations.h"
#include "nn/lengths.h"
#include "tensor/constant.h"

namespace fovea {

namespace {

thread_local AuxiliaryLosses* innermost = nullptr;

/// The mean over heads, and over the first lengths[b] of the I queries of sentence b; 0 without queries. With I = 1 the
/// value stands for all queries, whatever the lengths are. values [B or 1, H, I or 1] → [B or 1].
Variable mean_over_queries(const Variable& values, const Tensor& lengths) {
  const Variable of_query = mean(values, {1});  // [B, I]
  const std::int64_t I = of_query.size(1);
  if (I == 1) return squeeze(of_query, 1);
  const Tensor count = lengths.to(of_query.device()).to(of_query.dtype()).reshape({-1, 1});
  const Tensor is_real = real_positions(lengths, I, of_query.device());  // [B, I]
  const Variable zero = constant_like(of_query, 0), one = constant_like(of_query, 1);
  return squeeze(sum(where(is_real, of_query, zero), {1}, true) / maximum(count, one), 1);
}

}  // namespace

AuxiliaryLosses::AuxiliaryLosses() : before_(innermost) { innermost = this; }
AuxiliaryLosses::~AuxiliaryLosses() { innermost = before_; }
AuxiliaryLosses* AuxiliaryLosses::current() { return innermost; }

void AuxiliaryLosses::add(const void* owner, double weight, const Variable& values, const Tensor& lengths) {
  require(values.rank() == 3, "auxiliary losses: the values are {}; expected [B, H, I]", values);
  auto term = std::find_if(terms_.begin(), terms_.end(), [&](const Term& one) { return one.owner == owner; });
  if (term == terms_.end()) term = terms_.insert(terms_.end(), {owner, weight, {}, lengths});
  term->values.push_back(values);
}

Variable AuxiliaryLosses::per_sentence(const Tensor& lengths) const {
  Variable total;
  for (const Term& term : terms_) {
    const Variable values = term.values.size() == 1 ? term.values.front() : concat(term.values, 2);
    const Variable one = term.weight * mean_over_queries(values, term.lengths.defined() ? term.lengths : lengths);
    total = total.defined() ? total + one : one;
  }
  return broadcast_to(total, {lengths.size(0)});
}

}  // namespace fovea
