#include "attention/engine/lowered.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "tensor/formula/recorded.h"

namespace fovea {

// ---- Formulas

Expression LoweredFormula::value() const {
  return record_expression(3 + static_cast<int>(captures.size()), [&](std::span<const Recorded> x) {
    Recorded number = x[0];
    std::size_t next = 3;
    for (const PointwiseFormula& part : parts) {
      std::vector<Recorded> inputs{number, x[1], x[2]};
      for (int k = 0; k < part.captures(); ++k) inputs.push_back(x[next++]);
      const Expression one = part.value();
      number = Recorded::of_step(record_again(one, inputs)[static_cast<std::size_t>(one.results[0])]);
    }
    return std::vector{number};
  });
}

Expression LoweredFormula::gradients() const { return gradients_of_pair(value()); }

bool is_linear_in(const Expression& value, int input) {
  enum class Kind {
    free,      // the step does not read the input
    zero,      // it is the constant 0
    multiple,  // it is the input times something that does not read the input
    is_zero,   // it is the condition that a multiple equals 0
    other
  };
  std::vector<Kind> kinds;
  for (const auto& [operation, operands] : value.steps) {
    const auto kind = [&, &numbers = operands](std::size_t n) { return kinds[static_cast<std::size_t>(numbers[n])]; };
    const auto is_free = [](Kind k) { return k == Kind::free || k == Kind::zero; };
    const auto is_multiple = [](Kind k) { return k == Kind::multiple || k == Kind::zero; };
    const int n = operands_of(operation);
    bool all_free = true;
    for (int k = 0; k < n; ++k) all_free = all_free && is_free(kind(static_cast<std::size_t>(k)));
    Kind made = Kind::other;
    if (operation == Operation::input)
      made = operands[0] == input ? Kind::multiple : Kind::free;
    else if (operation == Operation::constant)
      made = value.constants[static_cast<std::size_t>(operands[0])] == 0 ? Kind::zero : Kind::free;
    else if (all_free)
      made = Kind::free;
    else if (operation == Operation::multiply)
      made = (is_free(kind(0)) && is_multiple(kind(1))) || (is_multiple(kind(0)) && is_free(kind(1))) ? Kind::multiple
                                                                                                      : Kind::other;
    else if (operation == Operation::divide || operation == Operation::negate)
      made = n == 1 || is_free(kind(1)) ? kind(0) : Kind::other;
    else if (operation == Operation::add || operation == Operation::subtract)
      made = is_multiple(kind(0)) && is_multiple(kind(1)) ? Kind::multiple : Kind::other;
    else if (operation == Operation::equal)
      made = kind(0) == Kind::multiple && kind(1) == Kind::zero ? Kind::is_zero : Kind::other;
    else if (operation == Operation::select)
      made = (is_free(kind(0)) && is_multiple(kind(1)) && is_multiple(kind(2))) ||
                     (kind(0) == Kind::is_zero && kind(1) == Kind::zero && is_multiple(kind(2)))
                 ? Kind::multiple
                 : Kind::other;
    kinds.push_back(made);
  }
  const Kind result = kinds[static_cast<std::size_t>(value.results[0])];
  return result == Kind::multiple || result == Kind::zero;
}

// ---- Captures

Tensor LoweredCapture::gradient_of_value(const Tensor& gradient) const {
  switch (indexing) {
    case Indexing::head:
      return gradient.squeeze(3).transpose(1, 2);  // [B, I, H]
    case Indexing::query:
      return gradient.squeeze(3);
    case Indexing::key:
      return gradient.squeeze(2);
    default:
      return gradient;
  }
}

std::vector<LoweredCapture> LoweredCall::captures() const {
  std::vector<LoweredCapture> all = logit.captures;
  all.insert(all.end(), window.captures.begin(), window.captures.end());
  return all;
}

Tensor with_rank(Tensor x, int rank) {
  while (x.rank() < rank) x = x.unsqueeze(0);
  return x;
}

LoweredCapture lowered(const Capture& capture) {
  const Tensor& x = capture.value.value();
  switch (capture.per) {
    case Per::head:
      return {capture.value, with_rank(x, 2).unsqueeze(2).unsqueeze(3), Indexing::head};
    case Per::query:
      return {capture.value, with_rank(x, 3).unsqueeze(3), Indexing::query};
    case Per::key:
      return {capture.value, with_rank(x, 3).unsqueeze(2), Indexing::key};
    case Per::offset: {
      const Tensor tables = with_rank(x, 4);
      return {capture.value, tables, tables.size(2) > 1 ? Indexing::query_offset : Indexing::offset, capture.clip};
    }
    default:  // check_plan() lets a formula read nothing else but PerPair
      return {capture.value, with_rank(x, 4), Indexing::pair};
  }
}

std::vector<LoweredCapture> lowered(const std::vector<Capture>& captures) {
  std::vector<LoweredCapture> all;
  for (const Capture& capture : captures) all.push_back(lowered(capture));
  return all;
}

// ---- The plan

LoweredScore lowered(const Score& score) {
  switch (score.form) {
    case Score::Form::product:
      return {score.queries, score.keys, {}, score.scale};
    case Score::Form::hidden:
      return {score.queries, score.keys, score.weight};
    case Score::Form::location: {
      const LoweredCapture entries{score.queries, with_rank(score.queries.value(), 4), Indexing::query_column,
                                   score.queries.size(-1) - 1};
      return {{}, {}, {}, 1, {{pointwise_formula<AddBias, Per::pair>(AddBias{})}, {entries}}};
    }
    case Score::Form::none:
      return {};
    default:
      return {{}, {}, {}, 1, {}, "a score for each dimension of the values"};
  }
}

const char* part_between_heads(const Plan& plan) {
  if (!plan.mixings.empty()) return "mixing of heads";
  if (!plan.second_maps.empty()) return "a second map of weights";
  for (const Normalizer& part : plan.normalizers)
    if (part.form == Normalizer::Form::custom) return "a normaliser other than the softmax";
  return nullptr;
}

namespace {

/// Adds the formula of a term. Returns a term that has none, or null.
const char* add_term(const PairTerm& term, LoweredFormula& to) {
  const auto* formula = std::get_if<PointwiseFormula>(&term.what);
  if (!formula) return "a term of whole rows";
  to.parts.push_back(*formula);
  for (const LoweredCapture& capture : lowered(term.captures)) to.captures.push_back(capture);
  return nullptr;
}

/// Adds extra keys. Returns a part that has no such form, or null.
const char* add_extra_keys(const AttentionContext& in, const Plan& plan, LoweredCall& call) {
  if (plan.extra_keys.empty()) return nullptr;
  if (call.renormalizes) return "a set of keys without tokens, beside weights that are normalised again,";
  const ExtraKeys& part = plan.extra_keys[0];
  call.extra = {in.query, part.keys, part.values, in.scale()};
  return nullptr;
}

/// Adds a window between two pointers as a formula of their sums. Returns a part that has no such form, or null.
const char* add_pointer_window(const PointerWindow& window, const PairTerm& term, const AttentionContext& in,
                               LoweredCall& call) {
  using Kind = LoweredSource::Kind;
  if (window.mask == PointerWindow::Mask::discrete) return "a window with mask=discrete";
  if (!call.sources.empty()) return "a second window";
  const auto read = [&](std::size_t k) { return term.captures[k].value; };
  const Tensor factors = window.pointer_scale_by_length ? in.length.value().unsqueeze(-1) : Tensor();
  const bool sided = window.forward_only;
  call.sources = {{sided ? Kind::pointer_up_to_query : Kind::pointer, read(0), read(1), window.pointer_scale, factors},
                  {sided ? Kind::pointer_from_query : Kind::pointer, read(2), read(3), window.pointer_scale, factors}};
  call.segment = std::min(window.segment, std::max<std::int64_t>(in.key.size(2), 1));
  call.is_exact =
      call.is_exact || window.pointer_scale_by_length || std::abs(window.pointer_scale) > window.local_scale;
  LoweredFormula& formula = window.additive ? call.logit : call.window;
  formula.parts.push_back(window_formula(window));
  for (std::size_t pointer : {0, 1})
    for (Indexing indexing : {Indexing::up_to, Indexing::from})
      formula.captures.push_back({{}, {}, indexing, 0, pointer});
  if (window.additive) {
    call.sources.push_back({Kind::product, read(4), read(5), window.local_scale});
    formula.captures.push_back({{}, {}, Indexing::product, 0, 2});
  }
  return nullptr;
}

/// Adds the penalty of a focus.
void add_focus(const Plan& plan, LoweredCall& call) {
  if (!plan.focus) return;
  call.focus = plan.focus;
  const FocusedSoftmax& focus = *plan.focus;
  Tensor gates = focus.gate.value().unsqueeze(3);
  if (!focus.has_focus(0) && gates.size(2) > 0) {
    gates = gates.clone();
    gates.slice(2, 0, 1).fill(0);
  }
  call.logit.parts.push_back(pointwise_formula<FocusPenalty, Per::query, Per::query>({focus.sigma}));
  call.logit.captures.push_back({focus.gate, gates, Indexing::query});
  call.logit.captures.push_back({{}, {}, Indexing::focus});
}

/// Adds the formula of a term of logits. Returns a term that has none, or null.
const char* add_bias(const PairTerm& term, const AttentionContext& in, LoweredCall& call) {
  const auto* window = std::get_if<PointerWindow>(&term.what);
  return window ? add_pointer_window(*window, term, in, call) : add_term(term, call.logit);
}

const char* add_window(const PairTerm& term, const AttentionContext& in, LoweredCall& call) {
  if (call.renormalizes) return "a window of weights that have been normalised again";
  if (std::holds_alternative<Renormalization>(term.what)) {
    call.renormalizes = true;
    return nullptr;
  }
  const auto* window = std::get_if<PointerWindow>(&term.what);
  if (const char* missing = window ? add_pointer_window(*window, term, in, call) : add_term(term, call.window))
    return missing;
  return is_linear_in(call.window.value(), 0) ? nullptr : "a change of weights that is no factor";
}

}  // namespace

std::vector<HeadRange> groups_of_heads(const Plan& plan, std::int64_t H) {
  std::set<std::int64_t> ends{0, H};
  auto add = [&](const auto& parts) {
    for (const auto& part : parts) {
      const HeadRange heads = resolved(part.heads, H);
      ends.insert({heads.first, heads.first + heads.count});
    }
  };
  add(plan.scores), add(plan.score_changes), add(plan.biases), add(plan.windows), add(plan.normalizers);
  add(plan.ranges), add(plan.dilations), add(plan.always), add(plan.masks);
  add(plan.extra_keys), add(plan.values);
  if (plan.focus) add(std::span(&*plan.focus, 1));
  std::vector<HeadRange> groups;
  for (auto next = std::next(ends.begin()); next != ends.end(); ++next)
    groups.push_back({*std::prev(next), *next - *std::prev(next)});
  return groups;
}

Lowered lower(const AttentionContext& in, const Plan& plan) {
  if (const char* missing = part_between_heads(plan)) return missing;
  LoweredCall call;
  call.values = in.value;
  call.query_count = in.query.size(2), call.query_offset = in.query_offset;
  const LoweredScore score = lowered(scores_of_all_heads(plan, in).at(0));
  if (score.missing) return score.missing;
  call.queries = score.queries, call.keys = score.keys, call.scale = score.scale, call.logit = score.bias;
  call.hidden_weight = score.hidden_weight, call.is_exact = score.hidden_weight.defined();
  for (const auto* terms : {&plan.score_changes, &plan.biases})
    for (const PairTerm& term : *terms)
      if (const char* missing = add_bias(term, in, call)) return missing;
  add_focus(plan, call);
  for (const PairTerm& term : plan.windows)
    if (const char* missing = add_window(term, in, call)) return missing;
  if (const char* missing = add_extra_keys(in, plan, call)) return missing;
  if (plan.values.size() > 1) return "a second addition to the output";
  if (!plan.values.empty()) call.relative = {plan.values[0].captures[0].value, plan.values[0].clip};
  call.densities = !plan.normalizers.empty();
  if (!call.sources.empty() && call.focus) return "a window between pointers beside a focus";
  // Kernels compute a pointer's sum from a key on as 1 − F: it has no correct digits where it is small, which matters
  // where weights are divided by their sum or multiplied by densities of up to exp(40).
  if (!call.sources.empty() && call.renormalizes) return "a window between pointers that is normalised again";
  if (!call.sources.empty() && call.densities) return "a window between pointers on densities";
  if (!call.densities) call.sink = plan.sink;
  call.visible = in.visible;
  for (const HeadKeys& part : plan.ranges) call.ranges.push_back(part.keys);
  for (const HeadKeys& part : plan.always) call.always.push_back(part.keys);
  for (const HeadDilation& part : plan.dilations)
    if (part.step > 1) call.dilations.push_back(part.step);
  for (const HeadMask& part : plan.masks) call.masks.push_back(part.mask);
  return call;
}

}  // namespace fovea
