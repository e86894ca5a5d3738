#include "attention/layers/on_heads.h"

#include <algorithm>
#include <limits>

#include "attention/engine/cpu/strip_recurrence.h"
#include "attention/engine/cpu/strip_score.h"
#include "attention/methods/score.h"

namespace fovea {

namespace {

/// Whether these are all heads.
bool are_all(const AttentionContext& in, HeadRange heads) {
  return heads.first == 0 && heads.count == in.query.size(1);
}

/// These heads of x [..., H, rows, columns].
Variable slice_heads(const Variable& x, HeadRange heads) {
  return slice(x, -3, heads.first, heads.first + heads.count);
}

/// `outside` [..., H, rows, columns], with the heads of `heads` replaced by `middle`.
Variable replace_heads(const Variable& outside, const Variable& middle, HeadRange heads) {
  std::int64_t H = outside.size(-3), end = heads.first + heads.count;
  std::vector<Variable> pieces;
  if (heads.first > 0) pieces.push_back(slice(outside, -3, 0, heads.first));
  pieces.push_back(middle);
  if (end < H) pieces.push_back(slice(outside, -3, end, H));
  return concat(pieces, -3);
}

/// Restricts a term's form on strips to these heads; null stays null.
template <class Strips>
Strips on_heads(Strips strips, HeadRange heads) {
  if (!strips) return strips;
  strips->first_head = heads.first;
  strips->heads = heads.count;
  return strips;
}

/// A term that acts on some of the heads and does not change the others.
class OnHeads : public PairTerm {
 public:
  OnHeads(std::unique_ptr<PairTerm> term, HeadRange heads) : term_(std::move(term)), heads_(heads) {}
  Variable composed(const Variable& pairs, const AttentionContext& in) const override {
    return replace_heads(pairs, term_->composed(slice_heads(pairs, heads_), context_of_heads(in, heads_)), heads_);
  }
  std::unique_ptr<StripTerm> strips(const AttentionContext& in) const override {
    return on_heads(term_->strips(context_of_heads(in, heads_)), heads_);
  }

 private:
  std::unique_ptr<PairTerm> term_;
  HeadRange heads_;
};

/// A value term that acts on some of the heads and adds 0 to the others.
class ValueOnHeads : public ValueTerm {
 public:
  ValueOnHeads(std::unique_ptr<ValueTerm> term, HeadRange heads) : term_(std::move(term)), heads_(heads) {}
  Variable composed(const Variable& weights, const AttentionContext& in) const override {
    Variable added = term_->composed(slice_heads(weights, heads_), context_of_heads(in, heads_));
    Shape shape = added.shape();
    shape[1] = in.value.size(1);
    return replace_heads(Tensor::zeros(shape, added.dtype(), added.device()), added, heads_);
  }
  std::unique_ptr<StripValueTerm> strips(const AttentionContext& in) const override {
    return on_heads(term_->strips(context_of_heads(in, heads_)), heads_);
  }

 private:
  std::unique_ptr<ValueTerm> term_;
  HeadRange heads_;
};

/// Different scores for different heads. Heads without a score have q · k / sqrt(D).
class ScoresOfHeads : public Score {
 public:
  /// Throws Error if a head has a score already.
  void add(std::unique_ptr<Score> score, HeadRange heads) {
    for (const Part& part : parts_)
      require(heads.first + heads.count <= part.heads.first || part.heads.first + part.heads.count <= heads.first,
              "attention: two scores on one head; a head has one of dot, scaled_dot, general, additive, ...");
    parts_.push_back({std::move(score), heads});
    std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) { return a.heads.first < b.heads.first; });
  }

  Variable composed(const AttentionContext& in) const override {
    std::vector<Variable> pieces;
    for_parts(in, [&](const Part& part, const AttentionContext& own) { pieces.push_back(part.score->composed(own)); });
    return concat(broadcast_dimensions(pieces), -3);
  }
  bool is_scaled_dot() const override {
    return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.score->is_scaled_dot(); });
  }

  std::vector<std::unique_ptr<StripScore>> strips(const AttentionContext& in) const override {
    std::vector<std::unique_ptr<StripScore>> all;
    bool complete = true;
    for_parts(in, [&](const Part& part, const AttentionContext& own) {
      std::vector<std::unique_ptr<StripScore>> strips = part.score->strips(own);
      complete = complete && !strips.empty();
      for (auto& strip : strips) all.push_back(on_heads(std::move(strip), part.heads));
    });
    if (!complete) all.clear();
    return all;
  }

 private:
  struct Part {
    std::unique_ptr<Score> score;
    HeadRange heads;
  };

  /// body(part, context of its heads) for all scores, in the order of heads.
  template <class Body>
  void for_parts(const AttentionContext& in, Body&& body) const {
    fill_gaps(in);
    for (const Part& part : parts_) body(part, context_of_heads(in, part.heads));
  }

  /// Adds q · k / sqrt(D) for the heads without a score.
  void fill_gaps(const AttentionContext& in) const {
    std::vector<Part> all;
    int next = 0, H = static_cast<int>(in.query.size(1));
    auto fill_up_to = [&](int end) {
      if (next < end) all.push_back({std::make_unique<DotScore>(in.scale()), {next, end - next}});
    };
    for (Part& part : parts_) {
      fill_up_to(part.heads.first);
      next = part.heads.first + part.heads.count;
      all.push_back(std::move(part));
    }
    fill_up_to(H);
    parts_ = std::move(all);
  }

  /// If one piece has a matrix per dimension of the values, [D, B, h, I, J], broadcasts the others to that.
  static std::vector<Variable> broadcast_dimensions(std::vector<Variable> pieces) {
    std::int64_t D = 0;
    for (const Variable& piece : pieces)
      if (piece.rank() == 5) D = piece.size(0);
    for (Variable& piece : pieces) {
      if (D == 0 || piece.rank() == 5) continue;
      Shape shape = piece.shape();
      shape.insert(0, D);
      piece = broadcast_to(piece, shape);
    }
    return pieces;
  }

  mutable std::vector<Part> parts_;  // fill_gaps() adds to it; a Score belongs to one call and one thread
};

/// A recurrence on some heads and the softmax on the others.
class RecurrenceOnHeads : public Recurrence {
 public:
  RecurrenceOnHeads(std::unique_ptr<Recurrence> recurrence, HeadRange heads, std::int64_t all_heads)
      : recurrence_(std::move(recurrence)), heads_(heads), all_heads_(all_heads) {}

  Variable composed(const Variable& logits, const Tensor& allow, const AttentionContext& in) override {
    Tensor own = allow;
    if (allow.defined() && allow.size(1) > 1) own = allow.slice(1, heads_.first, heads_.first + heads_.count);
    Variable weights = recurrence_->composed(slice_heads(logits, heads_), own, context_of_heads(in, heads_));
    return replace_heads(softmax(logits, allow), weights, heads_);
  }
  std::unique_ptr<StripRecurrence> strips(const AttentionContext& in) override {
    return on_heads(recurrence_->strips(context_of_heads(in, heads_)), heads_);
  }
  Variable carried() const override {
    Variable own = recurrence_->carried();  // [B, h, I]
    Variable none = Tensor::zeros({own.size(0), all_heads_, own.size(2), 1}, own.dtype(), own.device());
    return squeeze(replace_heads(none, unsqueeze(own, -1), heads_), -1);
  }
  void set_carried(const Variable& carried) override {
    recurrence_->set_carried(carried.defined() ? own_heads(carried) : Variable());
  }
  void keep_carried(DecoderMemory& memory, const Variable& carried) const override {
    recurrence_->keep_carried(memory, own_heads(carried));
  }

 private:
  /// carried [B, H, I] → [B, h, I]
  Variable own_heads(const Variable& carried) const {
    return slice(carried, 1, heads_.first, heads_.first + heads_.count);
  }

  std::unique_ptr<Recurrence> recurrence_;
  HeadRange heads_;
  std::int64_t all_heads_;
};

/// x [B, h or 1, ...] for `heads`, extended by `other` for all other heads → [B, H, ...].
Tensor extend_to_all_heads(const Tensor& x, HeadRange heads, std::int64_t H, double other) {
  Shape shape = x.shape();
  shape[1] = H;
  Tensor out = Tensor::full(shape, other, x.dtype(), x.device());
  out.slice(1, heads.first, heads.first + heads.count).copy_from(x);
  return out;
}

/// A range for `heads`, extended by 0 ≤ j < end for all other heads.
KeyRange extend_to_all_heads(const KeyRange& range, HeadRange heads, std::int64_t H, std::int64_t end) {
  return {extend_to_all_heads(range.first, heads, H, 0),
          extend_to_all_heads(range.end, heads, H, static_cast<double>(end))};
}

/// `sink` [h] for `heads` added to `already` [H], the sinks of all heads, where −inf means none. Throws Error if a head
/// has a sink already.
Variable sink_of_all_heads(const Variable& already, const Variable& sink, HeadRange heads, std::int64_t H) {
  Variable others = already;
  if (!others.defined())
    others = Tensor::full({H}, -std::numeric_limits<double>::infinity(), sink.dtype(), sink.device());
  for (double logit : others.value().slice(0, heads.first, heads.first + heads.count).to_vector<double>())
    require(logit == -std::numeric_limits<double>::infinity(), "sinks: a head has two logits; it can have one");
  return reshape(replace_heads(reshape(others, {H, 1, 1}), reshape(sink, {heads.count, 1, 1}), heads), {H});
}

/// The score of all heads as a ScoresOfHeads, which is created if there is none.
ScoresOfHeads& scores_on_heads(Terms& all) {
  auto* scores = dynamic_cast<ScoresOfHeads*>(all.score.get());
  if (scores) return *scores;
  auto made = std::make_unique<ScoresOfHeads>();
  scores = made.get();
  all.set_score(std::move(made));
  return *scores;
}

/// `densities` [h, 1, 1] for `heads` added to `already` [H, 1, 1], those of all heads.
Tensor densities_of_all_heads(const Tensor& already, const Tensor& densities, HeadRange heads, std::int64_t H) {
  Tensor out = already.defined() ? already.clone() : Tensor::zeros({H, 1, 1}, DType::boolean, densities.device());
  out.slice(0, heads.first, heads.first + heads.count).copy_from(densities);
  return out;
}

}  // namespace

AttentionContext context_of_heads(const AttentionContext& in, HeadRange heads) {
  AttentionContext out = in;
  if (are_all(in, heads)) return out;
  out.whole = std::make_shared<AttentionContext>(in);
  out.query = slice_heads(in.query, heads);
  out.key = slice_heads(in.key, heads);
  out.value = slice_heads(in.value, heads);
  if (in.mask.defined() && in.mask.size(1) > 1) out.mask = slice_heads(in.mask, heads);
  if (in.previous_focus.defined() && in.previous_focus.size(1) > 1)
    out.previous_focus = slice(in.previous_focus, 1, heads.first, heads.first + heads.count);
  return out;
}

Variable positioned_heads(LocalnessMethod& method, const Variable& x, std::int64_t first, HeadRange heads) {
  if (heads.count == x.size(1)) return method.positioned(x, first);
  Variable own = slice_heads(x, heads), positioned = method.positioned(own, first);
  return positioned.is_same(own) ? x : replace_heads(x, positioned, heads);
}

void add_on_heads(Terms& all, Terms terms, const AttentionContext& in, HeadRange heads) {
  std::int64_t H = in.query.size(1), J = in.key.size(2);
  bool every = are_all(in, heads);
  if (terms.score && every)
    all.set_score(std::move(terms.score));
  else if (terms.score)
    scores_on_heads(all).add(std::move(terms.score), heads);
  if (terms.densities.defined()) all.densities = densities_of_all_heads(all.densities, terms.densities, heads, H);
  if (terms.recurrence)
    all.set_recurrence(every ? std::move(terms.recurrence)
                             : std::make_unique<RecurrenceOnHeads>(std::move(terms.recurrence), heads, H));
  auto add_pairs = [&](auto& to, auto& from) {
    for (auto& term : from) to.push_back(every ? std::move(term) : std::make_unique<OnHeads>(std::move(term), heads));
  };
  add_pairs(all.scores, terms.scores);
  add_pairs(all.biases, terms.biases);
  add_pairs(all.windows, terms.windows);
  for (auto& value : terms.values)
    all.values.push_back(every ? std::move(value) : std::make_unique<ValueOnHeads>(std::move(value), heads));
  for (const KeyRange& range : terms.ranges)
    all.ranges.push_back(every ? range : extend_to_all_heads(range, heads, H, J));
  for (const KeyRange& range : terms.always)
    all.always.push_back(every ? range : extend_to_all_heads(range, heads, H, 0));
  for (const Tensor& mask : terms.masks) all.masks.push_back(every ? mask : extend_to_all_heads(mask, heads, H, 1));
  if (terms.sink.defined()) all.sink = sink_of_all_heads(all.sink, terms.sink, heads, H);
  for (auto& quantity : terms.quantities) all.quantities.push_back(std::move(quantity));
}

}  // namespace fovea
