#include "attention/engine/cpu/strip_parts.h"

namespace fovea {

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
      break;
  }
  return no_score_strips<T>();
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
  const auto* custom = dynamic_cast<const WithStrips*>(std::get<std::shared_ptr<const CustomTerm>>(term.what).get());
  if (!custom) return nullptr;
  const StripForm form = custom->strips(in, values_of(term.captures));
  if constexpr (std::is_same_v<T, float>)
    return form.f32();
  else
    return form.f64();
}
template std::unique_ptr<StripTerm<float>> strips_of(const PairTerm&, const AttentionContext&);
template std::unique_ptr<StripTerm<double>> strips_of(const PairTerm&, const AttentionContext&);

}  // namespace fovea
