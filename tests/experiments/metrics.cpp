// Metrics of texts: worked numbers, other programs' numbers, edges, and what must hold for any text.
#include <cmath>

#include <boost/test/unit_test.hpp>

#include "experiments/support/metrics/alignment.h"
#include "experiments/support/metrics/attention_spread.h"
#include "experiments/support/metrics/bleu.h"
#include "experiments/support/metrics/chrf.h"
#include "experiments/support/metrics/lead.h"
#include "experiments/support/metrics/perplexity.h"
#include "experiments/support/metrics/ribes.h"
#include "experiments/support/metrics/rouge.h"
#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/metrics/tokenization.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "tests/files.h"
#include "tests/goldens.h"

using namespace fovea;

namespace {

using Lines = std::vector<std::string>;
using References = std::vector<Lines>;  // of each sentence

const Lines cats{"the cat sat on mat .", "there is the cat on the the mat",
                 "he was interested in world history because he read the book"};
const References cats_right{{"the cat sat on the mat ."},
                            {"there is a cat on the mat"},
                            {"he read the book because he was interested in world history"}};
const Lines letters{"a b c d e f", "a b c d e", "a c d e"};
const References letters_right{{"a b c d e"}, {"a b c d e"}, {"a b c d e"}};

std::vector<BleuStatistics> statistics_of(const Lines& hypotheses, const References& references) {
  std::vector<BleuStatistics> sentences;
  for (std::size_t i = 0; i < hypotheses.size(); ++i)
    sentences.push_back(bleu_statistics(hypotheses[i], references[i]));
  return sentences;
}

double corpus_bleu(const Lines& hypotheses, const References& references, int order = 4,
                   BleuSmoothing smoothing = BleuSmoothing::none) {
  return bleu(sum(statistics_of(hypotheses, references)), order, smoothing);
}

void check_near(double value, double printed, double tolerance) {
  BOOST_TEST(std::abs(value - printed) <= tolerance, value << ", printed " << printed);
}

std::string words_by(Tokenization how, const std::string& text) {
  const std::string tokens = tokenized(text, how);
  return join_words(split_words(tokens));
}

std::string words13a(const std::string& text) { return words_by(Tokenization::mteval_13a, text); }

/// Lines of a few words each, so that they share n-grams.
Lines random_lines(std::size_t count, std::uint64_t seed) {
  SplitMix random(seed);
  Lines lines(count);
  for (std::string& line : lines) {
    for (std::uint64_t words = random.below(12); words > 0; --words)
      line += std::string(1, char('a' + random.below(6))) + " ";
  }
  return lines;
}

References alone(const Lines& lines) {
  References references;
  for (const std::string& line : lines) references.push_back({line});
  return references;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(metrics)

BOOST_AUTO_TEST_CASE(bleu_has_the_worked_numbers) {
  const BleuStatistics sums = sum(statistics_of(cats, cats_right));
  BOOST_TEST(std::vector<std::int64_t>(sums.begin(), sums.begin() + 10) ==
             (std::vector<std::int64_t>{25, 25, 23, 25, 17, 22, 9, 19, 5, 16}));
  check_near(bleu(sums), 56.9558, 5e-5);
  BOOST_TEST(multi_bleu_line(sums) ==
             "BLEU = 56.96, 92.0/77.3/47.4/31.2 (BP=1.000, ratio=1.000, hyp_len=25, ref_len=25)");
  BOOST_TEST(sacrebleu_line(sums, sacrebleu_signature(1, false, "none")) ==
             "BLEU|nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:fovea.0.1.0 = 56.96 92.0/77.3/47.4/31.2 "
             "(BP = 1.000 ratio = 1.000 hyp_len = 25 ref_len = 25)");
  check_near(corpus_bleu(letters, letters_right), 79.6902, 5e-5);
  const Lines sat{"the cat sat on it now"};
  const References ran{{"the cat ran over it now"}};
  BOOST_TEST(corpus_bleu(sat, ran) == 0.0);
  check_near(corpus_bleu(sat, ran, 4, BleuSmoothing::exponential), 22.9575, 5e-5);
}

BOOST_AUTO_TEST_CASE(smoothed_sentence_bleu_has_the_worked_numbers) {
  const std::vector<BleuStatistics> sentences = statistics_of(cats, cats_right);
  const double expected[] = {59.8553, 39.0058, 77.1096};
  for (std::size_t i = 0; i < 3; ++i) check_near(bleu(sentences[i], 4, BleuSmoothing::add_one), expected[i], 5e-5);
}

BOOST_AUTO_TEST_CASE(of_several_references_the_nearest_length_and_the_most_of_each_ngram_count) {
  const std::string hypothesis = "a a b c d";
  const Lines references{"a b c x y z", "a a q r", "b c d"};  // lengths 6 and 4 are equally near
  const BleuStatistics statistics = bleu_statistics(hypothesis, references);
  BOOST_TEST(statistics[1] == 4);
  BOOST_TEST(statistics[2] == 5);  // both a of the second, b, c, d
  BOOST_TEST(statistics[4] == 4);  // a a, a b, b c, c d
  BOOST_TEST(statistics[6] == 2);  // a b c, b c d
  BOOST_TEST(statistics[8] == 0);
}

BOOST_AUTO_TEST_CASE(scores_by_ngrams_go_to_nine) {
  const Lines hypothesis{"a b c d e f g h i j"};
  const References reference{{"a b c d e f g h i k l"}};
  const BleuStatistics sums = sum(statistics_of(hypothesis, reference));
  double logarithms = 0;
  for (int n = 1; n <= 9; ++n) {
    const double p = double(10 - n) / double(11 - n);
    logarithms += std::log(p);
    check_near(ngram_precision(sums, n), 100 * p, 1e-10);
    check_near(bleu(sums, n), 100 * std::exp(1 - 11.0 / 10) * std::exp(logarithms / n), 1e-10);
  }
  BOOST_TEST(contains(message_of([&] { bleu(sums, 10); }), "10 words, expected 1 to 9"));
  // the k-th order without a match has 1 / (2^k t)
  const BleuStatistics few = bleu_statistics("a b x c d", std::vector<std::string>{"a b y c d"});
  check_near(ngram_precision(few, 3, BleuSmoothing::exponential), 100.0 / (2 * 3), 1e-10);
  check_near(ngram_precision(few, 5, BleuSmoothing::exponential), 100.0 / (8 * 1), 1e-10);
  BOOST_TEST(ngram_precision(few, 6, BleuSmoothing::exponential) == 0.0);
}

BOOST_AUTO_TEST_CASE(bleu_of_edges) {
  const auto score = [](const std::string& hypothesis, const std::string& reference, BleuSmoothing smoothing) {
    return corpus_bleu({hypothesis}, {{reference}}, 4, smoothing);
  };
  for (BleuSmoothing smoothing : {BleuSmoothing::none, BleuSmoothing::exponential}) {
    BOOST_TEST(score("", "a b c d", smoothing) == 0.0);
    BOOST_TEST(score("", "", smoothing) == 0.0);
    BOOST_TEST(score("w x y z", "a b c d", smoothing) == 0.0);
    BOOST_TEST(score("a b c", "a b c", smoothing) == 0.0);  // no n-gram of four words
    check_near(score("a b c d", "a b c d", smoothing), 100, 1e-10);
    BOOST_TEST(score("a b c d", "", smoothing) == 0.0);
  }
  BOOST_TEST(score("", "a b", BleuSmoothing::add_one) == 0.0);
  check_near(score("a", "a", BleuSmoothing::add_one), 100, 1e-10);
  check_near(score("a", "b", BleuSmoothing::add_one), 100 * std::pow(0.5, 0.25), 1e-10);
  BOOST_TEST(contains(message_of([] { bleu_statistics("a", Lines{}); }), "there is no reference"));
}

BOOST_AUTO_TEST_CASE(tokenizations_are_those_of_mteval_and_sacrebleu) {
  BOOST_TEST(words13a("He said: \"1,000.5 e-mails (2-3 days), U.S. isn't it?\"") ==
             "He said : \" 1,000.5 e-mails ( 2 - 3 days ) , U . S . isn't it ? \"");
  BOOST_TEST(words13a("a&amp;b &quot;<skipped>x&lt;&gt; 3.") == "a & b \" x < > 3 .");
  BOOST_TEST(tokenized("a\xc3\xbc \xe6\x97\xa5", Tokenization::characters) == " a \xc3\xbc   \xe6\x97\xa5");
  for (const std::string end : {"", " ", "\t\u3000"}) {
    BOOST_TEST(words_by(Tokenization::international, "in 1,5 km (2019)." + end) == "in 1,5 km ( 2019 ) .");
    BOOST_TEST(words_by(Tokenization::international, " .5 in 2019." + end) == ". 5 in 2019.");
  }
  BOOST_TEST(split_compounds("a high-quality 5-to-6 - -x y-") ==
             "a high ##AT##-##AT## quality 5 ##AT##-##AT## to ##AT##-##AT## 6 - -x y-");
  BOOST_TEST(split_compounds("a-b-c") == "a ##AT##-##AT## b-c");  // b is part of the first match
}

BOOST_AUTO_TEST_CASE(other_programs_agree) {
  const auto file = test::golden("metrics.json");
  struct Row {
    const char *golden, *metric;
    TextMetricOptions options = {};
  };
  const std::vector<Row> rows{{"bleu", "bleu"},
                              {"bleu_lower", "bleu", {.lower_case = true}},
                              {"sacrebleu_13a", "sacrebleu"},
                              {"sacrebleu_lower", "sacrebleu", {.lower_case = true}},
                              {"sacrebleu_char", "sacrebleu", {.tokenization = Tokenization::characters}},
                              {"sacrebleu_intl", "sacrebleu", {.tokenization = Tokenization::international}},
                              {"sacrebleu_zh", "sacrebleu", {.tokenization = Tokenization::chinese}},
                              {"chrf", "chrf"},
                              {"chrf++", "chrf++"},
                              {"ribes", "ribes", {.lower_case = false}}};
  for (const auto& one : file.at("cases")) {
    BOOST_TEST_CONTEXT("case " << one.at("name").get<std::string>()) {
      const TextFile hypotheses{.name = "hypotheses", .lines = one.at("hypotheses").get<Lines>()};
      std::vector<TextFile> references;
      for (const Lines& sentence : one.at("references").get<References>())
        for (std::size_t r = 0; r < sentence.size(); ++r) {
          if (references.size() == r) references.push_back({.name = "references", .lines = {}});
          references[r].lines.push_back(sentence[r]);
        }
      for (const auto& [golden, metric, options] : rows)
        check_near(text_scores(metric, hypotheses, references, options)[0].metric.value(), one.at(golden), 1e-9);
      for (bool stem : {false, true}) {
        const auto scores = text_scores("rouge", hypotheses, references, {.rouge = {.stem = stem}});
        const auto& theirs = one.at(stem ? "rouge_stemmed" : "rouge");
        for (std::size_t k = 0; k < 4; ++k) {
          const char* names[] = {"rouge1", "rouge2", "rougeL", "rougeLsum"};
          const auto three = theirs.at(names[k]).get<std::vector<double>>();
          check_near(scores[k].metric.value(), three[2], 1e-9);
          BOOST_TEST(contains(scores[k].line, fmt::format("P = {:.5f}, R = {:.5f}", three[0], three[1])),
                     scores[k].line);
        }
      }
    }
  }
  for (Tokenization how : {Tokenization::mteval_13a, Tokenization::international, Tokenization::chinese}) {
    const auto lines = file.at("tokenized").at(name_of(how)).get<std::vector<std::pair<std::string, std::string>>>();
    for (const auto& [text, tokens] : lines) BOOST_TEST(words_by(how, text) == tokens);
  }
  for (const auto& [word, stem] : file.at("stems").get<std::vector<std::pair<std::string, std::string>>>()) {
    BOOST_TEST(porter_stem(word) == stem, word << ": " << porter_stem(word) << ", expected " << stem);
  }
}

BOOST_AUTO_TEST_CASE(chrf_of_edges) {
  const auto score = [](const char* hypothesis, const Lines& references, bool with_words = false) {
    return chrf(chrf_statistics(hypothesis, references, with_words));
  };
  check_near(score("ab", {"ab"}), 100, 1e-12);
  check_near(score("a b", {"ab"}), 100, 1e-12);  // white space does not count
  BOOST_TEST(score("a b", {"ab"}, true) < 90);   // but words do
  BOOST_TEST(score("", {"a"}) == 0.0);
  BOOST_TEST(score("a", {""}) == 0.0);
  BOOST_TEST(score("", {""}) == 0.0);
  BOOST_TEST(score("x", {"y"}) == 0.0);
  check_near(score("abc", {"x", "abc", "ab"}), 100, 1e-12);  // the best reference
  // 3 of 4 letters, 2 of 3 pairs, 1 of 2 triples in the hypothesis; all of the reference's; it has no 4 letters
  const double precision = (3.0 / 4 + 2.0 / 3 + 1.0 / 2) / 3;
  check_near(score("abcd", {"abc"}), 100 * 5 * precision / (4 * precision + 1), 1e-12);
  BOOST_TEST(chrf_line(48.718, 2, false, true) ==
             "chrF2++|nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|version:fovea.0.1.0 = 48.72");
  BOOST_TEST(contains(message_of([] { chrf_statistics("a", Lines{}, false); }), "there is no reference"));
}

BOOST_AUTO_TEST_CASE(ribes_aligns_repeated_words_by_their_neighbours) {
  const auto alignment = [](const char* hypothesis, const char* reference) {
    return ribes_alignment(split_words(hypothesis), split_words(reference));
  };
  using Places = std::vector<int>;
  // the second `the` is found to the right of `and`, before the n-gram on its own right is looked for
  BOOST_TEST(alignment("the cat and the dog", "the dog and the cat") == (Places{3, 4, 2, 3, 1}));
  BOOST_TEST(alignment("x a y", "a b") == Places{0});
  BOOST_TEST(alignment("a a", "a a") == (Places{0, 1}));  // the only n-gram of two words
  BOOST_TEST(alignment("a a a", "a").empty());
  BOOST_TEST(alignment("", "a").empty());
  std::string babble;  // of a model that is not trained yet
  for (int i = 0; i < 3000; ++i) babble += "a ";
  BOOST_TEST(alignment(babble.c_str(), "b a c a a d").empty());
}

BOOST_AUTO_TEST_CASE(a_word_that_is_repeated_throughout_is_aligned_through_the_whole_text) {
  std::string same;
  for (int i = 0; i < 1000; ++i) same += "a ";
  const Words words = split_words(same);
  BOOST_TEST(ribes_alignment(words, words).size() == 2u);  // the first word and the last
}

BOOST_AUTO_TEST_CASE(huge_texts_and_words_take_seconds) {
  std::string same, periodic, other;
  for (int i = 0; i < 30'000; ++i) {
    same += "a ";
    periodic += std::string(1, char('a' + i % 7)) + " ";
    other += std::string(1, char('a' + i * i % 11 % 7)) + " ";
  }
  BOOST_TEST(ribes(periodic, Lines{other}) < 1);
  BOOST_TEST(rouge(same, Lines{same}).summary_l.f1 == 1.0);
  const Rouge scores = rouge(periodic, Lines{other});
  BOOST_TEST((scores.sentence_l.f1 > 0.1 && scores.summary_l.f1 <= scores.sentence_l.f1));
  BOOST_TEST(porter_stem(std::string(100'000, 'y')).size() == 100'000u);
}

BOOST_AUTO_TEST_CASE(ribes_of_edges) {
  BOOST_TEST(ribes("", Lines{"a b"}) == 0.0);
  BOOST_TEST(ribes("a b", Lines{""}) == 0.0);
  BOOST_TEST(ribes("a", Lines{"a b"}) == 0.0);  // one aligned word has no order
  BOOST_TEST(ribes("a", Lines{"a"}) == 1.0);
  check_near(ribes("a x", Lines{"a"}), std::pow(0.5, 0.25), 1e-12);
  BOOST_TEST(ribes("b a", Lines{"a b"}) == 0.0);
  BOOST_TEST(ribes("b a", Lines{"a b", "b a"}) == 1.0);  // the best reference
  BOOST_TEST(ribes("A b", Lines{"a b"}) == 0.0);
  check_near(ribes("a b x", Lines{"a b c d"}), std::pow(2.0 / 3, 0.25) * std::exp((1 - 4.0 / 3) * 0.1), 1e-12);
}

BOOST_AUTO_TEST_CASE(rouge_of_edges) {
  check_near(rouge("police kill the gunman .", Lines{"police killed the gunman ."}, {.stem = true}).one.f1, 1, 1e-12);
  for (const auto& [hypothesis, reference] :
       std::vector<std::pair<std::string, std::string>>{{"", "a"}, {"a", ""}, {"", ""}, {"?!", "..."}, {"a", "b"}}) {
    const Rouge scores = rouge(hypothesis, Lines{reference});
    BOOST_TEST(scores.one.f1 + scores.two.f1 + scores.sentence_l.f1 + scores.summary_l.f1 == 0.0);
  }
  const Rouge one = rouge("Word", Lines{"word!"});
  BOOST_TEST(one.one.f1 == 1.0);
  BOOST_TEST(one.two.f1 == 0.0);
  BOOST_TEST(one.summary_l.f1 == 1.0);
  const Rouge best = rouge("a b", Lines{"x y", "a b c d", "b a"});
  BOOST_TEST(best.one.f1 == 1.0);                           // of the third
  check_near(best.two.f1, 2 * 1.0 / 3 / (4.0 / 3), 1e-12);  // of the second: P 1, R 1/3
  // each word counts as often as both have it, however many sentences have it in common
  BOOST_TEST(rouge_l_summary(std::vector<std::string_view>{"a"}, std::vector<std::string_view>{"a", "a"}).recall ==
             0.5);
}

BOOST_AUTO_TEST_CASE(a_bootstrap_of_sums_is_one_of_the_metric) {
  const Lines a = random_lines(50, 1), b = random_lines(50, 2);
  const References references = alone(random_lines(50, 3));
  const auto of_a = statistics_of(a, references), of_b = statistics_of(b, references);
  const SummedMetric metric_a = bleu_metric(of_a, 4, BleuSmoothing::exponential);
  const SummedMetric metric_b = bleu_metric(of_b, 4, BleuSmoothing::exponential);
  BOOST_TEST(metric_a.value() == bleu(sum(of_a), 4, BleuSmoothing::exponential));
  BOOST_TEST(precision_metric(of_a, 3, BleuSmoothing::none).value() == ngram_precision(sum(of_a), 3));
  const std::vector<std::size_t> sample{3, 3, 17, 0, 49};
  std::vector<BleuStatistics> chosen;
  for (std::size_t i : sample) chosen.push_back(of_b[i]);
  BOOST_TEST(metric_b.value(sample) == bleu(sum(chosen), 4, BleuSmoothing::exponential));

  const PairedBootstrap there = paired_bootstrap(metric_a, metric_b), back = paired_bootstrap(metric_b, metric_a);
  BOOST_TEST(there.difference == -back.difference);
  check_near(there.interval.low, -back.interval.high, 1e-9);
  BOOST_TEST(there.p == back.p);
  BOOST_TEST((0 < there.p_koehn && there.p_koehn + back.p_koehn == 1.0));  // no two samples are equal
  const Interval interval = bootstrap_interval(metric_a);
  BOOST_TEST(interval.low < metric_a.value());
  BOOST_TEST(interval.high > metric_a.value());
  const SummedMetric shorter = bleu_metric(std::span(of_a).first(3), 4, BleuSmoothing::none);
  BOOST_TEST(contains(message_of([&] { paired_bootstrap(metric_a, shorter); }), "50 examples of the baseline, 3 of"));
}

BOOST_AUTO_TEST_CASE(lower_is_better_for_perplexity) {
  check_near(token_perplexity({.negative_log = 6, .tokens = 3}), 7.389056, 1e-6);
  std::vector<Likelihood> worse, better;
  SplitMix random(7);
  for (int i = 0; i < 100; ++i) {
    const auto tokens = std::int64_t(5 + random.below(20));
    const double noise = double(random.below(100)) / 100;
    worse.push_back({.negative_log = 2.5 * double(tokens) + noise, .tokens = tokens, .words = tokens / 2 + 1});
    better.push_back({.negative_log = 2.3 * double(tokens) - noise, .tokens = tokens, .words = tokens / 2 + 1});
  }
  const SummedMetric a = likelihood_metric(worse, &Likelihood::tokens);
  const SummedMetric b = likelihood_metric(better, &Likelihood::tokens);
  const PairedBootstrap test = paired_bootstrap(a, b);
  BOOST_TEST(test.difference == b.value() - a.value());
  BOOST_TEST(test.difference < 0);
  BOOST_TEST(test.p < 0.01);
  BOOST_TEST(test.p_koehn == 0.0);
  BOOST_TEST(paired_bootstrap(a, a).p_koehn == 1.0);
  BOOST_TEST(test.interval.low < test.difference);
  BOOST_TEST(test.interval.high < 0);
}

BOOST_AUTO_TEST_CASE(alignment_error_rate_counts_sure_and_possible_links) {
  const GoldAlignment gold = parse_alignment("0-0 1?2 2-1 3-3");
  BOOST_TEST(gold.sure.size() == 3u);
  BOOST_TEST(gold.possible.size() == 4u);
  const std::set<Link> links{{0, 0}, {1, 2}, {2, 2}};
  const auto error = [](const std::vector<std::set<Link>>& all, const std::vector<GoldAlignment>& right) {
    return alignment_error(all, right).value();
  };
  check_near(error({links}, {gold}), 1 - (1 + 2) / double(3 + 3), 1e-12);
  BOOST_TEST(error({gold.sure}, {gold}) == 0.0);
  BOOST_TEST(error({gold.possible}, {gold}) == 0.0);
  BOOST_TEST(error({{{7, 7}}}, {gold}) == 1.0);
  BOOST_TEST(error({}, {}) == 0.0);
  check_near(error({links, gold.sure}, {gold, gold}), 1 - (3 + 6) / double(6 + 6), 1e-12);
  BOOST_TEST(strongest_links(std::vector<double>{.1, .6, .3, .5, .5, 0}, 3) == (std::set<Link>{{1, 0}, {0, 1}}));
  BOOST_TEST(parse_alignment(" ").possible.empty());
  BOOST_TEST(alignment_text(gold.sure) == "0-0 2-1 3-3");
  for (const char* bad : {"0", "0-", "-1", "0-1-2", "a-1", "0--1", "1?"}) {
    BOOST_TEST(contains(message_of([&] { parse_alignment(bad); }), "expected a link like 0-2 or 0?2"), bad);
  }
}

BOOST_AUTO_TEST_CASE(the_average_window_goes_from_hypotheses_to_steps_to_sentences) {
  const std::vector<std::vector<StepSpans>> sentences{{{5, 5}, {3, 4}}, {{8}, {2}, {2}}};
  BOOST_TEST(vision_span(sentences[0]) == 4.25);
  BOOST_TEST(vision_span(sentences[1]) == 4.0);
  BOOST_TEST(vision_span(sentences).average == 4.125);
  check_near(vision_span(sentences).pooled, 4.142857, 1e-6);
  const std::vector<std::vector<StepSpans>> global{{{7, 7}, {7}}, {{4, 4, 4}}};  // the mean length, whatever the beam
  BOOST_TEST(vision_span(global).average == 5.5);
  BOOST_TEST(contains(message_of([] { vision_span(std::vector<StepSpans>{{}}); }), "a step without a hypothesis"));
}

BOOST_AUTO_TEST_CASE(attention_near_its_peak_is_that_of_real_keys) {
  // Two sentences of a head with two queries and four keys; of the second only one query and three keys are real.
  const Tensor weights =
      Tensor::from(std::vector<double>{.1, .2, .6, .1, .5, .1, .4, 0, .2, .3, .1, .4, 9, 9, 9, 9}, {2, 1, 2, 4});
  const std::vector<std::int64_t> queries{2, 1}, keys{4, 3};
  const auto peaks = attention_near_peak(weights, queries, keys, 0),
             near = attention_near_peak(weights, queries, keys, 1);
  check_near(peaks[0], (60 + 50) / 2., 1e-9);
  check_near(peaks[1], 30, 1e-9);
  check_near(near[0], (90 + 60) / 2., 1e-9);
  check_near(near[1], 60, 1e-9);
}

BOOST_AUTO_TEST_CASE(a_line_has_words_and_characters_and_an_end) {
  const Likelihood line = units_of_line("  na\u00efve\t x ");
  BOOST_TEST(line.words == 3);
  BOOST_TEST(line.characters == 8);  // "naïve x" and its end
  BOOST_TEST(units_of_line(" ").words == 1);
  BOOST_TEST(units_of_line("").characters == 1);
}

BOOST_AUTO_TEST_CASE(attention_within_a_distance_is_in_percent) {
  const std::vector<std::int64_t> four{4};
  check_near(attention_within(Tensor::full({1, 1, 4, 4}, 0.25, DType::f64), four, 1)[0], 62.5, 1e-9);
  // two heads that look at themselves and at the first key; the second sentence has two of three positions
  const std::vector<double> head_self{1, 0, 0, 0, 1, 0, 0, 0, 1}, head_first{1, 0, 0, 1, 0, 0, 1, 0, 0};
  std::vector<double> values;
  for (int b = 0; b < 2; ++b) {
    values.insert(values.end(), head_self.begin(), head_self.end());
    values.insert(values.end(), head_first.begin(), head_first.end());
  }
  const Tensor weights = Tensor::from(values, {2, 2, 3, 3});
  const std::vector<std::int64_t> lengths{3, 2};
  const auto zero = attention_within(weights, lengths, 0), one = attention_within(weights, lengths, 1);
  check_near(zero[0], 100 * 4.0 / 6, 1e-9);
  check_near(zero[1], 100 * 3.0 / 4, 1e-9);
  check_near(one[0], 100 * 5.0 / 6, 1e-9);
  check_near(one[1], 100, 1e-9);
  check_near(attention_within(weights, lengths, 9)[0], 100, 1e-9);
  BOOST_TEST(contains(message_of([&] { attention_within(weights, four, 1); }), "1 lengths, 2 sentences"));
  const Tensor dynamic = Tensor::from(
      std::vector<double>{.409079, .330385, .260536, .360346, .24247, .397184, .072487, .44541, .482102}, {1, 1, 3, 3});
  const std::vector<std::int64_t> three{3};
  check_near(attention_within(dynamic, three, 0)[0], 37.788, 1e-3);
  check_near(attention_within(dynamic, three, 1)[0], 88.899, 1e-3);
}

BOOST_AUTO_TEST_CASE(lead_takes_whole_sentences) {
  const std::string article = "Mr. Smith (of the U.S. army) said: \"Stop!\" He left . `` Why ? '' asked J. Doe... No";
  const Lines parts = sentences(article);
  BOOST_TEST(parts == (Lines{"Mr. Smith (of the U.S. army) said: \"Stop!\"", "He left .", "`` Why ? ''",
                             "asked J. Doe...", "No"}));
  BOOST_TEST(lead(article, 2) == "Mr. Smith (of the U.S. army) said: \"Stop!\" He left .");
  BOOST_TEST(lead(article, 99) == join_words(split_words(article)));
  BOOST_TEST(lead("", 3) == "");
  BOOST_TEST(lead(article, 0) == "");
}

BOOST_AUTO_TEST_SUITE_END()
