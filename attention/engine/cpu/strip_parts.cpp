#include "attention/engine/cpu/strip_parts.h"

namespace fovea {

// Parts that an author has written by hand need not have a form on strips.
StripForm<StripScore> CustomScore::strips(const Variable&, const Variable&, const Variable&) const { return {}; }
StripForm<StripTerm> CustomTerm::strips(const AttentionContext&, std::span<const Variable>) const { return {}; }
StripForm<StripValueTerm> CustomValueTerm::strips(const AttentionContext&, std::span<const Variable>) const {
  return {};
}

namespace {

std::vector<Variable> values_of(const std::vector<Capture>& captures) {
  std::vector<Variable> values;
  for (const Capture& capture : captures) values.push_back(capture.value);
  return values;
}

}  // namespace

template <class T>
std::unique_ptr<StripScore<T>> strips_of(const Score& score) {
  switch (score.form) {
    case Score::Form::product:
      return dot_strips<T>(score.queries, score.keys, score.scale);
    case Score::Form::hidden:
      return additive_strips<T>(score.queries, score.keys, score.weight);
    case Score::Form::hidden_by_dimension:
      return fine_grained_strips<T>(score.queries, score.keys, score.weight);
    case Score::Form::location:
      return location_strips<T>(score.queries);
    case Score::Form::none:
      return no_score_strips<T>();
    case Score::Form::custom:
      break;
  }
  return score.custom->strips(score.queries, score.keys, score.weight).template make<T>();
}
template std::unique_ptr<StripScore<float>> strips_of(const Score&);
template std::unique_ptr<StripScore<double>> strips_of(const Score&);

template <class T>
std::unique_ptr<StripTerm<T>> strips_of(const PairTerm& term, const AttentionContext& in) {
  if (const auto* formula = std::get_if<PointwiseFormula>(&term.what)) {
    const StripShape shape{in.query.size(0), in.query.size(1), in.query.size(2), in.key.size(2), in.query_offset, 1};
    return pointwise_strips<T>(*formula, term.captures, shape);
  }
  if (const auto* window = std::get_if<PointerWindow>(&term.what))
    return window->mask == PointerWindow::Mask::discrete ? nullptr : window_strips<T>(*window, term.captures);
  if (std::holds_alternative<Renormalization>(term.what)) return renormalize_strips<T>();
  return std::get<std::shared_ptr<const CustomTerm>>(term.what)
      ->strips(in, values_of(term.captures))
      .template make<T>();
}
template std::unique_ptr<StripTerm<float>> strips_of(const PairTerm&, const AttentionContext&);
template std::unique_ptr<StripTerm<double>> strips_of(const PairTerm&, const AttentionContext&);

template <class T>
std::unique_ptr<StripValueTerm<T>> strips_of(const ValueTerm& term, const AttentionContext& in) {
  if (const auto* relative = std::get_if<RelativeValues>(&term.what))
    return relative_strips<T>(term.captures[0].value, relative->clip);
  const auto& custom = std::get<std::shared_ptr<const CustomValueTerm>>(term.what);
  return custom->strips(in, values_of(term.captures)).template make<T>();
}
template std::unique_ptr<StripValueTerm<float>> strips_of(const ValueTerm&, const AttentionContext&);
template std::unique_ptr<StripValueTerm<double>> strips_of(const ValueTerm&, const AttentionContext&);

}  // namespace fovea
