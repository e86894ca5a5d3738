#include "nn/decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/operations.h"
#include "autograd/operations/gather.h"
#include "autograd/operations/softmax.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/formula/philox.h"
#include "tensor/map.h"
#include "tensor/reduce.h"
#include "tensor/top_k.h"

namespace fovea {

namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

/// Replaces NaN by −inf, because NaN, the log-probability that a diverged model computes, cannot be sorted.
double sortable(double log_probability) { return std::isnan(log_probability) ? impossible : log_probability; }

/// One token of a hypothesis, linked to the token before it. Hypotheses with a common prefix share the nodes of this
/// prefix.
struct TokenNode {
  std::int64_t before;  ///< index of the previous token's node; −1 at the first token
  std::int32_t token;
  std::vector<float> alignment;  ///< entry of Hypothesis::alignment; empty unless DecodingOptions::alignments
};

/// A hypothesis that has not ended in </s>. Its row in the model's batch is its index in Decoding::live.
struct LiveHypothesis {
  std::size_t sentence;
  std::int64_t last;  ///< index of the node of the last token; −1 if there is no token yet
  double log_probability;
  /// Rank by log-probability among the live hypotheses of its sentence; 0 is best. Breaks ties, so that their order
  /// does not depend on other sentences.
  std::size_t rank = 0;
};

/// A live hypothesis with one more token.
struct Continuation {
  std::size_t row;  ///< index of the live hypothesis
  std::int32_t token;
  double log_probability;  ///< of the live hypothesis followed by the new token
  std::size_t rank = 0;    ///< becomes LiveHypothesis::rank if the continuation stays alive
};

std::vector<std::int64_t> numbers(const Tensor& x) {
  return x.defined() ? x.to_vector<std::int64_t>() : std::vector<std::int64_t>();
}

/// The live hypotheses of a batch, the model's state, and the logits of the tokens that may come next.
class Decoding {
 public:
  Decoding(SequenceModel& model, const DecodingBatch& batch, const DecodingOptions& options)
      : evaluating_(model), model_(model), batch_(batch), options_(options) {
    require(!model.has_source() || batch.source.defined(), "decoding: there is no source; the model translates one");
    const std::size_t sentences = model.has_source() ? static_cast<std::size_t>(batch.source.size(0)) : prefixes();
    require(batch.prefixes.empty() || prefixes() == sentences,
            "decoding: there are {} prefixes for {} sentences; expected one each, or none", prefixes(), sentences);
    require(options.max_length >= options.min_length,
            "decoding: min_length is {} and max_length {}; min_length must not be larger", options.min_length,
            options.max_length);
    require(options.max_per_source_token >= 0 && std::isfinite(options.max_per_source_token),
            "decoding: max_per_source_token is {}; it must be a positive number, or 0 for no such limit",
            options.max_per_source_token);
    for (const auto& [name, token] : {std::pair("<s>", options.begin), {"</s>", options.end}})
      require(0 <= token && token < model.vocabulary(), "decoding: {} is token {}; it must be in 0 to {}", name, token,
              model.vocabulary() - 1);
    for (std::size_t s = 0; s < prefixes(); ++s) require_end_at_end(s);
    state_ = model.start(batch.source, batch.lengths);
    source_lengths_ = numbers(batch.lengths);
    if (model.has_source() && source_lengths_.empty()) source_lengths_.assign(sentences, batch.source.size(1));
    for (std::size_t s = 0; s < sentences; ++s) live.push_back({s, -1, 0});
    sentences_ = sentences;
  }

  std::size_t sentences() const { return sentences_; }

  /// Feeds the last token of each live hypothesis to the model. Afterwards, logits() and log_totals() are those of the
  /// next token.
  void step() {
    if (options_.on_step) options_.on_step();
    Tensor tokens = Tensor::empty({std::ssize(live)}, DType::i32);
    auto* token = tokens.mutable_data<std::int32_t>();
    for (const LiveHypothesis& one : live) *token++ = one.last < 0 ? options_.begin : node(one.last).token;
    std::vector<AttentionTrace> traces;
    const bool looks = options_.alignments || options_.observe;
    logits_ = model_.step(state_, tokens, looks ? &traces : nullptr).value().contiguous();
    const Scope scope("search");
    log_totals_ = log_sum_exp(logits_);
    if (options_.alignments) read_alignments(traces);
    if (options_.observe) observe(traces);
  }

  /// Returns the token that must come next in this row: the next token of the sentence's prefix, or </s> if the
  /// hypothesis has the largest length. Returns −1 if any token may come next.
  std::int32_t forced(std::size_t row) const {
    const std::size_t s = live[row].sentence, at = length();
    if (s < prefixes() && at < batch_.prefixes[s].size()) {
      const std::int32_t token = batch_.prefixes[s][at];
      require(0 <= token && token < logits_.size(1),
              "decoding: the prefix of sentence {} has token {}; the vocabulary has {}", s, token, logits_.size(1));
      return token;
    }
    return static_cast<std::int64_t>(at) >= length_limit(s) ? options_.end : -1;
  }

  /// Returns the tokens that the options exclude in this row. A forced token may be among them, and comes all the same.
  std::vector<std::int32_t> excluded(std::size_t row) const {
    std::vector<std::int32_t> tokens = options_.never;
    if (static_cast<std::int64_t>(length()) < options_.min_length) tokens.push_back(options_.end);
    if (options_.no_repeat > 0) add_repeated_tokens(live[row].last, tokens);
    return tokens;
  }

  const Tensor& logits() const { return logits_; }  ///< of all tokens, also of excluded ones, [R, V]
  /// Logarithm of the softmax denominator over all tokens, also excluded ones, [R]. log p of a token is its logit minus
  /// this: scores are log-probabilities of the model.
  const Tensor& log_totals() const { return log_totals_; }
  Continuation continuation(std::size_t row, std::int32_t token, double logit, double log_total) const {
    return {row, token, sortable(live[row].log_probability + logit - log_total)};
  }

  /// Returns the finished hypothesis whose </s> is the token of `last`.
  Hypothesis finished(const Continuation& last, double score) {
    const std::int64_t end = add_node(last);
    Hypothesis out{.tokens = {}, .log_probability = last.log_probability, .score = score};
    for (std::int64_t at = end; at >= 0; at = node(at).before) {
      if (at != end) out.tokens.push_back(node(at).token);
      if (options_.alignments) out.alignment.push_back(node(at).alignment);
    }
    std::reverse(out.tokens.begin(), out.tokens.end());
    std::reverse(out.alignment.begin(), out.alignment.end());
    return out;
  }

  /// Replaces the live hypotheses by the continuations `next`.
  void advance(const std::vector<Continuation>& next) {
    std::vector<LiveHypothesis> next_live;
    std::vector<std::int64_t> parents;
    for (const Continuation& one : in_places_of_parents(next)) {
      next_live.push_back({live[one.row].sentence, add_node(one), one.log_probability, one.rank});
      parents.push_back(static_cast<std::int64_t>(one.row));
    }
    bool moved = parents.size() != live.size();
    for (std::size_t row = 0; row < parents.size(); ++row) moved |= parents[row] != static_cast<std::int64_t>(row);
    live = std::move(next_live);
    if (moved && !live.empty()) state_.memory.reorder(parents);
  }

  /// Number of tokens, without <s>, of every live hypothesis. Call it after step().
  std::size_t length() const { return static_cast<std::size_t>(state_.position - 1); }

  std::vector<LiveHypothesis> live;

 private:
  std::size_t prefixes() const { return batch_.prefixes.size(); }
  /// Throws if the prefix of a sentence has tokens after </s>, which no hypothesis can have.
  void require_end_at_end(std::size_t sentence) const {
    const std::vector<std::int32_t>& prefix = batch_.prefixes[sentence];
    const auto at = std::find(prefix.begin(), prefix.end(), options_.end) - prefix.begin();
    require(at + 1 >= std::ssize(prefix),
            "decoding: the prefix of sentence {} has </s> ({}) as token {} of {}; only its last token can be </s>",
            sentence, options_.end, at + 1, prefix.size());
  }
  const TokenNode& node(std::int64_t at) const { return nodes_[static_cast<std::size_t>(at)]; }
  /// Adds a node for a continuation's token and returns its index.
  std::int64_t add_node(const Continuation& next) {
    nodes_.push_back(
        {live[next.row].last, next.token, options_.alignments ? alignments_[next.row] : std::vector<float>()});
    return std::ssize(nodes_) - 1;
  }

  /// Largest number of tokens before </s> in a hypothesis of this sentence.
  std::int64_t length_limit(std::size_t sentence) const {
    if (options_.max_per_source_token <= 0 || source_lengths_.empty()) return options_.max_length;
    const double most = std::max(10.0, options_.max_per_source_token * static_cast<double>(source_lengths_[sentence]));
    return most < static_cast<double>(options_.max_length) ? static_cast<std::int64_t>(most) : options_.max_length;
  }

  /// Returns the continuations in an order that moves few rows of the decoder's memory. If there are as many
  /// continuations as live hypotheses, the first continuation of each hypothesis takes the row of that hypothesis, and
  /// the other continuations take the rows of hypotheses without a continuation. Otherwise keeps the order.
  std::vector<Continuation> in_places_of_parents(const std::vector<Continuation>& next) const {
    if (next.size() != live.size()) return next;
    std::vector<Continuation> placed(next.size()), others;
    std::vector<bool> taken(next.size(), false);
    for (const Continuation& one : next) {
      if (taken[one.row]) {
        others.push_back(one);
      } else {
        placed[one.row] = one;
        taken[one.row] = true;
      }
    }
    auto other = others.begin();
    for (std::size_t row = 0; row < placed.size(); ++row)
      if (!taken[row]) placed[row] = *other++;
    return placed;
  }

  /// Adds the tokens that would repeat an n-gram, n = no_repeat, of the hypothesis whose last token is node `last`.
  void add_repeated_tokens(std::int64_t last, std::vector<std::int32_t>& found) const {
    std::vector<std::int32_t> tokens;
    for (std::int64_t at = last; at >= 0; at = node(at).before) tokens.push_back(node(at).token);
    std::reverse(tokens.begin(), tokens.end());
    const std::ptrdiff_t n = options_.no_repeat, size = std::ssize(tokens);
    for (std::ptrdiff_t i = 0; i + n <= size; ++i)
      if (std::equal(tokens.begin() + i, tokens.begin() + i + n - 1, tokens.end() - (n - 1)))
        found.push_back(tokens[static_cast<std::size_t>(i + n - 1)]);
  }

  /// Stores the attention weights of each row, one number per source token: the weights of the last attention over the
  /// source, averaged over heads and, if each dimension of the values has its own weights, over dimensions.
  void read_alignments(const std::vector<AttentionTrace>& traces) {
    alignments_.assign(live.size(), {});
    if (!model_.has_source()) return;
    auto last = std::find_if(traces.rbegin(), traces.rend(), looks_at_source);
    if (last == traces.rend()) return;
    Tensor weights = last->weights.value();  // [R, H, 1, J], or [R, H, 1, J, D]
    if (weights.rank() == 5) weights = map(Affine{1.0 / static_cast<double>(weights.size(4)), 0}, sum(weights, {4}));
    const std::int64_t H = weights.size(1), J = weights.size(3);
    std::vector<double> all = weights.to_vector<double>();
    for (std::size_t row = 0; row < live.size(); ++row) {
      auto& mean = alignments_[row];
      mean.assign(static_cast<std::size_t>(source_lengths_[live[row].sentence]), 0);
      for (std::int64_t h = 0; h < H; ++h)
        for (std::size_t j = 0; j < mean.size(); ++j)
          mean[j] += static_cast<float>(
              all[static_cast<std::size_t>((static_cast<std::int64_t>(row) * H + h) * J) + j] / static_cast<double>(H));
    }
  }

  void observe(const std::vector<AttentionTrace>& traces) const {
    std::vector<std::size_t> sentences;
    for (const LiveHypothesis& one : live) sentences.push_back(one.sentence);
    options_.observe(traces, sentences);
  }

  NoGrad no_grad_;
  Evaluating evaluating_;
  SequenceModel& model_;
  const DecodingBatch& batch_;
  const DecodingOptions& options_;
  DecoderState state_;
  std::size_t sentences_ = 0;
  std::vector<std::int64_t> source_lengths_;
  std::vector<TokenNode> nodes_;

  // Results of the last step(), with one entry per live hypothesis.
  Tensor logits_, log_totals_;
  std::vector<std::vector<float>> alignments_;
};

/// Beam search for one sentence: chooses continuations and collects finished hypotheses.
class Beam {
 public:
  explicit Beam(const BeamOptions& options) : options_(options) {}

  /// Finishes the best continuations of this step that end in </s>. Returns the continuations that stay alive, or none
  /// if the search for the sentence is done.
  std::vector<Continuation> advance(Decoding& decoding, std::vector<Continuation> continuations) {
    const auto beam = static_cast<std::size_t>(options_.beam);
    const std::size_t kept = std::min(continuations.size(), 2 * beam);
    auto rank_of = [&](const Continuation& one) { return decoding.live[one.row].rank; };
    std::partial_sort(continuations.begin(), continuations.begin() + static_cast<std::ptrdiff_t>(kept),
                      continuations.end(), [&](const Continuation& a, const Continuation& b) {
                        if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
                        return std::pair(rank_of(a), a.token) < std::pair(rank_of(b), b.token);
                      });
    const std::size_t places = options_.shrinking ? beam - std::min(beam, finished_.size()) : beam;
    std::vector<Continuation> alive;
    for (std::size_t rank = 0; rank < kept; ++rank) {
      const Continuation& next = continuations[rank];
      if (next.log_probability == impossible) break;
      if (next.token == options_.end) {
        if (rank < places) finish(decoding, next);
      } else if (alive.size() < beam) {
        alive.push_back(next);
        alive.back().rank = alive.size() - 1;
      }
    }
    if (options_.shrinking)
      alive.resize(std::min(alive.size(), beam - std::min(beam, finished_.size())));
    else if (!alive.empty() && is_done(score(alive[0].log_probability, live_length(decoding))))
      alive.clear();
    return alive;
  }

  std::vector<Hypothesis> best() const {
    std::vector<Hypothesis> all = finished_;
    std::stable_sort(all.begin(), all.end(),
                     [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    all.resize(std::min(all.size(), static_cast<std::size_t>(options_.best)));
    if (all.empty()) all.push_back({.tokens = {}, .log_probability = impossible, .score = impossible});
    return all;
  }

 private:
  /// The number of tokens for score() of a hypothesis that lives on after this step: it has no </s> to leave out.
  std::size_t live_length(const Decoding& decoding) const { return decoding.length() + (options_.count_end ? 1 : 2); }
  /// Returns the score of a hypothesis of `tokens` tokens, counting </s>.
  double score(double log_probability, std::size_t tokens) const {
    double length = static_cast<double>(tokens) - (options_.count_end ? 0 : 1);
    return log_probability / std::pow(std::max(length, 1.0), options_.length_penalty);
  }

  /// Whether `beam` hypotheses are finished and the worst one to be returned scores at least `best_live`, the score
  /// that the best live hypothesis has at its present length.
  bool is_done(double best_live) const {
    return finished_.size() >= static_cast<std::size_t>(options_.beam) && best().back().score >= best_live;
  }

  void finish(Decoding& decoding, const Continuation& last) {
    finished_.push_back(decoding.finished(last, score(last.log_probability, decoding.length() + 1)));
  }

  const BeamOptions& options_;
  std::vector<Hypothesis> finished_;
};

/// Copies tensors of R rows, [R, n] or [R], side by side to the host, where they are f64 [R, Σ n]. The host waits for a
/// GPU once, and not for each tensor.
std::vector<double> on_host(std::initializer_list<Tensor> parts) {
  auto width = [](const Tensor& x) { return x.rank() == 1 ? 1 : x.size(1); };
  std::int64_t all = 0, column = 0;
  for (const Tensor& x : parts) all += width(x);
  Tensor joined = Tensor::empty({parts.begin()->size(0), all}, DType::f64, parts.begin()->device());
  for (const Tensor& x : parts) {  // one copy each, which casts
    joined.slice(1, column, column + width(x)).copy_from(x.reshape({x.size(0), -1}));
    column += width(x);
  }
  return joined.to_vector<double>();
}

/// Returns the logits of the tokens that forced() names, [R, 1]; those of rows without such a token mean nothing.
Tensor forced_logits(const Decoding& decoding) {
  std::vector<std::int32_t> tokens;
  for (std::size_t row = 0; row < decoding.live.size(); ++row) tokens.push_back(std::max(decoding.forced(row), 0));
  return gather_last(decoding.logits(), Tensor::from(tokens, {std::ssize(tokens), 1}).to(decoding.logits().device()));
}

/// Returns the continuations of each sentence: for each live hypothesis the k best ones that are not excluded, or only
/// the forced one if forced() names a token.
std::vector<std::vector<Continuation>> continuations_of(const Decoding& decoding, std::int64_t k) {
  const std::size_t rows = decoding.live.size();
  std::vector<std::vector<std::int32_t>> excluded;
  std::size_t most_excluded = 0;
  for (std::size_t row = 0; row < rows; ++row)
    most_excluded = std::max(most_excluded, excluded.emplace_back(decoding.excluded(row)).size());
  const Scope scope("search");
  // the k best that are not excluded are among this many best ones
  const TopK best =
      top_k(decoding.logits(), std::min(k + static_cast<std::int64_t>(most_excluded), decoding.logits().size(1)));
  const std::vector<double> all = on_host({best.values, best.index, decoding.log_totals(), forced_logits(decoding)});
  const auto width = static_cast<std::size_t>(best.values.size(1));
  std::vector<std::vector<Continuation>> continuations(decoding.sentences());
  for (std::size_t row = 0; row < rows; ++row) {
    const double *logits = all.data() + row * (2 * width + 2), *tokens = logits + width, *rest = tokens + width;
    auto& own = continuations[decoding.live[row].sentence];
    if (const std::int32_t token = decoding.forced(row); token >= 0) {
      own.push_back(decoding.continuation(row, token, rest[1], rest[0]));
      continue;
    }
    std::int64_t chosen = 0;
    for (std::size_t j = 0; j < width && chosen < k; ++j) {
      const auto token = static_cast<std::int32_t>(tokens[j]);
      if (std::count(excluded[row].begin(), excluded[row].end(), token) > 0) continue;
      own.push_back(decoding.continuation(row, token, logits[j], rest[0]));
      ++chosen;
    }
  }
  return continuations;
}

void check(const BeamOptions& options) {
  require(options.beam > 0, "beam search: the beam is {}; it must be at least 1", options.beam);
  require(0 < options.best && options.best <= options.beam, "beam search: best is {}; it must be in 1 ... {}, the beam",
          options.best, options.beam);
  require(std::isfinite(options.length_penalty), "beam search: the length penalty is {}; it must be a finite number",
          options.length_penalty);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(SequenceModel& model, const DecodingBatch& batch,
                                                 const BeamOptions& options) {
  check(options);
  Decoding decoding(model, batch, options);
  std::vector<Beam> beams(decoding.sentences(), Beam(options));
  while (!decoding.live.empty()) {
    decoding.step();
    std::vector<std::vector<Continuation>> continuations = continuations_of(decoding, 2LL * options.beam);
    std::vector<Continuation> alive;
    for (std::size_t s = 0; s < beams.size(); ++s) {
      if (continuations[s].empty()) continue;
      std::vector<Continuation> own = beams[s].advance(decoding, std::move(continuations[s]));
      alive.insert(alive.end(), own.begin(), own.end());
    }
    decoding.advance(alive);
  }
  std::vector<std::vector<Hypothesis>> out;
  for (const Beam& beam : beams) out.push_back(beam.best());
  return out;
}

namespace {

/// The tokens that may be drawn and their weights, which are proportional to probabilities.
struct Choices {
  std::vector<std::int32_t> tokens;
  std::vector<double> weights;
  double total = 0;

  void add(std::int32_t token, double weight) {
    if (!(weight > 0)) return;
    tokens.push_back(token);
    weights.push_back(weight);
    total += weight;
  }
  /// Returns the token at which the running sum of weights exceeds fraction · total. `fraction` is in [0, 1).
  std::int32_t at(double fraction) const {
    double left = fraction * total;
    for (std::size_t k = 0; k < tokens.size(); ++k)
      if ((left -= weights[k]) < 0) return tokens[k];
    return tokens.back();
  }
};

/// Sets the logits [V] of these tokens to −inf. Ignores tokens outside of the vocabulary.
void exclude(const Tensor& logits, const std::vector<std::int32_t>& tokens) {
  for (std::int32_t token : tokens)
    if (0 <= token && token < logits.size(0)) logits.select(0, token).fill(impossible);
}

/// Returns the tokens that top_k and top_p allow, with weights according to the temperature. `logits` [V] are −inf for
/// excluded tokens.
Choices choices_of(const Tensor& logits, const SamplingOptions& options) {
  const std::int64_t V = logits.size(0);
  Choices choices;
  const std::vector<double> all = logits.to_vector<double>();
  const double largest = *std::max_element(all.begin(), all.end());
  auto weight = [&](double z) { return std::exp((z - largest) / options.temperature); };
  if (options.top_k == 0 && options.top_p >= 1) {
    for (std::int64_t v = 0; v < V; ++v)
      choices.add(static_cast<std::int32_t>(v), weight(all[static_cast<std::size_t>(v)]));
    return choices;
  }
  double weight_of_all = 0;
  for (double z : all) weight_of_all += weight(z);
  // Sorts the k most probable tokens. If only top_p limits the choice, doubles k until their weights reach top_p.
  for (std::int64_t k = options.top_k > 0 ? std::min(options.top_k, V) : std::min<std::int64_t>(64, V);;
       k = std::min(2 * k, V)) {
    TopK best = top_k(logits, k);
    std::vector<double> z = best.values.to_vector<double>();
    choices = {};
    double cut = 0;
    if (options.top_k > 0)
      for (double each : z) cut += weight(each);
    cut = options.top_p * (options.top_k > 0 ? cut : weight_of_all);
    for (std::size_t j = 0; j < z.size() && (j == 0 || choices.total < cut); ++j)
      choices.add(best.index.data<std::int32_t>()[j], weight(z[j]));
    if (options.top_k > 0 || k == V || choices.total >= cut) return choices;
  }
}

}  // namespace

std::vector<Hypothesis> sample(SequenceModel& model, const DecodingBatch& batch, const SamplingOptions& options) {
  require(options.temperature > 0, "sampling: the temperature is {}; it must be more than 0", options.temperature);
  require(options.top_p > 0 && options.top_k >= 0,
          "sampling: top_p is {} and top_k {}; top_p must be more than 0, top_k 0 or more", options.top_p,
          options.top_k);
  Decoding decoding(model, batch, options);
  std::vector<Hypothesis> out(decoding.sentences());
  for (std::uint64_t t = 0; !decoding.live.empty(); ++t) {
    decoding.step();
    const Tensor logits_of_model = decoding.logits();
    const Tensor all = logits_of_model.device() == Device::cpu ? logits_of_model.clone()  // the model may keep its own
                                                               : logits_of_model.to(Device::cpu);
    const std::vector<double> log_totals = decoding.log_totals().to_vector<double>();
    std::vector<Continuation> alive;
    for (std::size_t row = 0; row < decoding.live.size(); ++row) {
      const LiveHypothesis& from = decoding.live[row];
      const Tensor logits = all.select(0, static_cast<std::int64_t>(row));
      std::int32_t token = decoding.forced(row);
      if (token < 0) {
        exclude(logits, decoding.excluded(row));
        Choices choices = choices_of(logits, options);
        require(
            !choices.tokens.empty(),
            "sampling: in sentence {} no token can be drawn: each is excluded, has probability 0, or a logit is NaN",
            from.sentence);
        std::uint32_t word =
            philox(RandomPosition{.seed = options.seed}, (std::uint64_t{from.sentence} << 32) + t).word[0];
        token = choices.at(static_cast<double>(word) * 0x1p-32);
      }
      const Continuation next = decoding.continuation(row, token, logits.select(0, token).item(), log_totals[row]);
      if (next.token == options.end)
        out[from.sentence] = decoding.finished(next, next.log_probability);
      else
        alive.push_back(next);
    }
    decoding.advance(alive);
  }
  return out;
}

std::vector<Hypothesis> force(SequenceModel& model, const DecodingBatch& batch, DecodingOptions options) {
  options.min_length = options.max_length = 0;  // </s> comes right after the prefix
  options.max_per_source_token = 0;
  Decoding decoding(model, batch, options);
  require(batch.prefixes.size() == decoding.sentences(),
          "forced decoding: there are {} prefixes for {} sentences; expected one each", batch.prefixes.size(),
          decoding.sentences());
  for (std::size_t s = 0; s < batch.prefixes.size(); ++s)
    require(std::count(batch.prefixes[s].begin(), batch.prefixes[s].end(), options.end) == 0,
            "forced decoding: sentence {} contains </s> ({}), which is added to it; leave it out", s, options.end);
  std::vector<Hypothesis> out(decoding.sentences());
  while (!decoding.live.empty()) {
    decoding.step();
    const std::vector<double> scores = on_host({forced_logits(decoding), decoding.log_totals()});
    std::vector<Continuation> alive;
    for (std::size_t row = 0; row < decoding.live.size(); ++row) {
      const std::size_t sentence = decoding.live[row].sentence;
      const Continuation next = decoding.continuation(row, decoding.forced(row), scores[2 * row], scores[2 * row + 1]);
      if (decoding.length() == batch.prefixes[sentence].size())
        out[sentence] = decoding.finished(next, next.log_probability);
      else
        alive.push_back(next);
    }
    decoding.advance(alive);
  }
  return out;
}

PaddedTokens padded_tokens(std::span<const std::vector<std::int32_t>> sentences) {
  std::size_t longest = 0;
  std::vector<std::int32_t> lengths;
  for (const auto& sentence : sentences) {
    longest = std::max(longest, sentence.size());
    lengths.push_back(static_cast<std::int32_t>(sentence.size()));
  }
  Tensor tokens = Tensor::zeros({std::ssize(sentences), static_cast<std::int64_t>(longest)}, DType::i32);
  auto* row = tokens.mutable_data<std::int32_t>();
  for (const auto& sentence : sentences) {
    std::copy(sentence.begin(), sentence.end(), row);
    row += longest;
  }
  return {tokens, Tensor::from(lengths, {std::ssize(lengths)})};
}

TeacherForcingBatch teacher_forcing_batch(std::span<const std::vector<std::int32_t>> sources,
                                          std::span<const std::vector<std::int32_t>> targets, std::int32_t begin,
                                          std::int32_t end) {
  TeacherForcingBatch out;
  if (!sources.empty()) {
    require(sources.size() == targets.size(),
            "teacher_forcing_batch: there are {} sources and {} targets; expected equally many", sources.size(),
            targets.size());
    PaddedTokens source = padded_tokens(sources);
    out.batch.source = source.tokens;
    out.batch.source_lengths = source.lengths;
  }
  std::vector<std::vector<std::int32_t>> inputs(targets.begin(), targets.end()), outputs = inputs;
  for (auto& sentence : inputs) sentence.insert(sentence.begin(), begin);
  for (auto& sentence : outputs) sentence.push_back(end);
  PaddedTokens input = padded_tokens(inputs);
  out.batch.input = input.tokens;
  out.batch.lengths = input.lengths;
  out.targets = padded_tokens(outputs).tokens;
  return out;
}

}  // namespace fovea
