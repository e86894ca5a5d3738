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
  /// Source token ids, i32 [B, J], and their lengths, i32 [B]; both undefined for a language model.
  Tensor source = {}, lengths = {};
  /// The tokens that must follow <s>, one vector per sentence. A prefix that ends in </s> determines the whole
  /// sentence; one with </s> before its end is refused. If `prefixes` is empty, no sentence has a prefix. For a
  /// language model, the number of prefixes determines the number of sentences.
  std::vector<std::vector<std::int32_t>> prefixes = {};
};

/// Options that beam search, sampling and forced decoding share.
struct DecodingOptions {
  std::int32_t begin = 2, end = 3;           ///< token ids of <s> and </s>
  std::vector<std::int32_t> never = {0, 2};  ///< tokens that never occur in a hypothesis: <pad> and <s>
  std::int64_t min_length = 0;               ///< smallest number of tokens before </s>
  std::int64_t max_length = 200;             ///< largest number of tokens before </s>
  /// If > 0, the largest number of tokens before </s> is also at most max(10, max_per_source_token · source length).
  double max_per_source_token = 0;
  int no_repeat = 0;        ///< if n > 0, no n-gram occurs twice in a hypothesis (3: trigram blocking); 0 turns it off
  bool alignments = false;  ///< whether to fill Hypothesis::alignment
  /// If set, called after each step with the traces of the decoder's attentions, which have one row per unfinished
  /// hypothesis, and with the index of the sentence of each of these hypotheses.
  std::function<void(const std::vector<AttentionTrace>& traces, std::span<const std::size_t> sentences)> observe = {};
  /// If set, called before each step of the model. It may throw, to stop the decoding: the exception reaches the
  /// caller, and the model is as before the call.
  std::function<void()> on_step = {};
};

struct BeamOptions : DecodingOptions {
  int beam = 5;  ///< number of hypotheses kept per sentence and step; 1 is greedy decoding
  int best = 1;  ///< number of hypotheses returned per sentence, at most `beam`
  /// Exponent α in the score of a finished hypothesis, log p / length^α. The length includes </s> if count_end is true.
  double length_penalty = 1;
  bool count_end = true;   ///< whether the length in the score includes </s>; not so in Shu & Nakayama 2017
  bool shrinking = false;  ///< whether the beam shrinks by one with each finished hypothesis (Shu & Nakayama 2017)
};

struct SamplingOptions : DecodingOptions {
  double temperature = 1;  ///< the logits are divided by this number; > 0
  std::int64_t top_k = 0;  ///< if > 0, draw from the top_k most probable tokens (Fan et al. 2018); 0: from all tokens
  /// If < 1, draw from the smallest set of most probable tokens whose probabilities sum to at least top_p (Holtzman et
  /// al. 2020).
  double top_p = 1;
  std::uint64_t seed = 1;
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  ///< without <s> and </s>
  double log_probability = 0;        ///< sum of log p of the tokens and of </s>
  double score = 0;                  ///< the larger, the better; see BeamOptions::length_penalty
  /// For each token, and then for </s>: the weights of the decoder's last cross-attention, averaged over heads, one
  /// number per source token. Empty unless DecodingOptions::alignments is true.
  std::vector<std::vector<float>> alignment = {};
};

/// Returns the best finished hypotheses of each sentence, options.best at most, best first.
///
/// A continuation is an unfinished ("live") hypothesis with one more token. Each step considers the 2 · beam best
/// continuations of a sentence. Those among the best `beam` continuations that end in </s> become finished hypotheses.
/// The best `beam` continuations that do not end in </s> are the live hypotheses of the next step. The search for a
/// sentence ends when `beam` hypotheses are finished and the worst hypothesis to be returned scores at least as high as
/// every live hypothesis does with its present log p and length. (To stop at `beam` finished hypotheses in any case
/// would lose good ones: a confident model finishes bad hypotheses before the good one ends.) With `shrinking`, the
/// search ends when `beam` hypotheses are finished. If no hypothesis can end, because logits are NaN or all tokens are
/// excluded, the result is one empty hypothesis with score −inf. Throws Error for a beam below 1, a `best` outside
/// 1 … beam, or a length penalty that is not finite.
std::vector<std::vector<Hypothesis>> beam_search(SequenceModel& model, const DecodingBatch& batch,
                                                 const BeamOptions& options);

/// Returns one hypothesis per sentence, drawn token by token. The random numbers depend only on the seed, the index of
/// the sentence in the batch and the step. The score is the log-probability under the model, without temperature, top_k
/// and top_p. Throws Error unless the temperature and top_p are above 0, and top_k is not negative.
std::vector<Hypothesis> sample(SequenceModel& model, const DecodingBatch& batch, const SamplingOptions& options);

/// Forced decoding: computes the log-probability of given sentences, step by step as in beam search. batch.prefixes are
/// the whole sentences, without </s>. Returns one hypothesis per sentence, whose score is its log-probability. The
/// limits on the length in `options` do not apply. Throws Error unless each sentence has a prefix, without </s>.
std::vector<Hypothesis> force(SequenceModel& model, const DecodingBatch& batch, DecodingOptions options = {});

/// A batch for teacher forcing: the model's input, and the tokens it should predict.
struct TeacherForcingBatch {
  SequenceBatch batch;
  Tensor targets;  ///< the tokens of each sentence and </s>, padded with 0, i32 [B, T]
};
/// Makes a padded batch of sentences. `targets` are without <s> and </s>, which this function adds; `sources` are used
/// as they are. `sources` is empty for a language model; otherwise it has one sentence per target. Throws
/// Error for another number.
TeacherForcingBatch teacher_forcing_batch(std::span<const std::vector<std::int32_t>> sources,
                                          std::span<const std::vector<std::int32_t>> targets, std::int32_t begin = 2,
                                          std::int32_t end = 3);
struct PaddedTokens {
  Tensor tokens;   ///< token ids, i32 [B, T], padded on the right with 0
  Tensor lengths;  ///< number of tokens of each sentence, i32 [B]
};
/// Copies sentences of different lengths into one tensor. T is the length of the longest sentence.
PaddedTokens padded_tokens(std::span<const std::vector<std::int32_t>> sentences);

}  // namespace fovea
