// Classifiers as the programs train them, and what they leave.
#include <algorithm>
#include <tuple>

#include <boost/test/unit_test.hpp>

#include "experiments/support/data/generated.h"
#include "experiments/support/data/labelled_texts.h"
#include "experiments/support/program/program.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/comparison_report.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

Ended agreement(const std::vector<std::string>& flags) { return ended("agreement", flags); }

std::vector<TestedExample> examples_of(const std::vector<std::pair<std::string, std::size_t>>& classes_and_lengths) {
  std::vector<TestedExample> examples;
  for (const auto& [name, length] : classes_and_lengths)
    examples.push_back({.input = fmt::format("text {}", examples.size()), .reference = name, .probabilities = {1, 0}});
  return examples;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(classification)

BOOST_AUTO_TEST_CASE(a_comparison_leaves_its_page_its_examples_and_runs_that_label_text) {
  Folder folder;
  const std::string out = (folder / "out").string();
  succeeded(agreement(tiny_classifier(out, {"--compare", "global; gaussian"})));
  for (const char* file : {"report.html", "config.json", "run.json", "data.json", "global-seed-1/examples.test.jsonl",
                           "global-seed-1/log.jsonl", "global-seed-1/config.json", "gaussian-seed-1/pictures.json",
                           "gaussian-seed-1/result.json", "gaussian-seed-1/report.html"})
    BOOST_TEST(std::filesystem::exists(folder / "out" / file) == !contains(file, "1/report"), file);
  BOOST_TEST(markup_error(contents(folder / "out" / "report.html")) == "");
  std::ofstream(folder / "new.txt") << "the boy near the dogs\nthe boys\n";
  auto label = [&](const std::string& model, const std::vector<std::string>& more = {}) {
    return agreement(joined({"--model", model, "--label", (folder / "new.txt").string()}, more));
  };
  const std::string model = out + "/global-seed-1";
  const Ended labels = succeeded(label(model)), probabilities = succeeded(label(model, {"--probabilities"}));
  std::istringstream of_labels(labels.out), of_both(probabilities.out);
  int lines = 0;
  for (std::string name, line; std::getline(of_labels, name); ++lines) {
    BOOST_TEST((name == "singular" || name == "plural"), name);
    BOOST_TEST_REQUIRE(bool(std::getline(of_both, line)));
    const auto columns = split_columns(line);
    BOOST_TEST_REQUIRE(columns.size() == 3u, line);
    BOOST_TEST(columns[0] == name);
    double sum = 0, largest = 0, own = 0;
    for (std::string_view column : {columns[1], columns[2]}) {
      const double p = std::stod(std::string(column.substr(column.find('=') + 1)));
      if (column.substr(0, column.find('=')) == name) own = p;
      sum += p;
      largest = std::max(largest, p);
    }
    BOOST_TEST(sum == 1, boost::test_tools::tolerance(2e-4));
    BOOST_TEST(own == largest, line);
  }
  BOOST_TEST(lines == 2);
  BOOST_TEST(label(out).err == "agreement: --model " + out +
                                   ": is the directory of a comparison; name one of its runs: gaussian-seed-1 or "
                                   "global-seed-1\n");
  BOOST_TEST(agreement({"--model", model}).err ==
             "agreement: --label and --model need each other: --model runs/NAME --label FILE\n");
  BOOST_TEST(agreement({"--probabilities"}).err == "agreement: --probabilities: only with --label\n");
}

BOOST_AUTO_TEST_CASE(rows_of_a_comparison_differ_in_any_flags_of_model_and_training) {
  Folder folder;
  const std::filesystem::path out = folder / "out";
  succeeded(agreement(tiny_classifier(
      out.string(), {"--compare", "global; wide: --model-dim 12 --attention gaussian(layers=2); --updates 3", "--seeds",
                     "2", "--seed", "5"})));
  for (const char* run : {"global-seed-5", "wide-seed-6", "updates-3-seed-6"})
    BOOST_TEST(std::filesystem::exists(out / run / "best.safetensors"), run);
  const Json wide = load_json(out / "wide-seed-6" / "config.json");
  BOOST_TEST(wide.at("model-dim") == 12);
  BOOST_TEST(wide.at("attention") == "gaussian(layers=2)");
  BOOST_TEST(wide.at("seed") == 6);
  BOOST_TEST(wide.at("compare") == "");
  BOOST_TEST(load_json(out / "updates-3-seed-5" / "result.json").at("training").at("updates") == 3);
  const std::string page = contents(out / "report.html");
  BOOST_TEST(contains(page, "<h3>wide</h3>"));
  BOOST_TEST(contains(page, ">layer 2: weights</text>"));  // of the row's own attention, in its own width
  // A row is what a run of its flags alone would be.
  const std::filesystem::path alone = folder / "alone";
  succeeded(agreement(
      tiny_classifier(alone.string(), {"--model-dim", "12", "--attention", "gaussian(layers=2)", "--seed", "6"})));
  BOOST_TEST(contents(alone / "best.safetensors") == contents(out / "wide-seed-6" / "best.safetensors"));
  succeeded(agreement({"--resume", out.string()}));  // all is there already
}

BOOST_AUTO_TEST_CASE(a_row_has_its_own_precision) {
  Folder folder;
  const std::filesystem::path out = folder / "out", alone = folder / "alone";
  const std::vector<std::string> model{"--model-dim", "32", "--precision", "bf16"};
  succeeded(agreement(tiny_classifier(alone.string(), model)));
  succeeded(agreement(tiny_classifier(out.string(), {"--model-dim", "32", "--compare",
                                                     "f32: --precision f32; half: --precision bf16; "
                                                     "again: --precision f32"})));
  auto best = [](const std::filesystem::path& run) { return contents(run / "best.safetensors"); };
  BOOST_TEST(best(out / "half-seed-1") == best(alone));
  BOOST_TEST(best(out / "half-seed-1") != best(out / "f32-seed-1"));
  BOOST_TEST(best(out / "again-seed-1") == best(out / "f32-seed-1"));
}

BOOST_AUTO_TEST_CASE(the_texts_of_a_file_are_labelled_one_by_one) {
  const Folder folder;
  const std::string out = (folder / "out").string();
  succeeded(agreement(tiny_classifier(out, {"--compare", "gaussian"})));
  struct Case {
    std::string name, text;
    int labels;
    std::string err = "";
    int status = 0;
  };
  for (const Case& one : std::vector<Case>{
           {"a.txt", "the boys\n\n the dog\n", 3},  // a blank line is a blank text
           {"a", "two\tcolumns\nno label\n", 2},
           {"a.txt", "", 0},
           {"a.txt", "the dog\n\xff\n", 1, "a.txt:2: byte 1 is 0xff: not valid UTF-8", 2},
           {"a.tsv", "label\tsentence\npos\tthe dog\n\nneg\tthe boys\n", 3, "a.tsv: labels are for column sentence\n"},
           {"a.tsv", "text\tlabel\nthe dog\tpos\nb\n", 1, "a.tsv:3: 1 column, expected 2 as in the first line", 2},
           {"a.csv", "\"the dog, the\"\nboys\n", 2, "a.csv: labels are for column 1\n"},
           {"a.csv", "a,b,c\n", 0, "a.csv:1: 3 columns (a, b, c), expected 1 (TEXT); --columns TEXT chooses", 2},
           {"a.jsonl", "{\"id\": 1, \"text\": \"the dog\"}\n\n{\"text\": \"boys\"}\n", 3, "labels are for key text\n"},
           {"a.jsonl", "{\"t\": \"the dog\"}\n", 0, "a.jsonl:1: 1 key (t), expected 1 (TEXT)", 2}}) {
    const std::string file = folder.write(one.name, one.text).string();
    const Ended done = agreement({"--model", out + "/gaussian-seed-1", "--label", file});
    BOOST_TEST(done.status == one.status, done.err);
    BOOST_TEST(std::ranges::count(done.out, '\n') == one.labels, one.text);
    BOOST_TEST((one.err.empty() ? done.err.empty() : contains(done.err, one.err)), done.err);
  }
  // options of earlier versions are no obstacle where they changed nothing
  const std::filesystem::path file = folder / "out/gaussian-seed-1/config.json";
  for (const auto& [codes, status] : {std::pair("", 0), std::pair("learnt.txt", 2)}) {
    Json configuration = load_json(file);
    configuration["format"] = "auto";
    configuration["codes"] = codes;
    save_json(file, configuration);
    const Ended done =
        agreement({"--model", out + "/gaussian-seed-1", "--label", folder.write("new.txt", "the dog\n").string()});
    BOOST_TEST(done.status == status, done.err);
  }
}

BOOST_AUTO_TEST_CASE(a_trained_run_labels_texts_without_the_run_that_it_began_with) {
  Folder folder;
  const std::string first = folder / "first", second = folder / "second", text = folder.write("text", "a b\n");
  succeeded(ended("sentiment", tiny_classifier(first)));
  succeeded(ended("sentiment", tiny_classifier(second, {"--init", first})));
  std::filesystem::remove_all(first);
  succeeded(ended("sentiment", {"--model", second, "--label", text}));
}

BOOST_AUTO_TEST_CASE(test_texts_that_are_also_training_texts_are_counted) {
  const auto lines = [](int first, int last, const std::string& label, const std::string& line) {
    std::string text;
    for (int i = first; i < last; ++i) text += fmt::format("{} {}{}\n", line, i, label.empty() ? "" : "\t" + label);
    return text;
  };
  for (const auto& [program, ending, label, line, expected] :
       {std::tuple("sentiment", ".tsv", "x", "text", "2 of 200 test texts and 9 of 100 development texts"),
        std::tuple("language_model", ".txt", "", "a line of more than forty characters, of a book",
                   "2 of 200 test texts and 9 of 100 development texts"),
        std::tuple("language_model", ".txt", "", "Title", "")}) {
    const Folder folder;
    folder.write(std::string("train") + ending, lines(0, 300, label, line) + lines(900, 901, *label ? "y" : "", line));
    folder.write(std::string("dev") + ending, lines(291, 391, label, line));
    folder.write(std::string("test") + ending, lines(298, 498, label, line));
    const Ended done = succeeded(
        ended(program, {"--data", folder.path.string(), "--updates", "1", "--model-dim", "8", "--feed-forward-dim", "8",
                        "--layers", "1", "--min-count", "1", "--out", (folder / "out").string()}));
    BOOST_TEST(
        contains(done.out, std::string("warning: ") + expected + " are also training texts\n") == (*expected != 0),
        done.out);
  }
}

BOOST_AUTO_TEST_CASE(what_is_refused_names_its_flag_reads_no_data_and_leaves_nothing) {
  Folder folder;
  const std::string out = (folder / "out").string();
  bool has_read = false;
  auto refusal = [&](const std::vector<std::string>& more) {
    const Ended refused = agreement(tiny_classifier(out, more));
    BOOST_TEST(refused.status == 2);
    BOOST_TEST(!std::filesystem::exists(out));
    has_read = !refused.out.empty();  // the line about the data
    return refused.err;
  };
  auto refuses = [&](const std::vector<std::string>& more, const std::string& message, bool reads = false) {
    const std::string error = refusal(more);
    BOOST_TEST(error.starts_with("agreement: " + message), error);
    BOOST_TEST(has_read == reads);
  };
  refuses({"--encoder-attention", "gausian"},
          "--attention: 'gausian': no method 'gausian' (column 1); did you mean 'gaussian'?\n");
  refuses({"--compare", "global; gausian"}, "--compare: 'gausian': --attention: 'gausian'");
  refuses({"--compare", "global; far: --min-count 3"},
          "--compare: 'far': --min-count: cannot differ between the rows of a comparison\n");
  refuses({"--compare", "global; far: --seeds 3"}, "--compare: 'far': --seeds: cannot differ between the rows");
  refuses({"--compare", "global; far: --seed 3"}, "--seed=3: cannot differ between rows and trials");
  refuses({"--search", "seed={1,2}"}, "--seed=1: cannot differ between rows and trials");
  refuses({"--compare", "global; far: --label x"}, "--compare: 'far': --label: cannot differ between the rows");
  refuses({"--compare", "global; far: --config x"}, "--compare: 'far': --config: cannot differ between the rows");
  refuses({"--compare", "global; far: --layer 3"}, "--compare: 'far': --layer: no such flag; did you mean '--layers'?");
  refuses({"--seed", "18446744073709551615", "--seeds", "2"}, "--seed 18446744073709551615: too large for --seeds 2\n");
  refuses({"--compare", "global; gaussian;global"},
          "--compare: there are two rows 'global'; rows need different names\n");
  refuses({"--heads", "5"}, "--heads 5: must divide --model-dim 8\n");
  refuses({"--schedule", "cosin"}, "--schedule: ");
  refuses({"--compare", "global; bad: --schedule cosin"}, "--compare: 'bad': --schedule: ");
  refuses({"--batch-tokens", "4"}, "--batch-tokens 4: ", true);
  refuses({"--compare", "global; few: --batch-tokens 4"}, "--compare: 'few': --batch-tokens 4: ", true);
}

BOOST_AUTO_TEST_CASE(a_page_has_table_curves_and_maps_of_every_attention) {
  Folder folder;
  const std::filesystem::path out = folder / "out";
  succeeded(agreement(
      tiny_classifier(out.string(), {"--compare", "global; relative(layers=2); gaussian; window(use=additive)",
                                     "--seeds", "2", "--updates", "30", "--evaluate-every", "10"})));
  const std::string html = contents(out / "report.html");
  BOOST_TEST(markup_error(html) == "");
  BOOST_TEST(html.size() < 1'000'000u);
  for (const char* part : {"Development set", "Training loss", "<h3>global</h3>", "<h3>window(use=additive)</h3>",
                           ">layer 1: weights</text>", ">layer 1: left pointer<", ">layer 1: window<", "<p>Seed ",
                           "mean ± standard deviation over 2 seeds", "attractors: 0", ">Examples<"})
    BOOST_TEST(contains(html, part), part << " is missing");
  BOOST_TEST(count(html, "<path class=\"band") == 8u);     // a curve with its deviation for each attention, twice
  BOOST_TEST(count(html, ": weights</text>") == 4u * 3u);  // three sentences
  BOOST_TEST(count(html, ": window</text>") == 3u);
  BOOST_TEST(contains(html, "<circle class=\"center\""));  // of gaussian
  BOOST_TEST(!contains(html, "Beside the papers"));        // their methods are in layer 1 only

  // On a page of very many attentions each keeps some pictures, and the page says that others are left out.
  const RunResult run = *load_result(out / "window-use=additive-seed-1");
  ComparisonReport report{.title = "agreement", .groups = {{"", {}}}};
  report.groups.front().rows.resize(80, {"window(use=additive)", "", {run}});
  const std::string many = contents_of(finding_of(report), Format::html);
  BOOST_TEST(many.size() < 8'000'000u);
  BOOST_TEST(markup_error(many) == "");
  BOOST_TEST(count(many, "<h3>window(use=additive)</h3>") == 80u);
  BOOST_TEST(count(many, "layer 1: weights</text>") >= 80u);
  BOOST_TEST(contains(many, "pictures are left out, because the page would become too large"));
}

BOOST_AUTO_TEST_CASE(examples_are_the_test_texts_with_gold_and_predicted_class) {
  Folder folder;
  const std::string out = (folder / "out").string();
  succeeded(agreement(tiny_classifier(out)));
  const LabelledTexts data(*generate_agreement("generated:train=100,dev=20,test=20", false));
  const std::vector<TextPair>& texts = data[Part::test];
  const std::optional<RunResult> run = load_result(out);
  const std::vector<TestedExample>& examples = run->tests.at(0).examples;
  BOOST_TEST_REQUIRE(examples.size() == texts.size());
  double right = 0, right_without_attractors = 0, without_attractors = 0;
  for (std::size_t k = 0; k < texts.size(); ++k) {
    const TestedExample& example = examples[k];
    BOOST_TEST(example.input == texts[k].source);
    BOOST_TEST(example.reference == texts[k].target);
    BOOST_TEST(example.group == texts[k].group);
    BOOST_TEST_REQUIRE(example.probabilities.size() == 2u);
    BOOST_TEST(example.probabilities[0] + example.probabilities[1] == 1, boost::test_tools::tolerance(1e-5));
    BOOST_TEST(example.hypothesis == data.labels[example.probabilities[0] < example.probabilities[1]]);
    const bool is_right = example.hypothesis == example.reference;
    right += is_right;
    if (example.group == 0) right_without_attractors += is_right, ++without_attractors;
  }
  const Json result = load_json(folder / "out" / "result.json"), test = result.at("tests").at("test");
  BOOST_TEST(test.at("scores").at("accuracy %").get<double>() == 100 * right / 20, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(test.at("measurements")[0].at("name") == "attractors: 0");
  BOOST_TEST(
      test.at("measurements")[0].at("value").get<double>() == 100 * right_without_attractors / without_attractors,
      boost::test_tools::tolerance(1e-9));
  BOOST_TEST(result.at("row") == "global");
  BOOST_TEST(result.at("seed") == 1);
  BOOST_TEST(result.at("training").at("updates") == 2);
  BOOST_TEST(result.at("training").at("selected_by") == "accuracy");
  BOOST_TEST(result.at("goal").at("updates") == 2);
  BOOST_TEST(result.at("parameters").get<int>() > 100);
  BOOST_TEST(result.at("checksums").size() == 5u);  // of examples, log, pictures, model and result.json itself
  const Json starts = load_json(folder / "out" / "run.json");
  BOOST_TEST(starts.at(0).at("command").get<std::string>().starts_with("agreement --data generated:train=100"));
}

BOOST_AUTO_TEST_CASE(shown_sentences_are_of_all_classes_and_fit_a_map) {
  const std::vector<std::int64_t> lengths{300, 9, 12, 40, 17, 16, 5};
  std::vector<TestedExample> examples =
      examples_of({{"a", 300}, {"a", 9}, {"a", 12}, {"b", 40}, {"b", 17}, {"a", 16}, {"b", 5}});
  using Indices = std::vector<std::size_t>;
  BOOST_TEST((examples_to_show(examples, lengths, 3) == Indices{1, 4, 2}));
  examples[5].group = 4;
  BOOST_TEST((examples_to_show(examples, lengths, 2) == Indices{5, 4}));
  examples[1].input = examples[2].input = examples[5].input;
  BOOST_TEST((examples_to_show(examples, lengths, 3) == Indices{5, 4, 6}));
  BOOST_TEST(examples_to_show(examples, lengths, 99).size() == 5u);
  for (TestedExample& example : examples) example.probabilities.clear();  // without classes, the order alone counts
  BOOST_TEST((examples_to_show(examples, lengths, 3) == Indices{5, 4, 6}));
}

BOOST_AUTO_TEST_SUITE_END()
