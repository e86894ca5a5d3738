/// ROUGE: Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries"; as `ROUGE-1.5.5 -n 2 -a` computes it.
///
///   P = matches / words of the hypothesis,  R = matches / words of the reference,  F1 = 2 P R / (P + R)
///
/// matches: shared words (ROUGE-1), shared pairs of words (ROUGE-2), words of the longest common subsequence (ROUGE-L),
/// or at the summary level, for each sentence of the reference, the union of its longest common subsequences with the
/// sentences of the hypothesis. Text is lower-cased; characters other than a-z and 0-9 separate words. P, R and F1 of a
/// corpus are the means over its documents.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace fovea {

/// Porter 1980, "An algorithm for suffix stripping": the stem of a word of lower-case ASCII letters, with the
/// departures of the author's own program (bli to ble, logi to log), which ROUGE-1.5.5 has as well. Words of one or two
/// letters stay as they are.
std::string porter_stem(std::string_view word);

struct RougeScore {
  double precision = 0, recall = 0, f1 = 0;
};

/// The scores of one document.
struct Rouge {
  RougeScore one, two;
  RougeScore sentence_l;  ///< ROUGE-L of the whole text as one sentence
  RougeScore summary_l;   ///< ROUGE-L at the summary level, over sentences
};

struct RougeOptions {
  bool stem = false;  ///< compare Porter stems of words with more than three letters, as -m of ROUGE-1.5.5 does
};

/// Every '.' ends a sentence, as in files2rouge. With several references, each score is the one with the largest F1.
Rouge rouge(std::string_view hypothesis, std::span<const std::string> references, const RougeOptions& options = {});

/// ROUGE-L at the summary level, of texts that are split into sentences. A word counts at most as often as it occurs in
/// either text.
RougeScore rouge_l_summary(std::span<const std::string_view> hypothesis, std::span<const std::string_view> reference,
                           const RougeOptions& options = {});

}  // namespace fovea
