#include "attention/engine/check_plan.h"

#include <cmath>
#include <string>

namespace fovea {

namespace {

/// A part of the plan, as messages name it: "bias 2 ('alibi_bias')".
struct Part {
  const char* kind;
  std::size_t number = 0;      ///< among the parts of its kind, from 1; 0 if there is only one
  const char* name = nullptr;  ///< that of a pointwise formula or of a struct in plan.h

  std::string describe() const {
    std::string text = number > 0 ? fmt::format("{} {}", kind, number) : std::string(kind);
    return name ? text + fmt::format(" ('{}')", name) : text;
  }
};

const char* name_of(Per per) {
  switch (per) {
    case Per::head:
      return "PerHead";
    case Per::query:
      return "PerQuery";
    case Per::key:
      return "PerKey";
    case Per::pair:
      return "PerPair";
    case Per::offset:
      return "PerOffset";
    case Per::query_vector:
      return "a vector for each query";
    case Per::key_vector:
      return "a vector for each key";
    case Per::whole:
      break;
  }
  return "a whole tensor";
}

/// The name of a term; null if it is written by hand.
const char* name_of(const PairTerm& term) {
  if (const auto* formula = std::get_if<PointwiseFormula>(&term.what)) return formula->name();
  if (std::holds_alternative<PointerWindow>(term.what)) return "PointerWindow";
  return std::holds_alternative<Renormalization>(term.what) ? "Renormalization" : nullptr;
}

/// A tensor of a part, as messages name it: "capture 2 (PerQuery)", or a member such as "'factor'".
struct TensorName {
  const char* member;
  std::size_t capture = 0;  ///< the number of a capture, from 1; 0: no capture
  Per per = Per::whole;

  std::string describe() const {
    return capture > 0 ? fmt::format("capture {} ({})", capture, name_of(per)) : fmt::format("'{}'", member);
  }
};
TensorName capture_name(const Capture& capture, std::size_t index) { return {"", index + 1, capture.per}; }

constexpr std::int64_t largest_clip = std::int64_t{1} << 40;

class PlanCheck {
 public:
  explicit PlanCheck(const AttentionContext& in) : in_(in) {
    const auto rank = [](const Variable& x) { return x.defined() ? x.rank() : 0; };
    const bool four = rank(in.query) == 4 && rank(in.key) == 4 && rank(in.value) == 4;
    const Shape none, &q = four ? in.query.shape() : none, &k = four ? in.key.shape() : none,
                      &v = four ? in.value.shape() : none;
    require(four && q[0] == k[0] && q[1] == k[1] && v[0] == k[0] && v[1] == k[1] && v[2] == k[2],
            "attention: queries are {}, keys {} and values {}; expected [B, H, I, D], [B, H, J, D] and [B, H, J, Dv]",
            in.query, in.key, in.value);
    B_ = q[0], H_ = q[1], I_ = q[2], J_ = k[2];
    const Part context{"context"};
    of_one_type(context, {"key"}, in.key);
    of_one_type(context, {"value"}, in.value);
    range({"visible"}, in.visible, H_);
  }

  void check(const Plan& plan) {
    scores(plan);
    pair_terms("score change", plan.score_changes, false);
    pair_terms("bias", plan.biases, false);
    pair_terms("window", plan.windows, true);
    for_parts("value term", plan.values, [&](Part part, const RelativeValues& term, std::int64_t) {
      part.name = "RelativeValues";
      value_term(part, term);
    });
    for_parts("normaliser", plan.normalizers, [&](const Part& part, const Normalizer& own, std::int64_t h) {
      require(own.form != Normalizer::Form::custom || own.custom,
              "attention: {} is custom, but has no CustomNormalizer; give it one", part);
      if (own.form == Normalizer::Form::density) number_of_captures(part, own.captures, 0);
      captures(part, own.captures, h);
    });
    for_parts("mixing", plan.mixings, [&](const Part& part, const HeadMixing& own, std::int64_t h) {
      if (own.before.defined()) exact(part, {"before"}, own.before, {h, h});
      if (own.after.defined()) exact(part, {"after"}, own.after, {h, h});
    });
    for_parts("second map", plan.second_maps, [&](const Part& part, const SecondMap& own, std::int64_t h) {
      score(part, own.score, h);
      require(own.factor.per == Per::head || own.factor.per == Per::query,
              "attention: {}: 'factor' is {}; it must be PerHead or PerQuery", part, name_of(own.factor.per));
      capture(part, {"factor"}, own.factor, h);
    });
    for_parts("extra keys", plan.extra_keys, [&](const Part& part, const ExtraKeys& own, std::int64_t h) {
      const std::int64_t N =
          own.keys.defined() && own.keys.rank() == 3 ? std::max<std::int64_t>(own.keys.size(1), 1) : 1;
      exact(part, {"keys"}, own.keys, {h, N, in_.query.size(3)});
      exact(part, {"values"}, own.values, {h, N, in_.value.size(3)});
    });
    for_parts("mixer", plan.mixers, [&](const Part& part, const HeadMixer& own, std::int64_t h) {
      require(own.mixer != nullptr, "attention: {} has no PairlessMixer; give it one", part);
      captures(part, own.captures, h);
    });
    for_parts("range", plan.ranges,
              [&](const Part& part, const HeadKeys& own, std::int64_t h) { range(part, own.keys, h); });
    for_parts("always-seen range", plan.always,
              [&](const Part& part, const HeadKeys& own, std::int64_t h) { range(part, own.keys, h); });
    for_parts("dilation", plan.dilations, [&](const Part& part, const HeadDilation& own, std::int64_t) {
      require(own.step >= 1, "attention: {}: the step is {}; it must be at least 1", part, own.step);
    });
    for_parts("mask", plan.masks, [&](const Part& part, const HeadMask& own, std::int64_t h) {
      const Shape pairs{B_, h, I_, J_};
      require(own.mask.defined() && (own.mask.dtype() == DType::boolean || own.mask.dtype() == DType::u8) &&
                  broadcasts_to(own.mask.shape(), pairs) && own.mask.rank() > 0 && own.mask.size(-1) == J_,
              "attention: {} is {}; it must be bool or u8 {}, where all but the last may be 1", part, own.mask, pairs);
      on_one_device(part, {"mask"}, own.mask);
    });
    one_for_each_head("score", plan.scores);
    one_for_each_head("normaliser", plan.normalizers);
    one_for_each_head("second map", plan.second_maps);
    one_for_each_head("extra keys", plan.extra_keys);
    one_for_each_head("mixer", plan.mixers);
    if (plan.focus) focus(plan);
    if (plan.sink.defined()) exact({"plan"}, {"sink"}, plan.sink, {H_});
    for (const PlanQuantity& quantity : plan.quantities)
      require(quantity.compute != nullptr, "attention: the quantity '{}' has no function that computes it",
              quantity.name);
  }

 private:
  /// body(part, the part, its number of heads) for parts with the member `heads`.
  template <class Parts, class Body>
  void for_parts(const char* kind, const Parts& parts, const Body& body) {
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const Part part{kind, k + 1};
      body(part, parts[k], heads(part, parts[k].heads));
    }
  }

  /// The number of heads that a part acts on.
  std::int64_t heads(const Part& part, HeadRange own) const {
    if (own.count == 0 && own.first == 0) return H_;
    require(own.first >= 0 && own.count > 0 && own.count <= H_ - own.first,
            "attention: {} acts on {} heads from head {} on; there are heads 1 to {}", part, own.count, own.first + 1,
            H_);
    return own.count;
  }

  template <class Parts>
  void one_for_each_head(const char* kind, const Parts& parts) const {
    for (std::size_t k = 1; k < parts.size(); ++k)
      for (std::size_t other = 0; other < k; ++other) {
        const HeadRange a = resolved(parts[k].heads, H_), b = resolved(parts[other].heads, H_);
        const std::int64_t head = std::max(a.first, b.first);
        require(head >= std::min(a.first + a.count, b.first + b.count),
                "attention: {} {} and {} {} both act on head {}; a head can have one", kind, other + 1, kind, k + 1,
                head + 1);
      }
  }

  // ---- Tensors

  template <class X>
  void on_one_device(const Part& part, const TensorName& tensor, const X& x) const {
    require(x.device() == in_.query.device(), "attention: {}: {} is on {}; it must be on {}, as the queries are", part,
            tensor, name(x.device()), name(in_.query.device()));
  }
  void of_one_type(const Part& part, const TensorName& tensor, const Variable& x) const {
    require(x.dtype() == in_.query.dtype(), "attention: {}: {} is {}; it must be {}, as the queries are", part, tensor,
            x, name(in_.query.dtype()));
    on_one_device(part, tensor, x);
  }
  void exact(const Part& part, const TensorName& tensor, const Variable& x, const Shape& shape) const {
    require(x.defined() && x.shape() == shape, "attention: {}: {} is {}; it must be {}", part, tensor, x, shape);
    of_one_type(part, tensor, x);
  }
  void broadcast_to(const Part& part, const TensorName& tensor, const Variable& x, const Shape& shape) const {
    require(x.defined() && broadcasts_to(x.shape(), shape), "attention: {}: {} is {}; it must broadcast to {}", part,
            tensor, x, shape);
    of_one_type(part, tensor, x);
  }
  void range(const Part& part, const KeyRange& keys, std::int64_t h) const {
    const Shape rows{B_, h, I_};
    for (const auto& [bound, what] : {std::pair(&keys.first, "first"), std::pair(&keys.end, "end")}) {
      if (!bound->defined()) continue;
      require(bound->dtype() == DType::i32 && broadcasts_to(bound->shape(), rows),
              "attention: {}: '{}' is {}; it must be i32 and broadcast to {}", part, what, *bound, rows);
      on_one_device(part, {what}, *bound);
    }
  }

  // ---- Captures

  void number_of_captures(const Part& part, const std::vector<Capture>& captures, std::size_t expected) const {
    require(captures.size() == expected, "attention: {} has {} captures; it reads {}", part, captures.size(), expected);
  }

  void capture(const Part& part, const TensorName& tensor, const Capture& own, std::int64_t h) const {
    const Variable& x = own.value;
    const std::int64_t width = x.defined() && x.rank() > 0 ? x.size(-1) : 1;
    switch (own.per) {
      case Per::head:
        return broadcast_to(part, tensor, x, {h});
      case Per::query:
        return broadcast_to(part, tensor, x, {B_, h, I_});
      case Per::key:
        return broadcast_to(part, tensor, x, {B_, h, J_});
      case Per::pair:
        return broadcast_to(part, tensor, x, {B_, h, I_, J_});
      case Per::query_vector:
        return broadcast_to(part, tensor, x, {B_, h, I_, width});
      case Per::key_vector:
        return broadcast_to(part, tensor, x, {B_, h, J_, width});
      case Per::offset: {
        require(0 <= own.clip && own.clip <= largest_clip, "attention: {}: {} has the clip {}; it must be in 0 to {}",
                part, tensor, own.clip, largest_clip);
        const std::int64_t offsets = 2 * own.clip + 1;
        const Shape tables{B_, h, I_, offsets};
        require(x.defined() && x.rank() > 0 && width == offsets && broadcasts_to(x.shape(), tables),
                "attention: {}: {} with the clip {} is {}; it must be [{}] (2 clip + 1) or broadcast to {} without "
                "changing the last dimension",
                part, tensor, own.clip, x, offsets, tables);
        return of_one_type(part, tensor, x);
      }
      case Per::whole:
        break;
    }
    require(x.defined(), "attention: {}: {} is undefined; give it a value", part, tensor);
    on_one_device(part, tensor, x);
  }
  void captures(const Part& part, const std::vector<Capture>& all, std::int64_t h) const {
    for (std::size_t k = 0; k < all.size(); ++k) capture(part, capture_name(all[k], k), all[k], h);
  }

  // ---- Terms

  void scores(const Plan& plan) {
    std::int64_t without_product = 0;
    for_parts("score", plan.scores, [&](const Part& part, const Score& own, std::int64_t h) {
      score(part, own, h);
      without_product += h;
    });
    for (const HeadMixer& mixer : plan.mixers) without_product += resolved(mixer.heads, H_).count;
    require(without_product >= H_ || in_.query.size(3) == in_.key.size(3),
            "attention: queries are {} and keys {}; their product, the score of heads for which no method sets one, "
            "needs equal widths",
            in_.query, in_.key);
  }

  void score(const Part& part, const Score& own, std::int64_t h) const {
    auto rows = [&](const TensorName& tensor, const Variable& x, std::int64_t count) {
      require(x.defined() && x.rank() == 4 && x.size(0) == B_ && x.size(1) == h && x.size(2) == count,
              "attention: {}: {} is {}; it must be [{}, {}, {}, n]", part, tensor, x, B_, h, count);
      of_one_type(part, tensor, x);
    };
    rows({"queries"}, own.queries, I_);
    rows({"keys"}, own.keys, J_);
    const std::int64_t n = own.queries.size(3), Dv = in_.value.size(3);
    const Variable& weight = own.weight;
    switch (own.form) {
      case Score::Form::product:
        return same_width(part, own);
      case Score::Form::hidden:
        same_width(part, own);
        return weight_of(part, weight, {n}, {h, n});
      case Score::Form::hidden_by_dimension:
        same_width(part, own);
        return weight_of(part, weight, {n, Dv}, {h, n, Dv});
      case Score::Form::location:
        require(n > 0, "attention: {}: 'queries' is {}; a score of locations needs a logit for at least one key", part,
                own.queries);
        return;
      case Score::Form::none:
        return;
    }
  }
  void same_width(const Part& part, const Score& own) const {
    require(own.queries.size(3) == own.keys.size(3),
            "attention: {}: 'queries' is {} and 'keys' {}; their last dimensions must be equal", part, own.queries,
            own.keys);
  }
  void weight_of(const Part& part, const Variable& x, const Shape& of_all_heads, const Shape& by_head) const {
    require(x.defined() && (x.shape() == of_all_heads || x.shape() == by_head),
            "attention: {}: 'weight' is {}; it must be {} or {}", part, x, of_all_heads, by_head);
    of_one_type(part, {"weight"}, x);
  }

  void pair_terms(const char* kind, const std::vector<PairTerm>& terms, bool of_weights) {
    for (std::size_t k = 0; k < terms.size(); ++k) {
      const PairTerm& term = terms[k];
      const auto* formula = std::get_if<PointwiseFormula>(&term.what);
      const Part part{kind, k + 1, name_of(term)};
      const std::int64_t h = heads(part, term.heads);
      if (formula) {
        number_of_captures(part, term.captures, static_cast<std::size_t>(formula->captures()));
        for (const Capture& own : term.captures)
          require(own.per <= Per::offset,
                  "attention: {} reads {}; a formula reads PerHead, PerQuery, PerKey, PerPair and PerOffset", part,
                  name_of(own.per));
        for (std::size_t k = 0; k < term.captures.size(); ++k)
          require(is_per_key(term.captures[k].per) == formula->takes_per_key(k),
                  "attention: {}: {} does not fit the formula, which was made for a number for each {}", part,
                  capture_name(term.captures[k], k), formula->takes_per_key(k) ? "key or pair" : "head or query");
      } else if (const auto* window = std::get_if<PointerWindow>(&term.what)) {
        require(window->additive != of_weights, "attention: {} {}; add it to the {} of the plan", part,
                of_weights ? "adds to logits" : "multiplies weights", of_weights ? "biases" : "windows");
        pointer_window(part, *window, term.captures, h);
      } else if (std::holds_alternative<Renormalization>(term.what)) {
        require(of_weights, "attention: {} divides weights by their sum; add it to the windows of the plan", part);
        number_of_captures(part, term.captures, 0);
      } else {
        require(std::get<std::shared_ptr<const CustomTerm>>(term.what) != nullptr,
                "attention: {} has no CustomTerm; give it one", part);
      }
      captures(part, term.captures, h);
      if (formula && of_weights) keeps_zero(part, *formula);
    }
  }
  /// Throws if a formula of weights makes something else of a weight of 0, that of a key which the query does not see.
  /// Tried where positions and captures are 1; formulas as text are checked for all (is_linear_in()).
  void keeps_zero(const Part& part, const PointwiseFormula& formula) const {
    std::vector<double> x(3 + static_cast<std::size_t>(formula.captures()), 1);
    x[0] = 0;  // the weight; positions and captures are 1
    const double weight = formula.kernels<double>().value(formula.functor(), x.data());
    require(weight == 0 || std::isnan(weight),
            "attention: {} turns a weight of 0 into {}; it must stay 0, because the query does not see its key", part,
            weight);
  }

  void pointer_window(const Part& part, const PointerWindow& window, const std::vector<Capture>& captures,
                      std::int64_t h) const {
    number_of_captures(part, captures, window.additive ? 6 : 4);
    require(window.segment >= 1, "attention: {}: the length of a segment is {}; it must be at least 1", part,
            window.segment);
    for (std::size_t k = 0; k < captures.size(); k += 2) {
      const std::int64_t n =
          captures[k].value.defined() && captures[k].value.rank() == 4 ? captures[k].value.size(3) : 1;
      exact(part, capture_name(captures[k], k), captures[k].value, {B_, h, I_, n});
      exact(part, capture_name(captures[k + 1], k + 1), captures[k + 1].value, {B_, h, J_, n});
    }
  }

  void value_term(const Part& part, const RelativeValues& term) const {
    number_of_captures(part, term.captures, 1);
    require(0 <= term.clip && term.clip <= largest_clip, "attention: {}: the clip is {}; it must be in 0 to {}", part,
            term.clip, largest_clip);
    exact(part, capture_name(term.captures[0], 0), term.captures[0].value, {2 * term.clip + 1, in_.value.size(3)});
  }

  void focus(const Plan& plan) const {
    const FocusedSoftmax& form = *plan.focus;
    const Part part{"focus"};
    const std::int64_t h = heads(part, form.heads);
    require(!plan.sink.defined() && plan.normalizers.empty() && plan.second_maps.empty() && plan.extra_keys.empty(),
            "attention: a focus that is carried from query to query, as in flexible, cannot be combined with sinks, "
            "another normaliser, a second map or extra keys in one attention");
    require(form.sigma > 0, "attention: {}: sigma is {}; it must be greater than 0", part, form.sigma);
    require(form.threshold >= 0, "attention: {}: the threshold is {}; it must be at least 0", part, form.threshold);
    exact(part, {"gate"}, form.gate, {B_, h, I_});
    if (!form.previous.defined()) return;
    require(form.previous.rank() == 2, "attention: {}: 'previous' is {}; it must be [{}, {} or 1]", part, form.previous,
            B_, h);
    broadcast_to(part, {"previous"}, form.previous, {B_, h});
  }

  const AttentionContext& in_;
  std::int64_t B_, H_, I_, J_;
};

}  // namespace

void check_plan(const AttentionContext& in, const Plan& plan) { PlanCheck(in).check(plan); }

Variable checked_result(const char* part, const Variable& made, const Shape& expected) {
  require(made.defined() && made.shape() == expected, "attention: {} returned {}; it must return {}", part, made,
          expected);
  return made;
}

}  // namespace fovea
