#include "experiments/support/models/sequence_testing.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "autograd/operations.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/metrics/attention_spread.h"
#include "experiments/support/metrics/statistics.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/progress.h"
#include "experiments/support/program/terminal.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/shared_work.h"
#include "experiments/support/training/training.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace {

/// The first `length` tokens as words: long texts have padding even alone.
std::vector<std::string> words_of(const std::vector<std::int32_t>& tokens, std::int32_t length,
                                  const Tokenizer& tokenizer) {
  std::vector<std::string> words;
  for (std::int32_t k = 0; k < length; ++k) words.push_back(tokenizer.token(tokens[std::size_t(k)]));
  return words;
}

}  // namespace

ShownPair shown_pair(const EncodedPairs& pairs, const PairTokenizers& tokenizers, std::size_t k, bool has_source) {
  BatchOptions alone;
  alone.length_multiple = 1;
  PairBatch pair = fill({pairs.lengths[k], {std::int64_t(k)}}, pairs, alone);
  ShownPair shown;
  shown.text = tokenizers.target->decode(pairs.target[k]);
  shown.batch = pair.read(has_source);
  if (has_source) {
    shown.source = words_of(pair.source, pair.source_lengths[0], *tokenizers.source);
    shown.text = tokenizers.source->decode(pairs.source[k]) + " → " + shown.text;
  }
  shown.input = words_of(pair.target_in, pair.target_lengths[0], *tokenizers.target);
  shown.output = words_of(pair.target_out, pair.target_lengths[0], *tokenizers.target);
  return shown;
}

namespace {

/// ", layer 2" for the trace "1.cross"; "" for a model's only attention.
std::string layer_of(const AttentionTrace& trace) {
  const std::optional<int> layer = leading_number<int>(trace.name);
  return layer ? fmt::format(", layer {}", *layer + 1) : "";
}

/// Pictures of one attention of each place that the model has.
std::vector<Figure> pictures_of(SequenceModel& model, const ShownPair& pair) {
  NoGrad off;
  SequenceTrace trace;
  model.logits(pair.batch, &trace);
  std::vector<Figure> pictures;
  auto add = [&](Place place, const char* name, const auto& queries, const auto& keys) {
    std::vector<const AttentionTrace*> traces;
    for (const AttentionTrace& one : place == Place::encoder ? trace.encoder : trace.decoder)
      if (one.place == place) traces.push_back(&one);
    const std::size_t shown = place == Place::cross ? traces.size() - 1 : 0;  // the source's is nearest to the output
    for (const AttentionTrace* one : attentions_to_show(traces, shown))
      for (Figure& figure : pictures_of(*one, name + layer_of(*one), queries, keys))
        pictures.push_back(std::move(figure));
  };
  add(Place::cross, "over the source", pair.output, pair.source);
  add(Place::encoder, "encoder", pair.source, pair.source);
  add(Place::decoder, "decoder", pair.input, pair.input);
  return pictures;
}

/// Pictures of two pairs of a test set under teacher forcing. Each pair has one attention of each kind that the model
/// has: over the source, in the encoder, in the decoder. `tested` has the results of the pairs.
std::vector<ShownSentence> attention_pictures(SequenceModel& model, const PairSet& set, const TestResult& tested,
                                              const PairTokenizers& tokenizers) {
  constexpr std::size_t sentences = 2, longest = 300;
  model.train(false);
  std::vector<ShownSentence> shown;
  for (std::size_t k : examples_to_show(tested.examples, set.pairs.lengths, sentences)) {
    const ShownPair pair = shown_pair(set.pairs, tokenizers, k, model.has_source());
    shown.push_back({shortened(pair.text, longest), pictures_of(model, pair)});
  }
  return shown;
}

}  // namespace

std::vector<Likelihood> likelihoods(SequenceModel& model, const EncodedPairs& pairs, const BatchOptions& batches,
                                    const std::function<void(std::int64_t sentences)>& progress) {
  const NoGrad off;
  model.train(false);
  auto likelihoods_of = [&](const PlannedBatch& plan) {
    const PairBatch batch = fill(plan, pairs, batches);
    Variable logits = model.logits(batch.read(model.has_source()));
    const std::int64_t tokens = batch.rows * batch.target_length;
    const Tensor targets = batch.targets().to(logits.device()).reshape({tokens});
    Variable each = cross_entropy(reshape(logits, {tokens, model.vocabulary()}), targets, {.ignored = pad_id});
    std::vector<double> nll = each.value().to_vector<double>();
    std::vector<Likelihood> sentences(batch.indices.size());
    for (std::size_t row = 0; row < sentences.size(); ++row) {
      auto first = nll.begin() + std::ptrdiff_t(row) * batch.target_length;
      sentences[row].tokens = batch.target_lengths[row];
      sentences[row].negative_log = std::accumulate(first, first + sentences[row].tokens, 0.0);
    }
    if (progress) progress(batch.rows);
    return sentences;
  };
  return for_examples<Likelihood>(std::ssize(pairs.lengths), evaluation_batches(pairs.lengths, batches),
                                  likelihoods_of);
}

namespace {

std::vector<TestedExample> examples_of(const PairSet& set, const std::vector<std::string>& hypotheses) {
  std::vector<TestedExample> examples;
  for (std::size_t k = 0; k < set.texts.size(); ++k)
    examples.push_back({.input = set.texts[k].source,
                        .reference = set.texts[k].target,
                        .hypothesis = hypotheses.empty() ? "" : hypotheses[k],
                        .more_references = set.texts[k].more_targets});
  return examples;
}

}  // namespace

std::vector<DevScore> development_scores(SequenceModel& model, const PairData& data, const SequenceOptions& options) {
  const Likelihood dev = total(likelihoods(model, data.dev.pairs, options.batches));
  const DevScore perplexity{"perplexity", token_perplexity(dev), false};
  if (options.selects_by_loss()) return {perplexity};
  BeamFlags greedy = options.beam;
  greedy.beam.beam = 1;
  const std::vector<std::string> texts = best_texts(decode(model, data.dev.pairs, data.tokenizers, greedy));
  TestResult test{.examples = examples_of(data.dev, texts), .metrics = {options.select}};
  test.options.tokenization = options.tokenization;
  for (const std::string& metric : options.metric_names())
    if (metric != options.select) test.metrics.push_back(metric);
  std::vector<DevScore> scores = dev_scores_of(test);
  scores.push_back(perplexity);
  return scores;
}

namespace {

/// A progress function that throws Interrupted after Ctrl-C. Called after every batch.
SentenceProgress stopping_when_interrupted(const std::string& when_stopped) {
  return [&when_stopped](std::int64_t) {
    if (interrupted()) throw Interrupted(when_stopped);
  };
}

/// The examples of blocks of lines, from those of the lines: </s> lies between the lines of a block and, perhaps,
/// behind them.
std::vector<TestedExample> joined_lines(const std::vector<TestedExample>& lines, const TokenStore& blocks) {
  std::vector<TestedExample> joined(blocks.size());
  std::size_t line = 0;
  for (std::size_t k = 0; k < joined.size(); ++k) {
    const std::span<const std::int32_t> tokens = blocks[k];
    auto count = std::ranges::count(tokens, end_id) + (tokens.empty() || tokens.back() != end_id);
    for (; count > 0 && line < lines.size(); --count, ++line) {
      joined[k].reference += (joined[k].reference.empty() ? "" : " ") + lines[line].reference;
      joined[k].likelihood += lines[line].likelihood;
    }
  }
  return joined;
}

/// Adds the likelihoods to the examples. If a language model's texts are blocks of several lines (--block), the
/// examples become blocks.
void add_likelihoods(TestResult& test, SequenceModel& model, const PairSet& set, const SequenceOptions& options,
                     const SentenceProgress& stopping) {
  const std::vector<Likelihood> sentences = likelihoods(model, set.pairs, options.batches, stopping);
  const std::span<const std::int64_t> lengths = set.pairs.target.lengths();
  const std::int64_t cut = options.data.text.max_length;
  const bool is_whole = cut == 0 || *std::ranges::max_element(lengths) < cut;
  if (is_whole)
    for (TestedExample& example : test.examples) example.likelihood = units_of_line(example.reference);
  if (sentences.size() != test.examples.size()) test.examples = joined_lines(test.examples, set.pairs.target);
  for (std::size_t k = 0; k < sentences.size(); ++k) test.examples[k].likelihood += sentences[k];
}

void add_hypotheses(TestResult& test, SequenceModel& model, const PairSet& set, const PairTokenizers& tokenizers,
                    const SequenceOptions& options, const SentenceProgress& stopping) {
  Progress::Options shown;
  shown.unit = "sentences";
  Progress progress("decoding " + set.name, std::int64_t(set.pairs.size()), shown);
  const SpentTime before = SpentTime::until_now();
  const auto decoded = decode(model, set.pairs, tokenizers, options.beam, [&](std::int64_t count) {
    progress.advance(count);
    stopping(count);
  });
  test.decoding = of_all_processes(SpentTime::until_now() - before);
  progress.finish();
  const std::vector<std::string> texts = best_texts(decoded);
  for (std::size_t k = 0; k < texts.size(); ++k) test.examples[k].hypothesis = texts[k];
}

std::optional<double> error_of_alignments(SequenceModel& model, const PairSet& set, const PairTokenizers& tokenizers,
                                          BeamFlags flags, const SentenceProgress& stopping) {
  const std::vector<GoldAlignment> gold = gold_alignments(set.texts);
  if (gold.empty()) return {};
  flags.beam.alignments = true;
  std::vector<Hypothesis> forced = force(model, set.pairs, flags, stopping);
  std::vector<std::set<Link>> links;
  for (std::size_t k = 0; k < gold.size(); ++k) {
    const TextPair& pair = set.texts[k];
    links.push_back(word_links(forced[k].alignment, words_of_tokens(*tokenizers.source, pair.source),
                               words_of_tokens(*tokenizers.target, pair.target)));
  }
  return alignment_error(links, gold).value();
}

std::vector<std::int64_t> whole_numbers(const std::vector<std::int32_t>& x) { return {x.begin(), x.end()}; }

/// The attentions of the encoder and of the decoder, in the order of their layers.
std::vector<const AttentionTrace*> attentions_of(const SequenceTrace& trace) {
  std::vector<const AttentionTrace*> all;
  for (const AttentionTrace& one : trace.encoder) all.push_back(&one);
  for (const AttentionTrace& one : trace.decoder) all.push_back(&one);
  return all;
}

/// The percentages of all attentions near the query's own position, or, over the source, near its peak, for each
/// sentence of a batch: attention, distance, sentence.
std::vector<double> shares_of(const SequenceTrace& trace, const PairBatch& batch, const std::vector<int>& distances) {
  const auto sources = whole_numbers(batch.source_lengths), targets = whole_numbers(batch.target_lengths);
  std::vector<double> all;
  for (const AttentionTrace* attention : attentions_of(trace)) {
    // [B, H, I, J]; weights of each dimension, [B, H, I, J, D], are averaged over the dimensions
    const Variable& weights = attention->weights;
    const Tensor of_pairs = weights.rank() == 5 ? mean(weights, {4}).value() : weights.value();
    for (int distance : distances) {
      const std::vector<double> percents =
          looks_at_source(*attention)
              ? attention_near_peak(of_pairs, targets, sources, distance)
              : attention_within(of_pairs, attention->place == Place::encoder ? sources : targets, distance);
      all.insert(all.end(), percents.begin(), percents.end());
    }
  }
  return all;
}

/// Adds the mean percentages of each attention over the sentences, under teacher forcing, and the means of each place:
/// encoder % within 1, decoder % within 1, ...
void add_attention_shares(TestResult& test, SequenceModel& model, const PairSet& set, const SequenceOptions& options,
                          const SentenceProgress& stopping) {
  const NoGrad off;
  model.train(false);
  const std::vector<PlannedBatch> plans = evaluation_batches(set.pairs.lengths, options.batches);
  auto trace_of = [&](const PairBatch& batch) {
    SequenceTrace trace;
    model.logits(batch.read(model.has_source()), &trace);
    return trace;
  };
  const auto of_batches = shared_out<std::vector<double>>(std::ssize(plans), [&](std::int64_t k) {
    const PairBatch batch = fill(plans[std::size_t(k)], set.pairs, options.batches);
    stopping(batch.rows);
    return shares_of(trace_of(batch), batch, options.spread);
  });
  const SequenceTrace first = trace_of(fill(plans.front(), set.pairs, options.batches));
  std::map<Place, std::vector<std::vector<double>>> by_place;  // for each distance the means of the attentions
  std::vector<std::size_t> read(plans.size(), 0);              // numbers of each batch that were added
  for (const AttentionTrace* attention : attentions_of(first)) {
    const std::string name = (attention->place == Place::encoder ? "encoder." : "decoder.") + attention->name;
    auto& means = by_place.try_emplace(attention->place, options.spread.size()).first->second;
    for (std::size_t d = 0; d < options.spread.size(); ++d) {
      double sum = 0;
      for (std::size_t k = 0; k < plans.size(); ++k)
        for (std::size_t row = 0; row < plans[k].examples.size(); ++row) sum += of_batches[k][read[k]++];
      means[d].push_back(sum / double(set.pairs.size()));
      test.attention_within[name][options.spread[d]] = means[d].back();
    }
  }
  for (const auto& [place, name] :
       {std::pair(Place::encoder, "encoder"), {Place::decoder, "decoder"}, {Place::cross, "cross"}})
    for (std::size_t d = 0; by_place.contains(place) && d < options.spread.size(); ++d)
      test.measurements.push_back(
          {fmt::format("{} % within {}", name, options.spread[d]), mean(by_place[place][d]), 1});
}

}  // namespace

TestResult test_model(SequenceModel& model, const PairSet& set, const PairTokenizers& tokenizers,
                      const SequenceOptions& options, const std::string& when_stopped) {
  InterruptGuard guard("stopping soon (Ctrl-C again ends at once)");
  const SentenceProgress stopping = stopping_when_interrupted(when_stopped);
  TestResult test{.set = set.name, .examples = examples_of(set, {}), .metrics = options.metric_names()};
  test.options.tokenization = options.tokenization;
  test.metrics.emplace_back("perplexity");
  add_likelihoods(test, model, set, options, stopping);
  if (!options.decodes()) {
    test.metrics.insert(test.metrics.end(), {"word-perplexity", "bits-per-character"});
  } else {
    add_hypotheses(test, model, set, tokenizers, options, stopping);
    if (auto rate = error_of_alignments(model, set, tokenizers, options.beam, stopping))
      test.measurements.push_back({"AER", *rate, 3});
    // global attention's window is the whole source
    const std::span<const std::int64_t> lengths = set.pairs.source.lengths();
    test.source_length = mean(std::vector<double>(lengths.begin(), lengths.end()));
    if (has_source_windows(model)) {
      const SourceSpan span = source_span(model, set.pairs, options.beam, false, stopping);
      test.measurements.push_back({"window", span.average, 1});
      if (span.gate) test.measurements.push_back({"gate", *span.gate, 3});
      test.pooled_window = span.pooled;
    }
  }
  if (!options.spread.empty()) add_attention_shares(test, model, set, options, stopping);
  if (interrupted_anywhere()) stopping(0);
  return test;
}

namespace {

/// Writes hypotheses.txt and references.txt for `score`. With several test sets, the names contain that of the set.
void write_texts(const RunDirectory& directory, const std::vector<TestResult>& tests) {
  for (const TestResult& test : tests) {
    std::string hypotheses, references;
    for (const TestedExample& example : test.examples) {
      hypotheses += example.hypothesis + "\n";
      references += example.reference + "\n";
    }
    const std::string ending = tests.size() > 1 ? "." + file_name_for(test.set) + ".txt" : ".txt";
    write_file_atomically(directory.file("hypotheses" + ending), hypotheses);
    write_file_atomically(directory.file("references" + ending), references);
  }
}

}  // namespace

RunResult test_model(SequenceModel& model, const PairData& data, const SequenceOptions& options, const Run& run) {
  RunResult result{.parameters = model.parameter_count()};
  const std::string when_stopped =
      run.resume.empty() ? "stopped"
                         : fmt::format("stopped during the test; --resume {} tests again", run.resume.string());
  for (const PairSet& set : data.tests)
    result.tests.push_back(test_model(model, set, data.tokenizers, options, when_stopped));
  if (!run.directory) return result;
  if (options.decodes()) write_texts(*run.directory, result.tests);
  save_pictures(run.directory->path(),
                attention_pictures(model, data.tests.front(), result.tests.front(), data.tokenizers));
  return result;
}

}  // namespace fovea
