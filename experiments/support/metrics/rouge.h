/// ROUGE: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; as `ROUGE-1.5.5 -n 2 -a` computes it.
///
///   P = matches / words of the hypothesis,  R = matches / words of the reference,  F1 = 2 P R / (P + R)
///
/// matches: shared words (ROUGE-1), shared pairs of words (ROUGE-2), the longest common subsequence (ROUGE-L), or for
/// each sentence of the reference the union of its longest common subsequences with all of the hypothesis's (summary
/// level). Text is lower-cased, and whatever is neither a-z nor 0-9 separates words. A corpus has the mean over its
/// documents of P, of R and of F1.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

struct RougeScore {
  double precision = 0, recall = 0, f1 = 0;
};

/// Of one document.
struct Rouge {
  RougeScore one, two;
  RougeScore sentence_l;  ///< ROUGE-L of the whole text as one sentence
  RougeScore summary_l;   ///< ROUGE-L at the summary level, over sentences
};

struct RougeOptions {
  bool stem = false;  ///< ROUGE-1.5.5's -m: Porter's stems of words of more than three letters
};

/// Sentences end at '.', every one, as files2rouge has it. With several references each score is that with the largest
/// F1.
Rouge rouge(std::string_view hypothesis, std::span<const std::string> references, const RougeOptions& options = {});

/// ROUGE-L at the summary level, of texts in sentences. A word counts at most as often as both texts have it.
RougeScore rouge_l_summary(std::span<const std::string_view> hypothesis, std::span<const std::string_view> reference,
                           const RougeOptions& options = {});

/// The words of a text as ROUGE sees them, with one space between.
std::string rouge_words(std::string_view text, const RougeOptions& options = {});

}  // namespace fovea
