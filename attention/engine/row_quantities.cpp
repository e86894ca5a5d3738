#include "attention/engine/row_quantities.h"

#include <algorithm>
#include <limits>

#include "autograd/operations.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/top_k.h"

namespace fovea {

RowQuantities row_quantities(const Tensor& logits, const Tensor& weights) {
  NoGrad off;
  const Variable zero = constant_like(weights, 0), one = constant_like(weights, 1),
                 nothing = constant_like(weights, -std::numeric_limits<double>::infinity());
  Variable all = logits.defined() ? Variable(logits) : Variable();
  std::int64_t J = weights.size(-1);
  if (J == 0 || !all.defined()) {  // as if there were one key, which no query sees
    Shape one_key = weights.shape();
    one_key[-1] = J = 1;
    const Variable hidden = broadcast_to(nothing, one_key);
    all = all.defined() ? concat({hidden, all}, -1) : hidden;
  }
  RowQuantities rows;
  const TopK largest = top_k(all.value().slice(-1, 0, J).contiguous(), 1);
  rows.maximum = largest.values.squeeze(-1);
  const Tensor no_key = Tensor::full({1}, -1, DType::i32, weights.device());
  rows.key = where(equal(rows.maximum, nothing.value()), no_key, largest.index.squeeze(-1));
  const Variable most = maximum_over(all, -1, true), shift = where(equal(most.value(), nothing.value()), zero, most);
  rows.logsumexp = (squeeze(shift, -1) + log(sum(exp(all - shift), {-1}))).value();

  const Variable size = abs(Variable(weights)), total = sum(size, {-1});
  const auto or_one = [&](const Variable& x) { return where(equal(x.value(), zero.value()), one, x); };
  const Variable logarithms = sum(size * log(or_one(size)), {-1});
  rows.entropy = maximum(log(or_one(total)) - logarithms / or_one(total), zero).value();
  rows.key_mass = sum(Variable(weights), {-2}).value();
  return rows;
}

RowQuantities with_dimensions_last(RowQuantities rows) {
  for (const auto member : row_quantities_members)
    if ((rows.*member).rank() == 4) rows.*member = (rows.*member).permute({1, 2, 3, 0}).contiguous();
  return rows;
}

RowQuantities slice_heads(const RowQuantities& rows, HeadRange heads) {
  RowQuantities own;
  for (const auto member : row_quantities_members)
    own.*member = (rows.*member).slice(1, heads.first, heads.first + heads.count);
  return own;
}

Variable heads_side_by_side(std::vector<Variable> parts) {
  const auto has_lower_rank = [](const Variable& a, const Variable& b) { return a.rank() < b.rank(); };
  const Variable widest = *std::max_element(parts.begin(), parts.end(), has_lower_rank);
  const std::int64_t D = widest.size(-1);
  for (Variable& part : parts) {
    if (part.rank() < widest.rank()) {
      Shape shape = part.shape();
      shape.push_back(D);
      part = broadcast_to(unsqueeze(part, -1), shape);
    }
    require(part.size(-1) == D,
            "attention: one mechanism has weights for each of {} dimensions of its values, another one for each of {}; "
            "a trace needs equal widths",
            D, part.size(-1));
  }
  return parts.size() == 1 ? parts[0] : concat(parts, 1);
}

RowQuantities heads_side_by_side(const std::vector<RowQuantities>& parts) {
  RowQuantities all;
  for (const auto member : row_quantities_members) {
    std::vector<Variable> pieces;
    for (const RowQuantities& part : parts) pieces.push_back(part.*member);
    all.*member = heads_side_by_side(std::move(pieces)).value();
  }
  return all;
}

}  // namespace fovea
