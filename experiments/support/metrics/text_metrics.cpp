#include "experiments/support/metrics/text_metrics.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "experiments/support/metrics/alignment.h"
#include "experiments/support/metrics/bleu.h"
#include "experiments/support/metrics/chrf.h"
#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/metrics/ribes.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/suggestion.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

struct Files {
  const TextFile& hypotheses;
  std::span<const TextFile> references;

  std::size_t size() const { return hypotheses.lines.size(); }
};

using Scores = std::vector<TextScore>;

/// How a metric makes letters lower case: as Python, or letter by letter as Perl; null: not at all.
using Lowering = std::string (*)(std::string_view);
Lowering by_python(bool lower) { return lower ? lower_case_in_words : nullptr; }
Lowering by_letter(bool lower) { return lower ? lower_case : nullptr; }

std::string prepared(const std::string& line, Tokenization tokenization, Lowering lowered) {
  return tokenized(lowered ? lowered(line) : line, tokenization);
}

/// of(hypothesis, references) for each sentence.
template <class Of>
auto per_sentence(const Files& files, Tokenization tokenization, Lowering lowered, const Of& of) {
  std::vector<decltype(of(std::string(), std::vector<std::string>()))> results;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::vector<std::string> references;
    for (const TextFile& file : files.references) references.push_back(prepared(file.lines[i], tokenization, lowered));
    results.push_back(of(prepared(files.hypotheses.lines[i], tokenization, lowered), references));
  }
  return results;
}

std::vector<BleuStatistics> bleu_statistics_of(const Files& files, Tokenization tokenization, Lowering lowered) {
  return per_sentence(files, tokenization, lowered, bleu_statistics);
}

Scores bleu_scores(const Files& files, const TextMetricOptions& options) {
  const auto sentences = bleu_statistics_of(files, Tokenization::none, by_letter(options.lower_case.value_or(false)));
  return {{.name = "BLEU",
           .metric = bleu_metric(sentences, 4, BleuSmoothing::none),
           .line = multi_bleu_line(sum(sentences))}};
}

Scores sacrebleu_scores(const Files& files, const TextMetricOptions& options) {
  const bool lower = options.lower_case.value_or(false);
  const auto sentences = bleu_statistics_of(files, options.tokenization, by_python(lower));
  const std::string signature = sacrebleu_signature(files.references.size(), lower, name_of(options.tokenization));
  return {{.name = "sacreBLEU",
           .metric = bleu_metric(sentences, 4, BleuSmoothing::exponential),
           .line = sacrebleu_line(sum(sentences), signature)}};
}

Scores mteval_scores(const Files& files, const TextMetricOptions& options) {
  Scores scores;
  for (bool lower : {true, false}) {
    if (options.lower_case.value_or(lower) != lower) continue;
    const auto sentences = bleu_statistics_of(files, Tokenization::mteval_13a, by_letter(lower));
    scores.push_back({.name = lower ? "mteval BLEU, lower case" : "mteval BLEU, cased",
                      .metric = bleu_metric(sentences, 4, BleuSmoothing::exponential)});
  }
  return scores;
}

Scores ngram_scores(const Files& files, const TextMetricOptions& options) {
  const auto sentences =
      bleu_statistics_of(files, Tokenization::mteval_13a, by_letter(options.lower_case.value_or(true)));
  Scores scores;
  for (auto [name, metric] : {std::pair("{}-grams", &precision_metric), std::pair("BLEU-{}", &bleu_metric)})
    for (int n = 1; n <= bleu_orders; ++n)
      scores.push_back(
          {.name = fmt::format(fmt::runtime(name), n), .metric = metric(sentences, n, BleuSmoothing::exponential)});
  return scores;
}

Scores sentence_bleu_scores(const Files& files, const TextMetricOptions& options) {
  std::vector<double> scores;
  for (const auto& sentence :
       bleu_statistics_of(files, Tokenization::none, by_letter(options.lower_case.value_or(false))))
    scores.push_back(bleu(sentence, 4, BleuSmoothing::add_one));
  return {{.name = "sentence BLEU", .metric = mean_metric(scores)}};
}

template <bool with_words>
Scores chrf_scores(const Files& files, const TextMetricOptions& options) {
  const bool lower = options.lower_case.value_or(false);
  const auto sentences =
      per_sentence(files, Tokenization::none, by_python(lower), [](const auto& hypothesis, const auto& references) {
        return chrf_statistics(hypothesis, references, with_words);
      });
  SummedMetric metric = chrf_metric(sentences);
  std::string line = chrf_line(metric.value(), files.references.size(), lower, with_words);
  return {{.name = with_words ? "chrF2++" : "chrF2", .metric = std::move(metric), .line = std::move(line)}};
}

Scores ribes_scores(const Files& files, const TextMetricOptions& options) {
  const auto scores =
      per_sentence(files, Tokenization::none, by_letter(options.lower_case.value_or(true)),
                   [](const auto& hypothesis, const auto& references) { return ribes(hypothesis, references); });
  return {{.name = "RIBES", .metric = mean_metric(scores), .decimals = 4}};
}

/// ROUGE reads a-z and 0-9 alone. Warns of texts most of whose letters it does not see.
void warn_of_other_scripts(const TextFile& file) {
  std::int64_t seen = 0, unseen = 0;
  for (const std::string& line : file.lines)
    for (std::size_t at = 0; at < line.size();) {
      const char32_t letter = next_character(line, at);
      seen += letter < 0x80 && std::isalnum(int(letter));
      unseen += letter >= 0x80 && !is_space(letter);
    }
  if (unseen > seen)
    warn(
        fmt::format("{}: ROUGE sees no letters but a-z, and most here are others, so its scores mean nothing; chrf "
                    "reads all scripts",
                    file.name));
}

Scores rouge_scores(const Files& files, const TextMetricOptions& options) {
  for (const TextFile& reference : files.references) warn_of_other_scripts(reference);
  const auto documents = per_sentence(
      files, Tokenization::none, nullptr,
      [&](const auto& hypothesis, const auto& references) { return rouge(hypothesis, references, options.rouge); });
  Scores scores;
  const auto add = [&](const std::string& name, RougeScore Rouge::*kind) {
    std::vector<double> f1;
    double precision = 0, recall = 0;
    for (const Rouge& document : documents) {
      f1.push_back((document.*kind).f1);
      precision += (document.*kind).precision / double(documents.size());
      recall += (document.*kind).recall / double(documents.size());
    }
    scores.push_back(
        {.name = name + " F1",
         .metric = mean_metric(f1),
         .decimals = 4,
         .line = fmt::format("{}: P = {:.5f}, R = {:.5f}, F1 = {:.5f}", name, precision, recall, mean(f1))});
  };
  add("ROUGE-1", &Rouge::one);
  add("ROUGE-2", &Rouge::two);
  add("ROUGE-L", &Rouge::sentence_l);
  add("ROUGE-Lsum", &Rouge::summary_l);
  return scores;
}

const TextFile& only_reference(const Files& files, const char* metric) {
  require(files.references.size() == 1, "{}: {} references, expected 1", metric, files.references.size());
  return files.references[0];
}

Scores accuracy_scores(const Files& files, const TextMetricOptions& options) {
  only_reference(files, "accuracy");
  const auto right = per_sentence(files, Tokenization::none, by_python(options.lower_case.value_or(false)),
                                  [](const std::string& text, const std::vector<std::string>& references) {
                                    return split_words(text) == split_words(references[0]) ? 100.0 : 0.0;
                                  });
  return {{.name = "accuracy %", .metric = mean_metric(right)}};
}

/// The words of all lines that are the reference's word at the same place; missing and additional words are wrong.
Scores word_accuracy_scores(const Files& files, const TextMetricOptions& options) {
  only_reference(files, "word-accuracy");
  SummedMetric metric{.width = 2, .of_sums = [](auto sums) { return sums[1] == 0 ? 0 : 100 * sums[0] / sums[1]; }};
  per_sentence(
      files, Tokenization::none, by_python(options.lower_case.value_or(false)),
      [&](const std::string& text, const std::vector<std::string>& references) {
        const auto words = split_words(text), right = split_words(references[0]);
        double equal = 0;
        for (std::size_t k = 0; k < std::min(words.size(), right.size()); ++k) equal += words[k] == right[k];
        metric.statistics.insert(metric.statistics.end(), {equal, double(std::max(words.size(), right.size()))});
        return equal;
      });
  return {{.name = "word accuracy %", .metric = std::move(metric)}};
}

/// Returns the sum of the negative log-likelihoods of line i, with the numbers of tokens and of the words of `text`.
Likelihood likelihood_of(const TextFile& file, std::size_t i, const std::string& text) {
  Likelihood result;
  for (std::string_view word : split_words(file.lines[i])) {
    const auto value = number<double>(word);
    constexpr double rounding = -1e-4;  // of a logarithm of 1 that another program computed
    if (!value || !std::isfinite(*value) || *value < rounding) {
      file.fail_at(i, "'{}', expected a token's negative log-likelihood, in nats, which is at least 0", word);
    }
    result += {.negative_log = *value, .tokens = 1};
  }
  if (result.tokens == 0) file.fail_at(i, "no token, expected at least that of the sentence's end");
  result.words = std::int64_t(split_words(text).size()) + 1;
  return result;
}

Scores perplexity_scores(const Files& files, const TextMetricOptions&) {
  const TextFile& texts = only_reference(files, "perplexity");
  std::vector<Likelihood> sentences;
  for (std::size_t i = 0; i < files.size(); ++i) {
    sentences.push_back(likelihood_of(files.hypotheses, i, texts.lines[i]));
  }
  return {{.name = "perplexity per token", .metric = likelihood_metric(sentences, &Likelihood::tokens)},
          {.name = "perplexity per word", .metric = likelihood_metric(sentences, &Likelihood::words)}};
}

GoldAlignment alignment_of(const TextFile& file, std::size_t i, std::int64_t first) {
  try {
    return parse_alignment(file.lines[i], first);
  } catch (const Error& error) {
    file.fail_at(i, "{}", error.what());
  }
}

Scores alignment_scores(const Files& files, const TextMetricOptions& options) {
  const TextFile& gold_file = only_reference(files, "aer");
  std::vector<std::set<Link>> links;
  std::vector<GoldAlignment> gold;
  FirstWords in_links, in_gold;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const GoldAlignment own = alignment_of(files.hypotheses, i, options.links_from);
    links.push_back(own.possible);
    gold.push_back(alignment_of(gold_file, i, options.gold_from));
    in_links.add(own);
    in_gold.add(gold.back());
  }
  for (const auto& [side, of_links, of_gold] :
       {std::tuple("source", in_links.source, in_gold.source), {"target", in_links.target, in_gold.target}})
    if (of_links != of_gold && in_links.any && in_gold.any)
      warn(fmt::format("{}: no link is of a {} word {}, as links of {} are; if its words are counted from 1: {} 1",
                       of_links ? gold_file.name : files.hypotheses.name, side,
                       of_links ? options.gold_from : options.links_from,
                       of_links ? files.hypotheses.name : gold_file.name, of_links ? "--gold-from" : "--links-from"));
  return {{.name = "AER", .metric = alignment_error(links, gold), .decimals = 4}};
}

struct Entry {
  const char *name, *description;
  Scores (*scores)(const Files&, const TextMetricOptions&);
};

constexpr Entry entries[] = {
    {"bleu", "tokenised BLEU of the words as they are, as multi-bleu.perl", bleu_scores},
    {"sacrebleu", "BLEU with sacreBLEU's tokenisations and smoothing, with its signature", sacrebleu_scores},
    {"mteval", "BLEU of NIST's mteval-v13a, in lower case and cased", mteval_scores},
    {"ngrams", "mteval's scores by n-grams: of n words alone, and BLEU-n up to n words, for n = 1 to 9", ngram_scores},
    {"sentence-bleu",
     "BLEU of each sentence, averaged; 1 is added to all counts (Lin & Och: for n > 1 only), so that texts "
     "with nothing in common have some score",
     sentence_bleu_scores},
    {"chrf", "chrF2: F-score of n-grams of 1 to 6 characters, recall counts more; sacreBLEU's value and signature",
     chrf_scores<false>},
    {"chrf++", "chrF2++: the same with n-grams of 1 and 2 words", chrf_scores<true>},
    {"ribes", "RIBES 1.03, alpha 0.25, beta 0.10", ribes_scores},
    {"rouge", "ROUGE-1, -2, -L and -L at the summary level (sentences end at '.'), F1 of documents, averaged",
     rouge_scores},
    {"accuracy", "lines that are the reference's, in percent", accuracy_scores},
    {"word-accuracy", "words that are the reference's word at the same place, in percent", word_accuracy_scores},
    {"perplexity", "hypotheses are negative log-likelihoods of tokens, </s> included, references the text",
     perplexity_scores},
    {"aer", "alignment error rate of links like 0-2; the reference's 0?2 are only possible", alignment_scores},
};

}  // namespace

std::vector<TextMetric> text_metrics() {
  std::vector<TextMetric> metrics;
  for (const Entry& entry : entries) metrics.push_back({entry.name, entry.description});
  return metrics;
}

std::vector<TextScore> text_scores(const std::string& metric, const TextFile& hypotheses,
                                   std::span<const TextFile> references, const TextMetricOptions& options) {
  require(!hypotheses.lines.empty(), "{}: the file is empty", hypotheses.name);
  require(!references.empty(), "{}: there is no reference", metric);
  for (const TextFile& reference : references) {
    require(reference.lines.size() == hypotheses.lines.size(), "{}: {}, {} has {}", reference.name,
            counted(reference.lines.size(), "line"), hypotheses.name, hypotheses.lines.size());
    if (std::ranges::all_of(reference.lines, is_blank))
      warn(fmt::format("{}: every line is blank, so there is nothing to compare with", reference.name));
  }
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (entry.name == metric) return entry.scores({hypotheses, references}, options);
    names.emplace_back(entry.name);
  }
  fail("--metrics: there is no metric '{}': one of {}{}", metric, alternatives(names), did_you_mean(metric, names));
}

}  // namespace fovea
