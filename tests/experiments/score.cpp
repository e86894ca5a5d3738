// Scores of files, and what is printed of them.
#include <boost/test/unit_test.hpp>

#include "experiments/support/metrics/text_metrics.h"
#include "experiments/support/report/comparison_table.h"
#include "tests/files.h"

using namespace fovea;

namespace {

TextFile file(const std::string& name, const std::vector<std::string>& lines) { return {.name = name, .lines = lines}; }

const TextFile hypotheses = file("hyp", {"the cat sat on mat .", "there is the cat on the the mat",
                                         "he was interested in world history because he read the book"});
const std::vector<TextFile> references{file("ref", {"The cat sat on the mat .", "there is a cat on the mat",
                                                    "he read the book because he was interested in world history"})};

std::string refusal(const std::string& metric, const TextFile& ours, const std::vector<TextFile>& theirs) {
  return message_of([&] { text_scores(metric, ours, theirs); });
}

TextScore score(const std::string& metric, const TextMetricOptions& options = {}) {
  return text_scores(metric, hypotheses, references, options).at(0);
}

void check_near(double value, double expected) { BOOST_TEST(std::abs(value - expected) < 5e-5, value); }

}  // namespace

BOOST_AUTO_TEST_SUITE(score_files)

BOOST_AUTO_TEST_CASE(each_metric_has_its_own_case) {
  check_near(score("bleu", {.lower_case = true}).metric.value(), 56.9558);
  BOOST_TEST(score("bleu").metric.value() < 56);
  check_near(score("ribes").metric.value(), 0.750013);
  BOOST_TEST(score("ribes", {.lower_case = false}).metric.value() < 0.75);
  const auto mteval = text_scores("mteval", hypotheses, references);
  BOOST_REQUIRE_EQUAL(mteval.size(), 2u);
  check_near(mteval[0].metric.value(), 56.9558);
  BOOST_TEST(mteval[1].metric.value() < 56);
  BOOST_TEST(contains(score("sacrebleu", {.lower_case = true}).line, "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|"));
  BOOST_TEST(contains(score("sacrebleu", {.tokenization = Tokenization::characters}).line, "|tok:char|"));
}

BOOST_AUTO_TEST_CASE(an_infinite_score_has_no_interval) {
  const auto scores = text_scores("perplexity", file("nll", {"800"}), std::vector{file("t", {"a"})});
  const std::string table = score_table(score_rows({"a", "b"}, {scores, scores}, {}));
  BOOST_TEST((contains(table, "inf") && !contains(table, "nan")), table);
}

BOOST_AUTO_TEST_CASE(every_metric_can_be_had_by_its_name) {
  const TextFile numbers = file("nll", {"2 3 1", "0.5"}), links = file("links", {"0-0 1-1", "2-0"});
  for (const TextMetric& metric : text_metrics()) {
    const bool of_text = metric.name != "perplexity" && metric.name != "aer";
    const TextFile& ours = of_text ? hypotheses : metric.name == "aer" ? links : numbers;
    const std::vector<TextFile> theirs{of_text ? references[0] : metric.name == "aer" ? links : file("t", {"a b", ""})};
    for (const TextScore& score : text_scores(metric.name, ours, theirs)) {
      BOOST_TEST(score.metric.examples() == ours.lines.size(), score.name);
      BOOST_TEST(std::isfinite(score.metric.value()), score.name);
    }
  }
  check_near(text_scores("perplexity", file("nll", {"2 3 1"}), std::vector{file("t", {"a"})})[0].metric.value(),
             7.389056);
  check_near(text_scores("perplexity", file("nll", {"2 3 1"}), std::vector{file("t", {"a"})})[1].metric.value(),
             20.085537);
  BOOST_TEST(text_scores("ngrams", hypotheses, references).size() == 18u);
  const TextFile labels = file("a", {"POS", "NEG ", "POS", "POS"});
  const std::vector<TextFile> gold{file("b", {"POS", "NEG", "NEG", "POS"})};
  BOOST_TEST(text_scores("accuracy", labels, gold)[0].metric.value() == 75.0);
  const TextFile blank = file("c", {"", " "});
  BOOST_TEST(text_scores("word-accuracy", blank, std::vector{blank})[0].metric.value() == 0);
}

BOOST_AUTO_TEST_CASE(any_of_several_references_is_right) {
  std::vector<TextFile> two = references;
  two.push_back(hypotheses);
  check_near(text_scores("bleu", hypotheses, two)[0].metric.value(), 100);
  check_near(text_scores("rouge", hypotheses, two)[0].metric.value(), 1);
  check_near(text_scores("ribes", hypotheses, two)[0].metric.value(), 1);
  BOOST_TEST(contains(text_scores("sacrebleu", hypotheses, two)[0].line, "nrefs:2"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_scored_is_refused_with_its_place) {
  BOOST_TEST(
      refusal("blue", hypotheses, references) ==
      "--metrics: there is no metric 'blue': one of bleu, sacrebleu, mteval, ngrams, sentence-bleu, chrf, chrf++, "
      "ribes, rouge, accuracy, word-accuracy, perplexity or aer; did you mean 'bleu'?");
  BOOST_TEST(refusal("bleu", hypotheses, {file("short", {"one"})}) == "short: 1 line, hyp has 3");
  BOOST_TEST(refusal("bleu", file("none", {}), references) == "none: the file is empty");
  BOOST_TEST(contains(refusal("bleu", hypotheses, {}), "no reference"));
  BOOST_TEST(contains(refusal("perplexity", file("n", {"1.5", "1 x"}), {file("t", {"a", "b"})}), "n:2: 'x', expected"));
  BOOST_TEST(contains(refusal("perplexity", file("n", {"inf"}), {file("t", {"a"})}), "n:1: 'inf', expected"));
  BOOST_TEST(
      contains(refusal("perplexity", file("n", {"1.5 -2"}), {file("t", {"a"})}), "n:1: '-2', expected a token's "));
  BOOST_TEST(contains(refusal("perplexity", file("n", {""}), {file("t", {"a"})}), "n:1: no token"));
  BOOST_TEST(contains(refusal("aer", file("l", {"0-1", "0:1"}), {file("g", {"0-1", "0-1"})}), "l:2: '0:1': expected"));
  BOOST_TEST(contains(refusal("aer", file("l", {"0-1"}), {file("g", {"0-1"}), file("h", {"0-1"})}), "2 references"));
}

BOOST_AUTO_TEST_CASE(tables_compare_systems_with_the_first) {
  const auto scores = [](const TextFile& system) { return text_scores("bleu", system, references); };
  const BootstrapOptions options{.resamples = 200};
  const auto one = score_rows({"hyp"}, {scores(hypotheses)}, options);
  BOOST_TEST(contains(score_table(one), "95 % interval"));
  BOOST_TEST(contains(score_table(one), "\nBLEU = "));
  BOOST_TEST(!one[0].contains("difference"));

  const auto two = score_rows({"hyp", "ref"}, {scores(hypotheses), scores(references[0])}, options);
  BOOST_TEST(contains(score_table(two), "  100.00  "));
  BOOST_TEST(contains(score_table(two), "\nref: BLEU = 100.00"));
  const Json& json = two[1];
  BOOST_TEST(json.at("metric") == "BLEU");
  BOOST_TEST(json.at("difference").get<double>() ==
             two[1].at("value").get<double>() - two[0].at("value").get<double>());
  BOOST_TEST(json.at("p").get<double>() < 0.01);
  BOOST_TEST(json.at("low").get<double>() == 100.0);

  const auto bare = score_rows({"hyp", "ref"}, {scores(hypotheses), scores(references[0])}, {.resamples = 0});
  BOOST_TEST(bare[1].at("difference").get<double>() == json.at("difference").get<double>());
  BOOST_TEST(!bare[1].contains("p"));
  BOOST_TEST(!bare[0].contains("low"));
}

BOOST_AUTO_TEST_SUITE_END()
