#include "attention/engine/cpu/strip_parts.h"

#include "attention/engine/cpu/strip_recurrence.h"

namespace fovea {

// Parts that an author has written by hand need not have a form on strips.
std::unique_ptr<StripScore> CustomScore::strips(const Variable&, const Variable&, const Variable&) const {
  return nullptr;
}
std::unique_ptr<StripTerm> CustomTerm::strips(const AttentionContext&, std::span<const Variable>) const {
  return nullptr;
}
std::unique_ptr<StripValueTerm> CustomValueTerm::strips(const AttentionContext&, std::span<const Variable>) const {
  return nullptr;
}
std::unique_ptr<StripRecurrence> Recurrence::strips(const AttentionContext&) { return nullptr; }

namespace {

std::vector<Variable> values_of(const std::vector<Capture>& captures) {
  std::vector<Variable> values;
  for (const Capture& capture : captures) values.push_back(capture.value);
  return values;
}

}  // namespace

std::unique_ptr<StripScore> strips_of(const Score& score) {
  switch (score.form) {
    case Score::Form::product:
      return dot_strips(score.queries, score.keys, score.scale);
    case Score::Form::hidden:
      return additive_strips(score.queries, score.keys, score.weight);
    case Score::Form::hidden_by_dimension:
      return fine_grained_strips(score.queries, score.keys, score.weight);
    case Score::Form::location:
      return location_strips(score.queries);
    case Score::Form::none:
      return no_score_strips();
    case Score::Form::custom:
      break;
  }
  return score.custom->strips(score.queries, score.keys, score.weight);
}

std::unique_ptr<StripTerm> strips_of(const PairTerm& term, const AttentionContext& in) {
  if (const auto* formula = std::get_if<PointwiseFormula>(&term.what)) {
    const StripShape shape{in.query.size(0), in.query.size(1), in.query.size(2), in.key.size(2), in.query_offset, 1};
    return pointwise_strips(*formula, term.captures, shape);
  }
  if (const auto* window = std::get_if<PointerWindow>(&term.what))
    return window->mask == PointerWindow::Mask::discrete ? nullptr : window_strips(*window, term.captures);
  if (std::holds_alternative<Renormalization>(term.what)) return renormalize_strips();
  return std::get<std::shared_ptr<const CustomTerm>>(term.what)->strips(in, values_of(term.captures));
}

std::unique_ptr<StripValueTerm> strips_of(const ValueTerm& term, const AttentionContext& in) {
  if (const auto* relative = std::get_if<RelativeValues>(&term.what))
    return relative_strips(term.captures[0].value, relative->clip);
  return std::get<std::shared_ptr<const CustomValueTerm>>(term.what)->strips(in, values_of(term.captures));
}

}  // namespace fovea
