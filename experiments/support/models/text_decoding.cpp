#include "experiments/support/models/text_decoding.h"

#include <algorithm>

#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/training/shared_work.h"

namespace fovea {

void BeamFlags::add_to(Cli& cli) {
  cli.option("--beam", beam.beam, "hypotheses kept for each sentence; 1: greedy").range(1, 1000);
  cli.rare("--length-penalty", beam.length_penalty,
           "exponent of the length; hypotheses are compared by log p / length^this")
      .range(0, 10);
  cli.rare("--min-length", beam.min_length, "fewest tokens of a text").range(0, 1e6);
  cli.rare("--longest", beam.max_length, "most tokens of a text").range(1, 1e6);
  cli.rare("--longest-ratio", beam.max_per_source_token,
           "most tokens of a text for each token of its source; 0: any number")
      .range(0, 1000);
  cli.rare("--no-repeat", beam.no_repeat,
           "n-gram blocking; no n tokens in a row occur twice in a hypothesis (3: trigram blocking); 0 turns it off")
      .range(0, 100);
  cli.rare("--decode-tokens", batch_tokens, "source tokens that are decoded together, for each hypothesis")
      .range(1, 1e9)
      .unsaved();
  cli.rare("--decode-sentences", batch_sentences,
           "sentences that are decoded together; 0: as many as --decode-tokens allows")
      .range(0, 1e6)
      .unsaved();
}

namespace {

constexpr std::int64_t decoded_length_multiple = 1;

/// The target of each row, without <s> and </s>.
std::vector<std::vector<std::int32_t>> targets_of(const PairBatch& batch) {
  std::vector<std::vector<std::int32_t>> targets;
  for (std::int64_t row = 0; row < batch.rows; ++row) {
    auto first = batch.target_out.begin() + std::ptrdiff_t(row * batch.target_length);
    targets.emplace_back(first, first + batch.target_lengths[std::size_t(row)] - 1);
  }
  return targets;
}

/// Returns the result of each pair, in the order of the pairs. work(batch, sources, options of the search) computes
/// those of one batch of similar lengths; with `forced`, sources.prefixes are the pairs' targets. After Ctrl-C the next
/// step of a search ends with Interrupted: the one that progress(0) throws, or else "stopped while decoding".
template <class Result, class Work>
std::vector<Result> for_sources(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags, bool forced,
                                const SentenceProgress& progress, const Work& work) {
  const NoGrad off;
  model.train(false);
  BatchOptions batches{.tokens = flags.batch_tokens,
                       .sentences = flags.batch_sentences,
                       .length_multiple = decoded_length_multiple,
                       .accumulate = 1};
  for (std::int64_t length : pairs.source.lengths()) batches.tokens = std::max(batches.tokens, length);
  BeamOptions beam = flags.beam;
  beam.on_step = [&progress] {
    if (!interrupted()) return;
    if (progress) progress(0);
    throw Interrupted("stopped while decoding");
  };
  const std::vector<PlannedBatch> plans = evaluation_batches(pairs.source.lengths(), batches);
  return for_examples<Result>(std::ssize(pairs.lengths), plans, [&](const PlannedBatch& plan) {
    const PairBatch batch = fill(plan, pairs, batches);
    DecodingBatch sources{batch.source_tensor(), batch.source_length_tensor()};
    if (forced) sources.prefixes = targets_of(batch);
    std::vector<Result> results = work(batch, sources, beam);
    if (progress) progress(batch.rows);
    return results;
  });
}

}  // namespace

std::int64_t decoded_length(std::int64_t tokens) {
  return padded_length(tokens, {.length_multiple = decoded_length_multiple});
}

std::vector<DecodedText> decode(SequenceModel& model, const EncodedPairs& pairs, const PairTokenizers& tokenizers,
                                const BeamFlags& flags, const SentenceProgress& progress) {
  auto all = for_sources<std::vector<Hypothesis>>(
      model, pairs, flags, false, progress,
      [&](auto&, const DecodingBatch& sources, const BeamOptions& beam) { return beam_search(model, sources, beam); });
  std::vector<DecodedText> decoded;
  for (std::vector<Hypothesis>& found : all) {
    DecodedText& text = decoded.emplace_back();
    for (const Hypothesis& hypothesis : found) text.texts.push_back(tokenizers.target->decode(hypothesis.tokens));
    text.hypotheses = std::move(found);
  }
  return decoded;
}

std::vector<std::string> best_texts(const std::vector<DecodedText>& decoded) {
  std::vector<std::string> texts;
  for (const DecodedText& one : decoded) texts.push_back(one.texts.front());
  return texts;
}

std::vector<Hypothesis> force(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags,
                              const SentenceProgress& progress) {
  return for_sources<Hypothesis>(
      model, pairs, flags, true, progress,
      [&](auto&, const DecodingBatch& sources, const BeamOptions& beam) { return force(model, sources, beam); });
}

namespace {

/// Whether a quantity is a window: "range", or that of one head, "head_2.range".
bool is_range(const TracedQuantity& quantity) { return quantity.name == "range" || quantity.name.ends_with(".range"); }

/// The keys that a head may look at.
struct Window {
  double first, end;
  void narrow(double other_first, double other_last) {
    first = std::max(first, other_first);
    end = std::min(end, other_last + 1);
  }
  double size() const { return std::max(0.0, end - first); }
};

/// The number of keys that each row of a step's attention [R, H, 1, J] scored, averaged over heads. Several windows of
/// a head intersect; heads without one score every key.
std::vector<double> scored_keys(const AttentionTrace& trace, const std::vector<double>& source_lengths) {
  const auto H = std::size_t(trace.weights.size(1)), R = source_lengths.size();
  std::vector<std::vector<Window>> windows;  // [R, H]
  for (double length : source_lengths) windows.emplace_back(H, Window{0, length});
  for (const TracedQuantity& quantity : trace.quantities) {
    if (!is_range(quantity)) continue;
    const std::vector<double> bounds = quantity.value.value().to_vector<double>();  // [R or 1, n, 1, 2]
    const auto n = std::size_t(quantity.value.size(1)), first = std::size_t(quantity.first_head);
    for (std::size_t row = 0; row < R; ++row)
      for (std::size_t h = 0; h < std::size_t(quantity.heads); ++h) {
        const double* bound = bounds.data() + 2 * ((quantity.value.size(0) == 1 ? 0 : row) * n + h % n);
        windows[row][first + h].narrow(bound[0], bound[1]);
      }
  }
  std::vector<double> spans;
  for (const std::vector<Window>& of_row : windows) {
    double total = 0;
    for (const Window& window : of_row) total += window.size();
    spans.push_back(total / double(H));
  }
  return spans;
}

/// The mean of scored_keys() over the attentions over the source.
std::vector<double> scored_positions(const std::vector<AttentionTrace>& traces, const std::vector<double>& lengths) {
  std::vector<double> mean_spans(lengths.size(), 0);
  const auto count = double(std::ranges::count_if(traces, looks_at_source));
  for (const AttentionTrace& trace : traces) {
    if (!looks_at_source(trace)) continue;
    std::vector<double> spans = scored_keys(trace, lengths);
    for (std::size_t row = 0; row < spans.size(); ++row) mean_spans[row] += spans[row] / count;
  }
  return mean_spans;
}

void add_gates(std::vector<double>& gates, const std::vector<AttentionTrace>& traces) {
  for (const AttentionTrace& trace : traces)
    for (const TracedQuantity& quantity : trace.quantities) {
      const bool is_gate = quantity.name == "gate" || quantity.name.ends_with(".gate");
      if (!looks_at_source(trace) || !is_gate) continue;
      const std::vector<double> values = quantity.value.value().to_vector<double>();  // [R, H, 1]
      gates.insert(gates.end(), values.begin(), values.end());
    }
}

}  // namespace

bool has_source_windows(SequenceModel& model) {
  if (!model.has_source()) return false;
  NoGrad off;
  bool found = false;
  BeamOptions options;
  options.beam = 1;
  options.max_length = 0;
  options.observe = [&](const std::vector<AttentionTrace>& traces, std::span<const std::size_t>) {
    for (const AttentionTrace& trace : traces)
      found |= looks_at_source(trace) && std::ranges::any_of(trace.quantities, is_range);
  };
  const std::vector<std::int32_t> end{options.end};
  beam_search(model, {Tensor::from(end, {1, 1}), Tensor::from(std::vector<std::int32_t>{1}, {1})}, options);
  return found;
}

SourceSpan source_span(SequenceModel& model, const EncodedPairs& pairs, const BeamFlags& flags, bool forced,
                       const SentenceProgress& progress) {
  using Spans = std::vector<StepSpans>;
  using Gates = std::vector<double>;  // of a whole batch, beside the spans of its first sentence
  auto observed_search = [&](const PairBatch& batch, const DecodingBatch& sources, BeamOptions beam) {
    std::vector<std::pair<Spans, Gates>> found(batch.indices.size());
    std::size_t step = 0;
    beam.observe = [&](const std::vector<AttentionTrace>& traces, std::span<const std::size_t> sentences) {
      std::vector<double> lengths;
      for (std::size_t sentence : sentences) lengths.push_back(batch.source_lengths[sentence]);
      add_gates(found.front().second, traces);
      std::vector<double> scored = scored_positions(traces, lengths);
      for (std::size_t row = 0; row < scored.size(); ++row) {
        Spans& own = found[sentences[row]].first;
        own.resize(step + 1);  // no step of a sentence is missing before its last
        own[step].push_back(scored[row]);
      }
      ++step;
    };
    if (forced)
      force(model, sources, beam);
    else
      beam_search(model, sources, beam);
    return found;
  };
  std::vector<Spans> spans;
  Gates gates;
  for (auto& [own_spans, own_gates] :
       for_sources<std::pair<Spans, Gates>>(model, pairs, flags, forced, progress, observed_search)) {
    spans.push_back(std::move(own_spans));
    gates.insert(gates.end(), own_gates.begin(), own_gates.end());
  }
  return {vision_span(spans), gates.empty() ? std::nullopt : std::optional<double>(mean(gates))};
}

}  // namespace fovea
