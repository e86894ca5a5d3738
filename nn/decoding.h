/// Finding what a sequence model says: beam search (and with a beam of 1 greedy decoding), forced decoding, sampling.
/// Batched over sentences and their hypotheses; what comes out of a sentence does not depend on its company.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/sequence_model.h"

namespace fovea {

/// What decoding begins with: sources, and for each sentence tokens that it must begin with.
struct DecodingBatch {
  Tensor source = {}, lengths = {};  ///< i32 [B, J] and [B]; undefined for a language model
  /// Of each sentence, after <s>; may end in </s>: the whole is forced then. Empty: none for any. A language model has
  /// as many sentences as there are prefixes.
  std::vector<std::vector<std::int32_t>> prefixes = {};
};

/// What every way of decoding knows.
struct DecodingOptions {
  std::int32_t begin = 2, end = 3;           ///< <s> and </s>
  std::vector<std::int32_t> never = {0, 2};  ///< tokens that no hypothesis has: <pad> and <s>
  std::int64_t min_length = 0;               ///< tokens before there may be </s>
  std::int64_t max_length = 200;             ///< tokens after which there must be </s>
  double max_per_source_token = 0;           ///< > 0: as many tokens for each of the source's, but 10 at least
  int no_repeat = 0;                         ///< n > 0: no n tokens in a row occur twice
  bool alignments = false;                   ///< fill Hypothesis::alignment
  /// Hears after each step what every attention of the decoder computed for the hypotheses that live, and of which
  /// sentence each of them is.
  std::function<void(const std::vector<AttentionTrace>& traces, std::span<const std::size_t> sentences)> observe = {};
};

struct BeamOptions : DecodingOptions {
  int beam = 5;  ///< 1: greedy
  int best = 1;  ///< hypotheses that are returned for each sentence, at most `beam`
  /// α: the score of a finished hypothesis is log p / length^α; the length counts </s>.
  double length_penalty = 1;
  bool count_end = true;   ///< false: the length is without </s>, as Shu & Nakayama 2017 have it
  bool shrinking = false;  ///< each finished hypothesis takes a place of the beam, as theirs do
};

struct SamplingOptions : DecodingOptions {
  double temperature = 1;  ///< divides the logits
  std::int64_t top_k = 0;  ///< > 0: of the k most probable tokens alone
  double top_p = 1;        ///< < 1: of the fewest tokens whose probabilities sum to this
  std::uint64_t seed = 1;
};

struct Hypothesis {
  std::vector<std::int32_t> tokens;  ///< without <s> and </s>
  double log_probability = 0;        ///< Σ log p of the tokens and of </s>
  double score = 0;                  ///< by which hypotheses are ordered
  /// For each token, and for </s>, the mean over heads of the last cross-attention's weights, [J] up to the source's
  /// length.
  std::vector<std::vector<float>> alignment = {};
};

/// The best hypotheses of each sentence, best first. Each step keeps the 2 · beam best continuations of a sentence:
/// those of the first `beam` that end are finished, the first `beam` of the others go on. A sentence is done when
/// `beam` are finished and nothing that goes on has, at the length it has, a better score than what would be returned:
/// a model that is sure finishes bad hypotheses in passing, before the good one. Where none can end (the logits are
/// NaN, or every token is ruled out), there is an empty one whose score is −inf.
std::vector<std::vector<Hypothesis>> beam_search(SequenceModel& model, const DecodingBatch& batch,
                                                 const BeamOptions& options);

/// One hypothesis for each sentence, drawn token by token; what is drawn depends on the seed, the sentence's number and
/// the model alone. Its score is its log-probability.
std::vector<Hypothesis> sample(SequenceModel& model, const DecodingBatch& batch, const SamplingOptions& options);

/// Forced decoding: goes step by step, as beam search does, through the prefixes, which are whole texts here, and </s>
/// behind each. One hypothesis for each sentence, whose score is its log-probability; no text is too long or too short.
std::vector<Hypothesis> force(SequenceModel& model, const DecodingBatch& batch, DecodingOptions options = {});

/// Sentences for teacher forcing: what the decoder reads, and what it should say.
struct TeacherForcingBatch {
  SequenceBatch batch;
  Tensor targets;  ///< i32 [B, T]: the tokens and </s>, then 0
};
/// `sources` empty: of a language model.
TeacherForcingBatch teacher_forcing_batch(std::span<const std::vector<std::int32_t>> sources,
                                          std::span<const std::vector<std::int32_t>> targets, std::int32_t begin = 2,
                                          std::int32_t end = 3);
/// Sentences side by side: i32 [B, longest] with 0 behind the short ones, and i32 [B].
struct PaddedTokens {
  Tensor tokens, lengths;
};
PaddedTokens padded_tokens(std::span<const std::vector<std::int32_t>> sentences);

/// Σ log p of each sentence's targets, by teacher forcing.
std::vector<double> log_probabilities(SequenceModel& model, const TeacherForcingBatch& taught);

}  // namespace fovea
