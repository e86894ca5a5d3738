// The page of the sequence programs.
#include <fstream>

#include <boost/test/unit_test.hpp>

#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

const std::string hostile = "<script>alert('&')</script>";

/// The page of a program with these flags, on a dozen pairs whose texts and names are hostile.
std::string page_of(const std::string& program, const std::vector<std::string>& flags) {
  Folder folder;
  std::filesystem::create_directory(folder / "data");
  for (const char* part : {"train", "dev", "test"}) {
    std::ofstream source(folder / "data" / (part + std::string(".en"))),
        target(folder / "data" / (part + std::string(".de")));
    for (int k = 0; k < 12; ++k) {
      source << "the " << hostile << " dog " << part << " a b c d " << k << "\n";
      target << "der " << hostile << " hund a b c " << k << "\n";
    }
  }
  succeeded(
      ended(program, tiny((folder / "out").string(),
                          joined({"--data", (folder / "data").string(), "--target", "de", "--layers", "2"}, flags))));
  std::string page = contents(folder / "out" / "report.html");
  BOOST_TEST(markup_error(page) == "");
  BOOST_TEST(page.size() < 1'500'000u);
  for (const char* outside : {"<script", "src=", "url(", "href=\"http"}) BOOST_TEST(!contains(page, outside));
  return page;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_reports)

BOOST_AUTO_TEST_CASE(a_page_has_scores_curves_examples_and_what_every_model_looks_at) {
  std::string page = page_of(
      "translate", {"--source", "en", "--longest", "12", "--seeds", "2", "--compare",
                    "global; <b>window</b>: --attention window(use=additive) --cross-attention gaussian(layers=2); "
                    "flexible: --architecture rnn --attention classic(additive+flexible) --readout-dim 4"});
  for (const char* heading :
       {">Scores<", ">Development set, mean ± deviation of seeds<", ">Examples<", ">Attention<", ">Configuration<"})
    BOOST_TEST(contains(page, heading), heading);
  // Tables: the test's, each metric with p and interval, and the texts.
  for (const char* text :
       {"its 95 % interval", "two-sided paired bootstrap", "steps/s", "over 2 seeds", "reference", "input, sentence 0"})
    BOOST_TEST(contains(page, text), text);
  BOOST_TEST(count(page, "<td>&lt;b&gt;window&lt;/b&gt;</td>") >= 1u + 2u + 6u);
  BOOST_TEST(contains(page, "der &lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt; hund"));
  BOOST_TEST(count(page, "<path class=\"band") == 6u);  // three models, twice
  // Two sentences of two Transformers with three attentions each, in the same layers, and of an RNN.
  BOOST_TEST(count(page, ": weights</text>") == 2u * (3 + 3 + 1));
  BOOST_TEST(count(page, ">over the source, layer 2: weights<") == 2u * 2);
  BOOST_TEST(count(page, ">encoder, layer 1: weights<") == 2u * 2);
  for (const char* title : {">over the source, layer 2: weights<", ">encoder, layer 1: window<",
                            ">decoder, layer 1: weights<", ">over the source: gate<"})
    BOOST_TEST(count(page, title) >= 2u, title);
  BOOST_TEST(contains(page, "<circle class=\"center\""));  // of the Gaussian, and the focus
}

BOOST_AUTO_TEST_CASE(a_language_model_has_a_page_without_examples) {
  std::string page = page_of("language_model", {"--compare", "window; relative", "--updates", "2"});
  BOOST_TEST(contains(page, ">decoder, layer 1: window<"));
  BOOST_TEST(contains(page, "<td>perplexity</td>"));
  BOOST_TEST(!contains(page, ">Examples<"));
  BOOST_TEST(!contains(page, ">over the source"));
  BOOST_TEST(contains(page, "<p>der &lt;script&gt;"));
}

BOOST_AUTO_TEST_CASE(a_page_of_very_many_models_stays_small) {
  std::string rows;
  for (int k = 0; k < 14; ++k)
    rows += "row" + std::to_string(k) + ": --attention window --cross-attention window --clip 1;";
  std::string page = page_of("translate", {"--source", "en", "--longest", "3", "--updates", "1", "--compare", rows});
  BOOST_TEST(contains(page, "pictures are left out, because the page would become too large"));
  // Every model keeps its first sentence.
  BOOST_TEST(contains(page, "<h3>row13</h3>"));
  BOOST_TEST(count(page, ">encoder, layer 1: weights<") >= 14u);
}

BOOST_AUTO_TEST_SUITE_END()
