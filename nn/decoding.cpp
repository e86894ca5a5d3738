#include "nn/decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "autograd/operations.h"
#include "tensor/formula/philox.h"
#include "tensor/softmax.h"
#include "tensor/top_k.h"

namespace fovea {

namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

/// What a diverged model says is NaN, which has no place in an order.
double ordered(double log_probability) { return std::isnan(log_probability) ? impossible : log_probability; }

/// One token of a hypothesis, with the one before it.
struct Node {
  std::int64_t before;  ///< −1: none
  std::int32_t token;
  std::vector<float> alignment;
};

/// A hypothesis that goes on.
struct Live {
  std::size_t sentence;
  std::int64_t last;  ///< its last token's node; −1: none yet
  double log_probability;
  std::size_t rank = 0;  ///< among those of its sentence; its row says nothing, for that depends on other sentences
};

/// A hypothesis by one token longer.
struct Continuation {
  std::size_t row;  ///< of the live hypothesis
  std::int32_t token;
  double log_probability;  ///< of the whole
  std::size_t rank = 0;    ///< among those of its sentence that go on
};

std::vector<std::int64_t> numbers(const Tensor& x) {
  return x.defined() ? x.to_vector<std::int64_t>() : std::vector<std::int64_t>();
}

/// The live hypotheses of a batch and the model's state for each; what may follow each of them.
class Decoding {
 public:
  Decoding(SequenceModel& model, const DecodingBatch& batch, const DecodingOptions& options)
      : evaluating_(model), model_(model), batch_(batch), options_(options) {
    const std::size_t sentences = model.has_source() ? static_cast<std::size_t>(batch.source.size(0)) : prefixes();
    require(batch.prefixes.empty() || prefixes() == sentences, "decoding: {} prefixes for {} sentences", prefixes(),
            sentences);
    require(options.max_length >= options.min_length, "decoding: the shortest hypothesis has {} tokens, the longest {}",
            options.min_length, options.max_length);
    state_ = model.start(batch.source, batch.lengths);
    source_lengths_ = numbers(batch.lengths);
    if (model.has_source() && source_lengths_.empty()) source_lengths_.assign(sentences, batch.source.size(1));
    for (std::size_t s = 0; s < sentences; ++s) live.push_back({s, -1, 0});
    sentences_ = sentences;
  }

  std::size_t sentences() const { return sentences_; }

  /// Reads the last token of each live hypothesis. After it, logits() and log_total() are of their next tokens.
  void step() {
    Tensor tokens = Tensor::empty({std::ssize(live)}, DType::i32);
    auto* token = tokens.data<std::int32_t>();
    for (const Live& one : live) *token++ = one.last < 0 ? options_.begin : node(one.last).token;
    std::vector<AttentionTrace> traces;
    const bool looks = options_.alignments || options_.observe;
    logits_ = model_.step(state_, tokens, looks ? &traces : nullptr).value().contiguous();
    log_total_ = log_sum_exp(logits_).to_vector<double>();
    if (options_.alignments) read_alignments(traces);
    if (options_.observe) observe(traces);
    for (std::size_t row = 0; row < live.size(); ++row) exclude(row);
  }

  /// The one token that may follow, by the prefix or because the hypothesis must end; −1: any.
  std::int32_t forced(std::size_t row) const {
    const std::size_t s = live[row].sentence, at = length();
    if (s < prefixes() && at < batch_.prefixes[s].size()) return batch_.prefixes[s][at];
    return static_cast<std::int64_t>(at) >= longest(s) ? options_.end : -1;
  }

  const Tensor& logits() const { return logits_; }  ///< [R, V]; −inf for tokens that may not follow
  double log_total(std::size_t row) const { return log_total_[row]; }
  /// The log-probability of a token of which forced() has told, whatever is excluded.
  Continuation forced_continuation(std::size_t row, std::int32_t token) const {
    require(0 <= token && token < logits_.size(1), "decoding: the prefix of sentence {} has token {}, there are {}",
            live[row].sentence, token, logits_.size(1));
    return {row, token, ordered(live[row].log_probability + forced_logits_[row] - log_total_[row])};
  }

  /// The node of a continuation.
  std::int64_t keep(const Continuation& next) {
    nodes_.push_back(
        {live[next.row].last, next.token, options_.alignments ? alignments_[next.row] : std::vector<float>()});
    return std::ssize(nodes_) - 1;
  }

  /// These go on.
  void go_on(const std::vector<Continuation>& next) {
    std::vector<Live> following;
    std::vector<std::int64_t> parents;
    for (const Continuation& one : in_places_of_parents(next)) {
      following.push_back({live[one.row].sentence, keep(one), one.log_probability, one.rank});
      parents.push_back(static_cast<std::int64_t>(one.row));
    }
    bool moved = parents.size() != live.size();
    for (std::size_t row = 0; row < parents.size(); ++row) moved |= parents[row] != static_cast<std::int64_t>(row);
    live = std::move(following);
    if (moved && !live.empty()) state_.memory.reorder(parents);
  }

  /// The hypothesis that ends in this node, which is </s>.
  Hypothesis hypothesis(std::int64_t last, double log_probability, double score) const {
    Hypothesis out{.tokens = {}, .log_probability = log_probability, .score = score};
    for (std::int64_t at = last; at >= 0; at = node(at).before) {
      if (at != last) out.tokens.push_back(node(at).token);
      if (options_.alignments) out.alignment.push_back(node(at).alignment);
    }
    std::reverse(out.tokens.begin(), out.tokens.end());
    std::reverse(out.alignment.begin(), out.alignment.end());
    return out;
  }

  /// Tokens of every live hypothesis, before the one that step() asks for.
  std::size_t length() const { return static_cast<std::size_t>(state_.position - 1); }

  std::vector<Live> live;

 private:
  std::size_t prefixes() const { return batch_.prefixes.size(); }
  const Node& node(std::int64_t at) const { return nodes_[static_cast<std::size_t>(at)]; }

  std::int64_t longest(std::size_t sentence) const {
    if (options_.max_per_source_token <= 0 || source_lengths_.empty()) return options_.max_length;
    double wanted = options_.max_per_source_token * static_cast<double>(source_lengths_[sentence]);
    return std::min(options_.max_length, std::max<std::int64_t>(10, static_cast<std::int64_t>(wanted)));
  }

  /// Where as many go on as there were, the first that continues a hypothesis has its row, and the others those of
  /// hypotheses that nothing continues: most of what the memory keeps stays where it is.
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

  template <class Body>
  void with_row(std::size_t row, const Body& body) const {
    visit_real("decoding", logits_.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      body(logits_.data<T>() + static_cast<std::int64_t>(row) * logits_.size(1));
    });
  }

  /// Writes −inf over the logits of what may not follow. The total keeps them: the score is the model's.
  void exclude(std::size_t row) {
    forced_logits_.resize(live.size());
    std::int32_t must = forced(row);
    with_row(row, [&](auto* logits) {
      if (must >= 0 && must < logits_.size(1)) forced_logits_[row] = static_cast<double>(logits[must]);
      using T = std::remove_reference_t<decltype(*logits)>;
      auto forbid = [&](std::int32_t token) {
        if (0 <= token && token < logits_.size(1)) logits[token] = -std::numeric_limits<T>::infinity();
      };
      for (std::int32_t token : options_.never) forbid(token);
      if (static_cast<std::int64_t>(length()) < options_.min_length) forbid(options_.end);
      if (options_.no_repeat > 0)
        for (std::int32_t token : repeating(live[row].last)) forbid(token);
    });
  }

  /// The tokens that would complete, for the second time, n in a row.
  std::vector<std::int32_t> repeating(std::int64_t last) const {
    std::vector<std::int32_t> tokens;
    for (std::int64_t at = last; at >= 0; at = node(at).before) tokens.push_back(node(at).token);
    std::reverse(tokens.begin(), tokens.end());
    const std::ptrdiff_t n = options_.no_repeat, size = std::ssize(tokens);
    std::vector<std::int32_t> found;
    for (std::ptrdiff_t i = 0; i + n <= size; ++i)
      if (std::equal(tokens.begin() + i, tokens.begin() + i + n - 1, tokens.end() - (n - 1)))
        found.push_back(tokens[static_cast<std::size_t>(i + n - 1)]);
    return found;
  }

  /// Of the last attention over a source: for each row the mean over heads (and dimensions), up to the source's length.
  void read_alignments(const std::vector<AttentionTrace>& traces) {
    alignments_.assign(live.size(), {});
    if (!model_.has_source()) return;
    auto last = std::find_if(traces.rbegin(), traces.rend(), looks_at_source);
    if (last == traces.rend()) return;
    Tensor weights = last->weights.value();  // [R, H, 1, J], or with dimensions behind
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
    for (const Live& one : live) sentences.push_back(one.sentence);
    options_.observe(traces, sentences);
  }

  NoGrad off_;
  Evaluating evaluating_;
  SequenceModel& model_;
  const DecodingBatch& batch_;
  const DecodingOptions& options_;
  DecoderState state_;
  std::size_t sentences_ = 0;
  std::vector<std::int64_t> source_lengths_;
  std::vector<Node> nodes_;

  // Of the last step:
  Tensor logits_;
  std::vector<double> log_total_, forced_logits_;
  std::vector<std::vector<float>> alignments_;  // of each row
};

/// What the beam of a sentence has found.
class Beam {
 public:
  Beam(const BeamOptions& options) : options_(options) {}

  /// The live hypotheses of the next step, from all continuations of this one's.
  std::vector<Continuation> advance(Decoding& decoding, std::vector<Continuation> continuations) {
    const auto beam = static_cast<std::size_t>(options_.beam);
    const std::size_t kept = std::min(continuations.size(), 2 * beam);
    auto rank_of = [&](const Continuation& one) { return decoding.live[one.row].rank; };
    std::partial_sort(continuations.begin(), continuations.begin() + static_cast<std::ptrdiff_t>(kept),
                      continuations.end(), [&](const Continuation& a, const Continuation& b) {
                        if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
                        return std::pair(rank_of(a), a.token) < std::pair(rank_of(b), b.token);
                      });
    std::vector<Continuation> going_on;
    for (std::size_t rank = 0; rank < kept; ++rank) {
      const Continuation& next = continuations[rank];
      if (next.log_probability == impossible) break;
      if (next.token == options_.end) {
        if (rank < beam) finish(decoding, next);
      } else if (going_on.size() < beam) {
        going_on.push_back(next);
        going_on.back().rank = going_on.size() - 1;
      }
    }
    if (options_.shrinking)
      going_on.resize(std::min(going_on.size(), beam - std::min(beam, finished_.size())));
    else if (!going_on.empty() && is_done(score(going_on[0].log_probability, decoding.length() + 1)))
      going_on.clear();
    return going_on;
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
  /// Of a hypothesis of so many tokens, </s> among them.
  double score(double log_probability, std::size_t tokens) const {
    double length = static_cast<double>(tokens) - (options_.count_end ? 0 : 1);
    return log_probability / std::pow(std::max(length, 1.0), options_.length_penalty);
  }

  /// `live`: the score that the best one that goes on would have with the length that it has.
  bool is_done(double live) const {
    if (finished_.size() < static_cast<std::size_t>(options_.beam)) return false;
    std::vector<Hypothesis> found = best();
    return found.back().score >= live;
  }

  void finish(Decoding& decoding, const Continuation& last) {
    finished_.push_back(decoding.hypothesis(decoding.keep(last), last.log_probability,
                                            score(last.log_probability, decoding.length() + 1)));
  }

  const BeamOptions& options_;
  std::vector<Hypothesis> finished_;
};

/// The k best continuations of each live hypothesis, by sentence.
std::vector<std::vector<Continuation>> continuations_of(const Decoding& decoding, std::int64_t k) {
  std::vector<std::vector<Continuation>> all(decoding.sentences());
  TopK best = top_k(decoding.logits(), std::min(k, decoding.logits().size(1)));
  std::vector<double> values = best.values.to_vector<double>();
  const std::int32_t* index = best.index.data<std::int32_t>();
  const auto width = static_cast<std::size_t>(best.values.size(1));
  for (std::size_t row = 0; row < decoding.live.size(); ++row) {
    const Live& from = decoding.live[row];
    auto& own = all[from.sentence];
    if (std::int32_t token = decoding.forced(row); token >= 0) {
      own.push_back(decoding.forced_continuation(row, token));
      continue;
    }
    for (std::size_t at = row * width; at < (row + 1) * width; ++at)
      own.push_back({row, index[at], ordered(from.log_probability + values[at] - decoding.log_total(row))});
  }
  return all;
}

void check(const BeamOptions& options) {
  require(options.beam > 0, "beam search: a beam of {}; there must be one hypothesis at least", options.beam);
  require(0 < options.best && options.best <= options.beam, "beam search: {} best of a beam of {}", options.best,
          options.beam);
}

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(SequenceModel& model, const DecodingBatch& batch,
                                                 const BeamOptions& options) {
  check(options);
  Decoding decoding(model, batch, options);
  std::vector<Beam> beams(decoding.sentences(), Beam(options));
  while (!decoding.live.empty()) {
    decoding.step();
    std::vector<std::vector<Continuation>> continuations = continuations_of(decoding, 2 * options.beam);
    std::vector<Continuation> going_on;
    for (std::size_t s = 0; s < beams.size(); ++s) {
      if (continuations[s].empty()) continue;
      std::vector<Continuation> own = beams[s].advance(decoding, std::move(continuations[s]));
      going_on.insert(going_on.end(), own.begin(), own.end());
    }
    decoding.go_on(going_on);
  }
  std::vector<std::vector<Hypothesis>> out;
  for (const Beam& beam : beams) out.push_back(beam.best());
  return out;
}

namespace {

/// The tokens that may be drawn, with their probabilities up to a factor; most probable first where some are left out.
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
  std::int32_t at(double fraction) const {
    double left = fraction * total;
    for (std::size_t k = 0; k < tokens.size(); ++k)
      if ((left -= weights[k]) < 0) return tokens[k];
    return tokens.back();
  }
};

/// logits [V], −inf for what may not follow.
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
  double everything = 0;
  for (double z : all) everything += weight(z);
  // as many of the most probable as it takes
  for (std::int64_t k = options.top_k > 0 ? std::min(options.top_k, V) : std::min<std::int64_t>(64, V);;
       k = std::min(2 * k, V)) {
    TopK best = top_k(logits, k);
    std::vector<double> z = best.values.to_vector<double>();
    choices = {};
    double cut = 0;
    if (options.top_k > 0)
      for (double each : z) cut += weight(each);
    cut = options.top_p * (options.top_k > 0 ? cut : everything);
    for (std::size_t j = 0; j < z.size() && (j == 0 || choices.total < cut); ++j)
      choices.add(best.index.data<std::int32_t>()[j], weight(z[j]));
    if (options.top_k > 0 || k == V || choices.total >= cut) return choices;
  }
}

}  // namespace

std::vector<Hypothesis> sample(SequenceModel& model, const DecodingBatch& batch, const SamplingOptions& options) {
  require(options.temperature > 0, "sampling: the temperature is {}; it must be more than 0", options.temperature);
  require(options.top_p > 0 && options.top_k >= 0, "sampling: top_p is {} and top_k {}; they must be more than 0",
          options.top_p, options.top_k);
  Decoding decoding(model, batch, options);
  std::vector<Hypothesis> out(decoding.sentences());
  for (std::uint64_t t = 0; !decoding.live.empty(); ++t) {
    decoding.step();
    std::vector<Continuation> going_on;
    for (std::size_t row = 0; row < decoding.live.size(); ++row) {
      const Live& from = decoding.live[row];
      Continuation next;
      if (std::int32_t token = decoding.forced(row); token >= 0) {
        next = decoding.forced_continuation(row, token);
      } else {
        Tensor logits = decoding.logits().select(0, static_cast<std::int64_t>(row));
        Choices choices = choices_of(logits, options);
        require(!choices.tokens.empty(), "sampling: no token may follow in sentence {}", from.sentence);
        std::uint32_t word = philox(options.seed, (std::uint64_t{from.sentence} << 32) + t).word[0];
        std::int32_t drawn = choices.at(static_cast<double>(word) * 0x1p-32);
        next = {row, drawn, from.log_probability + logits.select(0, drawn).item() - decoding.log_total(row)};
      }
      if (next.token == options.end)
        out[from.sentence] = decoding.hypothesis(decoding.keep(next), next.log_probability, next.log_probability);
      else
        going_on.push_back(next);
    }
    decoding.go_on(going_on);
  }
  return out;
}

std::vector<Hypothesis> force(SequenceModel& model, const DecodingBatch& batch, DecodingOptions options) {
  options.min_length = options.max_length = 0;  // </s> must follow on the prefix
  options.max_per_source_token = 0;
  Decoding decoding(model, batch, options);
  require(batch.prefixes.size() == decoding.sentences(), "forced decoding: {} texts for {} sentences",
          batch.prefixes.size(), decoding.sentences());
  std::vector<Hypothesis> out(decoding.sentences());
  while (!decoding.live.empty()) {
    decoding.step();
    std::vector<Continuation> going_on;
    for (std::size_t row = 0; row < decoding.live.size(); ++row) {
      const std::size_t sentence = decoding.live[row].sentence;
      Continuation next = decoding.forced_continuation(row, decoding.forced(row));
      if (decoding.length() == batch.prefixes[sentence].size())
        out[sentence] = decoding.hypothesis(decoding.keep(next), next.log_probability, next.log_probability);
      else
        going_on.push_back(next);
    }
    decoding.go_on(going_on);
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
  auto* row = tokens.data<std::int32_t>();
  for (const auto& sentence : sentences) {
    std::copy(sentence.begin(), sentence.end(), row);
    row += longest;
  }
  return {tokens, Tensor::from(lengths, {std::ssize(lengths)})};
}

TeacherForcingBatch teacher_forcing_batch(std::span<const std::vector<std::int32_t>> sources,
                                          std::span<const std::vector<std::int32_t>> targets, std::int32_t begin,
                                          std::int32_t end) {
  TeacherForcingBatch taught;
  if (!sources.empty()) {
    require(sources.size() == targets.size(), "{} sources and {} targets", sources.size(), targets.size());
    PaddedTokens source = padded_tokens(sources);
    taught.batch.source = source.tokens;
    taught.batch.source_lengths = source.lengths;
  }
  std::vector<std::vector<std::int32_t>> read(targets.begin(), targets.end()), said = read;
  for (auto& sentence : read) sentence.insert(sentence.begin(), begin);
  for (auto& sentence : said) sentence.push_back(end);
  PaddedTokens input = padded_tokens(read);
  taught.batch.input = input.tokens;
  taught.batch.lengths = input.lengths;
  taught.targets = padded_tokens(said).tokens;
  return taught;
}

std::vector<double> log_probabilities(SequenceModel& model, const TeacherForcingBatch& taught) {
  NoGrad off;
  Evaluating evaluating(model);
  Tensor logits = model.logits(taught.batch).value();
  const Shape& shape = taught.targets.shape();
  Variable losses =
      cross_entropy(Variable(logits.reshape({-1, logits.size(-1)})), taught.targets.reshape({-1}), {.ignored = 0});
  std::vector<double> all = losses.value().to_vector<double>(), out(static_cast<std::size_t>(shape[0]), 0);
  for (std::size_t k = 0; k < all.size(); ++k) out[k / static_cast<std::size_t>(shape[1])] -= all[k];
  return out;
}

}  // namespace fovea
