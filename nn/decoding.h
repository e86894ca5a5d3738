/// Decoding with sequence models: beam search (greedy with a beam of 1), forced decoding and sampling. All are batched
/// over sentences and their hypotheses. The result for a sentence does not depend on the other sentences of its batch.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/sequence_model.h"

namespace fovea {

/// The input of decoding: sources, and the tokens that each sentence must begin with.
struct DecodingBatch {
  Tensor source = {}, lengths = {};  ///< i32 [B, J] and [B]; undefined for a language model
  /// For each sentence the tokens that follow <s>. A prefix that ends in </s> determines the whole sentence. Empty: no
  /// sentence has a prefix. For a language model the number of prefixes is the number of sentences.
  std::vector<std::vector<std::int32_t>> prefixes = {};
};

/// Options of all kinds of decoding.
struct DecodingOptions {
  std::int32_t begin = 2, end = 3;           ///< <s> and </s>
  std::vector<std::int32_t> never = {0, 2};  ///< tokens that never occur in a hypothesis: <pad> and <s>
  std::int64_t min_length = 0;               ///< smallest number of tokens before </s>
  std::int64_t max_length = 200;             ///< largest number of tokens before </s>
  double max_per_source_token =
      0;                    ///< > 0: max_length is at most this times the source's length, or 10 if that is less
  int no_repeat = 0;        ///< n > 0: no n-gram occurs twice in a hypothesis (trigram blocking: 3)
  bool alignments = false;  ///< fill Hypothesis::alignment
  /// Called after each step with the traces of the decoder's attentions, whose rows are live hypotheses, and with the
  /// number of each hypothesis's sentence.
  std::function<void(const std::vector<AttentionTrace>& traces, std::span<const std::size_t> sentences)> observe = {};
};

struct BeamOptions : DecodingOptions {
  int beam = 5;  ///< 1: greedy
  int best = 1;  ///< number of hypotheses returned per sentence, at most `beam`
  /// α: the score of a finished hypothesis is log p / length^α. The length counts </s>, unless count_end is false.
  double length_penalty = 1;
  bool count_end = true;   ///< false: the length does not count </s>, as in Shu & Nakayama 2017
  bool shrinking = false;  ///< the beam shrinks by one with each finished hypothesis, as in Shu & Nakayama 2017
};

struct SamplingOptions : DecodingOptions {
  double temperature = 1;  ///< > 0, divides the logits
  std::int64_t top_k = 0;  ///< > 0: draw from the k most probable tokens (Fan et al. 2018); 0: from all
  double top_p = 1;        ///< < 1: draw from the fewest tokens whose probabilities sum to top_p (Holtzman et al. 2020)
  std::uint64_t seed = 1;
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  ///< without <s> and </s>
  double log_probability = 0;        ///< Σ log p of the tokens and of </s>
  double score = 0;                  ///< the larger, the better; see BeamOptions::length_penalty
  /// For each token and for </s> the weights of the last cross-attention, averaged over heads: one number per source
  /// token. Empty unless DecodingOptions::alignments.
  std::vector<std::vector<float>> alignment = {};
};

/// The best hypotheses of each sentence, best first.
///
/// In each step the 2 · beam best continuations of a sentence are considered. Among the first `beam` of them, those
/// that end in </s> are finished. The best `beam` of the others stay alive. A sentence is done when `beam` hypotheses
/// are finished and no live hypothesis would, with its present log p and length, have a better score than the worst
/// that would be returned. (Stopping at `beam` finished hypotheses would not do: a confident model finishes bad
/// hypotheses before the good one ends.) If no hypothesis can end, because logits are NaN or all tokens are excluded,
/// the result is one empty hypothesis with score −inf. Throws Error for a beam below 1 or a `best` outside 1 … beam.
std::vector<std::vector<Hypothesis>> beam_search(SequenceModel& model, const DecodingBatch& batch,
                                                 const BeamOptions& options);

/// One hypothesis per sentence, drawn token by token. The draws depend on the seed, the sentence's number and the model
/// only. The score is the log-probability under the model, without temperature, top_k and top_p.
std::vector<Hypothesis> sample(SequenceModel& model, const DecodingBatch& batch, const SamplingOptions& options);

/// Forced decoding: the log-probability of given sentences, computed step by step as in beam search. batch.prefixes are
/// the whole sentences, without </s>. Returns one hypothesis per sentence, whose score is its log-probability. Limits
/// of the length do not apply.
std::vector<Hypothesis> force(SequenceModel& model, const DecodingBatch& batch, DecodingOptions options = {});

/// A batch for teacher forcing: the model's input, and the tokens it should predict.
struct TeacherForcingBatch {
  SequenceBatch batch;
  Tensor targets;  ///< i32 [B, T]: each sentence's tokens and </s>, padded with 0
};
/// Sentences without <s> and </s>. `sources` is empty for a language model; otherwise there is one per target.
TeacherForcingBatch teacher_forcing_batch(std::span<const std::vector<std::int32_t>> sources,
                                          std::span<const std::vector<std::int32_t>> targets, std::int32_t begin = 2,
                                          std::int32_t end = 3);
struct PaddedTokens {
  Tensor tokens;   ///< i32 [B, T], padded on the right with 0
  Tensor lengths;  ///< i32 [B]
};
/// Sentences of different lengths as one tensor. T is the length of the longest.
PaddedTokens padded_tokens(std::span<const std::vector<std::int32_t>> sentences);

/// For each sentence the sum of log p over its targets, by teacher forcing, without gradients and dropout.
std::vector<double> log_probabilities(SequenceModel& model, const TeacherForcingBatch& batch);

}  // namespace fovea
