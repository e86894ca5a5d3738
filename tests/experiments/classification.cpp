#include <boost/test/unit_test.hpp>

#include "experiments/support/data/agreement_data.h"
#include "experiments/support/data/generated.h"
#include "experiments/support/program/program.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/classification_report.h"
#include "experiments/support/report/paper_numbers.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "experiments/support/training/classification_experiment.h"
#include "tests/experiments/markup.h"
#include "tests/files.h"

using namespace fovea;

namespace {

/// Tiny classifiers on generated sentences, trained for a moment.
struct Trained {
  Folder folder;
  ClassificationData data = generate_agreement("generated:train=300,dev=40,test=60", false);
  std::unique_ptr<Tokenizer> tokenizer;
  EncodedData encoded;
  EncoderModelOptions model;
  BatchOptions batches;
  TrainingOptions training;
  std::vector<ComparedClassifier> compared;

  explicit Trained(const std::vector<std::string>& attentions, int seeds = 1) {
    std::vector<std::string_view> texts;
    for (const Example& example : data.train) texts.push_back(example.text);
    tokenizer = train_tokenizer({}, texts);
    encoded = encode(data, *tokenizer, 0);
    model.model_dim = 16;
    model.feed_forward_dim = 16;
    training.updates = 30;
    training.evaluate_every = 10;
    for (const std::string& attention : attentions) {
      model.attention = attention;
      ComparedClassifier each{attention, model, {}};
      for (int seed = 1; seed <= seeds; ++seed) each.runs.push_back(run(seed));
      compared.push_back(each);
    }
  }

  ClassificationSetting setting() const { return {data, encoded, tokenizer->size(), model, batches, training}; }

  FinishedRun run(int seed) const {
    const std::string& attention = model.attention;
    auto path = folder / file_name_for(attention + std::to_string(seed));
    auto directory = RunDirectory::create("test", path);
    Json configuration{{"attention", attention}};
    auto outcome = train_classifier(setting(), std::uint64_t(seed), {directory, configuration, attention, path});
    return {outcome, path};
  }

  std::string page() const {
    write_report(folder / "report.html", "agreement", setting(), *tokenizer, compared, Json{{"layers", 2}});
    return contents(folder / "report.html");
  }
};

bool paper_number_shown(const std::vector<ComparedClassifier>& compared, const std::string& corpus,
                        const std::string& number) {
  return contains(paper_table(compared, corpus)->text(), number);
}

EncodedExamples examples_of(const std::vector<std::pair<int, std::int64_t>>& labels_and_lengths) {
  EncodedExamples examples;
  for (auto [label, length] : labels_and_lengths) {
    examples.tokens.emplace_back(std::size_t(length), int(examples.size()) + special_tokens);
    examples.lengths.push_back(length);
    examples.labels.push_back(label);
    examples.groups.push_back(-1);
  }
  return examples;
}

/// Runs a program of these flags, with a tiny model; the message of what it refuses, or "no error".
std::string message_with(std::vector<std::string> flags, int* loads = nullptr) {
  flags.insert(flags.begin(), "agreement");
  std::vector<const char*> arguments;
  for (const std::string& flag : flags) arguments.push_back(flag.c_str());
  return message_of([&] {
    Cli cli("agreement", int(arguments.size()), arguments.data());
    AgreementOptions data;
    ClassificationExperiment experiment("agreement");
    cli.add(data);
    cli.add(experiment);
    cli.parse();
    experiment.run(cli, [&] {
      if (loads) ++*loads;
      return load(data);
    });
  });
}

std::vector<std::string> tiny(const std::filesystem::path& out, std::vector<std::string> more) {
  std::vector<std::string> flags{"--data",
                                 "generated:train=100,dev=20,test=20",
                                 "--model-dim",
                                 "8",
                                 "--updates",
                                 "2",
                                 "--feed-forward-dim",
                                 "8",
                                 "--threads",
                                 "1",
                                 "--out",
                                 out.string()};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(classification)

BOOST_AUTO_TEST_CASE(a_comparison_leaves_its_page_its_hypotheses_and_runs_that_label_text) {
  Folder folder;
  auto out = folder / "out";
  BOOST_TEST(message_with(tiny(out, {"--compare", "global; gaussian"})) == "no error");
  for (const char* file :
       {"report.html", "hypotheses.tsv", "global-seed-1/hypotheses.tsv", "gaussian-seed-1/report.html"})
    BOOST_TEST(std::filesystem::exists(out / file) == !contains(file, "1/report"), file);
  BOOST_TEST(markup_error(contents(out / "report.html")) == "");
  std::ofstream(folder / "new.txt") << "the boy near the dogs\n";
  auto label = [&](const std::string& model) {
    return message_with({"--model", model, "--label", (folder / "new.txt").string()});
  };
  BOOST_TEST(label((out / "global-seed-1").string()) == "no error");
  BOOST_TEST(label(out.string()) == "--model " + out.string() +
                                        ": the directory of a comparison; name one of its runs: gaussian-seed-1 or "
                                        "global-seed-1");
}

BOOST_AUTO_TEST_CASE(rows_of_a_comparison_differ_in_any_flags_of_model_and_training) {
  Folder folder;
  auto out = folder / "out";
  BOOST_TEST(message_with(tiny(out, {"--compare",
                                     "global; wide: --model-dim 12 --attention gaussian(layers=2); "
                                     "--updates 3",
                                     "--seeds", "2", "--seed", "5"})) == "no error");
  for (const char* run : {"global-seed-5", "wide-seed-6", "updates-3-seed-6"})
    BOOST_TEST(std::filesystem::exists(out / run / "best.safetensors"), run);
  Json wide = load_json(out / "wide-seed-6" / "config.json");
  BOOST_TEST(wide.at("model-dim") == 12);
  BOOST_TEST(wide.at("attention") == "gaussian(layers=2)");
  BOOST_TEST(wide.at("seed") == 6);
  BOOST_TEST(wide.at("compare") == "");
  BOOST_TEST(load_json(out / "updates-3-seed-5" / "result.json").at("updates") == 3);
  std::string page = contents(out / "report.html");
  BOOST_TEST(contains(page, "<h3>wide</h3>"));
  BOOST_TEST(contains(page, ">Layer 2, seed "));  // of the row's own attention, in its own width
  // A row is what a run of its flags alone would be.
  auto alone = folder / "alone";
  BOOST_TEST(message_with(tiny(alone, {"--model-dim", "12", "--attention", "gaussian(layers=2)", "--seed", "6"})) ==
             "no error");
  BOOST_TEST(contents(alone / "best.safetensors") == contents(out / "wide-seed-6" / "best.safetensors"));
  BOOST_TEST(message_with({"--resume", out.string()}) == "no error");  // all is there already
}

BOOST_AUTO_TEST_CASE(a_comparison_of_one_attention_can_label_text_too) {
  Folder folder;
  auto out = folder / "out";
  BOOST_TEST(message_with(tiny(out, {"--compare", "gaussian"})) == "no error");
  std::ofstream(folder / "new.txt") << "the boy near the dogs\n";
  BOOST_TEST(message_with({"--model", (out / "gaussian-seed-1").string(), "--label", (folder / "new.txt").string()}) ==
             "no error");
}

BOOST_AUTO_TEST_CASE(what_is_refused_names_its_flag_reads_no_data_and_leaves_nothing) {
  Folder folder;
  auto out = folder / "out";
  int loads = 0;
  auto refusal = [&](std::vector<std::string> more) {
    std::string message = message_with(tiny(out, more), &loads);
    BOOST_TEST(!std::filesystem::exists(out));
    return message;
  };
  BOOST_TEST(refusal({"--encoder-attention", "gausian"}) ==
             "--attention: 'gausian': no method 'gausian' (column 1); did you mean 'gaussian'?");
  BOOST_TEST(refusal({"--compare", "global; gausian"}).starts_with("--compare: 'gausian': --attention: 'gausian'"));
  BOOST_TEST(refusal({"--compare", "global; far: --min-count 3"}) ==
             "--compare: 'far': --min-count: cannot differ between the rows of a comparison");
  BOOST_TEST(refusal({"--seed", "18446744073709551615", "--seeds", "2"}) ==
             "--seed 18446744073709551615: too large for --seeds 2");
  BOOST_TEST(refusal({"--compare", "global; gaussian;global"}) == "--compare: 'global' is there twice");
  BOOST_TEST(refusal({"--heads", "5"}) == "--heads 5: must divide --model-dim 8");
  BOOST_TEST(refusal({"--schedule", "cosin"}).starts_with("--schedule: "));
  BOOST_TEST(loads == 0);
  BOOST_TEST(refusal({"--batch-tokens", "4"}).starts_with("--batch-tokens 4: "));
  BOOST_TEST(
      refusal({"--compare", "global; few: --batch-tokens 4"}).starts_with("--compare: 'few': --batch-tokens 4: "));
  BOOST_TEST(loads == 2);
}

BOOST_AUTO_TEST_CASE(a_page_has_table_curves_and_maps_of_every_attention) {
  Trained trained({"global", "relative(layers=2)", "gaussian", "window(use=additive)"}, 2);
  std::string html = trained.page();
  BOOST_TEST(markup_error(html) == "");
  BOOST_TEST(html.size() < 1'000'000u);
  for (const char* part : {"Development accuracy", "Training loss", "<h3>global</h3>", "<h3>window(use=additive)</h3>",
                           ">Layer 2, seed ", ">left pointer<", ">window<", "best seed", "over 2 seeds"})
    BOOST_TEST(contains(html, part), part << " is missing");
  BOOST_TEST(count(html, "<path class=\"band") == 8u);    // a curve with its deviation for each attention, twice
  BOOST_TEST(count(html, ">weights</text>") == 4u * 3u);  // three sentences
  BOOST_TEST(count(html, ">window</text>") == 3u);
  BOOST_TEST(contains(html, "<circle class=\"center\""));  // of gaussian
  BOOST_TEST(!contains(html, "Nguyen"));                   // the paper has nothing on generated sentences
  trained.data.corpus = "SVA";
  BOOST_TEST(contains(trained.page(), "<td class=\"number\">96.19</td>"));
  trained.compared.back().model.layers = 3;  // something else than the first row with another attention
  BOOST_TEST(!paper_number_shown(trained.compared, "SVA", "96.19"));
  BOOST_TEST(paper_number_shown(trained.compared, "SVA", "95.27"));
}

BOOST_AUTO_TEST_CASE(a_page_of_very_many_attentions_stays_small) {
  Trained trained({"window"});
  trained.compared.resize(40, trained.compared.front());
  std::string html = trained.page();
  BOOST_TEST(html.size() < 1'000'000u);
  BOOST_TEST(contains(html, "No pictures"));
}

BOOST_AUTO_TEST_CASE(hypotheses_are_the_test_texts_with_gold_and_predicted_class) {
  Trained trained({"global"});
  const FinishedRun& run = trained.compared.front().runs.front();
  auto lines = read_lines(run.directory / hypotheses_file).lines;
  BOOST_TEST(lines.front() == "text\tgold\tpredicted");
  BOOST_TEST_REQUIRE(lines.size() == trained.data.test.size() + 1);
  for (std::size_t k = 0; k < trained.data.test.size(); ++k) {
    auto columns = split_columns(lines[k + 1]);
    BOOST_TEST_REQUIRE(columns.size() == 3u);
    BOOST_TEST(columns[0] == trained.data.test[k].text);
    BOOST_TEST(columns[1] == trained.data.classes[std::size_t(trained.data.test[k].label)]);
    BOOST_TEST((columns[1] == columns[2]) == (run.outcome.correct[k] == '1'));
  }
}

BOOST_AUTO_TEST_CASE(a_finished_run_is_not_repeated_and_must_fit_the_data) {
  Trained trained({"global"});
  const FinishedRun& first = trained.compared.front().runs.front();
  auto directory = RunDirectory::resume(first.directory);
  Json configuration{{"attention", "global"}};
  TrainingRun run{directory, configuration, "global", first.directory};
  std::filesystem::remove(directory.checkpoint());
  BOOST_TEST(train_classifier(trained.setting(), 1, run).correct == first.outcome.correct);
  BOOST_TEST(!std::filesystem::exists(directory.checkpoint()));
  trained.data.test.pop_back();
  BOOST_TEST(contains(message_of([&] { train_classifier(trained.setting(), 1, run); }),
                      "result.json: the result of 60 test examples; the data has 59"));
}

BOOST_AUTO_TEST_CASE(the_best_run_is_the_best_on_the_development_set) {
  auto with = [](double dev, const std::string& correct) {
    FinishedRun run;
    run.outcome.dev_accuracy = dev;
    run.outcome.correct = correct;
    return run;
  };
  std::vector<ComparedClassifier> compared{{"a", {}, {with(50, "11"), with(70, "01")}}, {"b", {}, {with(60, "11")}}};
  BOOST_TEST(best_of(compared).title == "a");
  BOOST_TEST(best_of(compared).best().outcome.dev_accuracy == 70);
  BOOST_TEST((compared[0].accuracies() == std::vector<double>{100, 50}));
  BOOST_TEST((compared[0].scores_by_example() == std::vector<double>{50, 100}));
}

BOOST_AUTO_TEST_CASE(shown_sentences_are_of_all_classes_and_fit_a_map) {
  auto examples = examples_of({{0, 300}, {0, 9}, {0, 12}, {1, 40}, {1, 17}, {0, 16}, {1, 5}});
  BOOST_TEST((sentences_to_show(examples, 3) == std::vector<std::size_t>{1, 4, 2}));
  examples.groups[5] = 4;
  BOOST_TEST((sentences_to_show(examples, 2) == std::vector<std::size_t>{5, 4}));
  examples.tokens[1] = examples.tokens[2] = examples.tokens[5];
  BOOST_TEST((sentences_to_show(examples, 3) == std::vector<std::size_t>{5, 4, 6}));
  BOOST_TEST(sentences_to_show(examples, 99).size() == 5u);
}

BOOST_AUTO_TEST_CASE(the_layer_shown_carries_the_method) {
  BOOST_TEST(first_layer_of("global") == 0);
  BOOST_TEST(first_layer_of("gaussian") == 0);
  BOOST_TEST(first_layer_of("global + gaussian(window=head, layers=2-3)") == 1);
  BOOST_TEST(first_layer_of("relative(layers=3) + gaussian(layers=2)") == 1);
  BOOST_TEST(first_layer_of("heads(global*2, window(layers=2)*2)") == 1);
}

BOOST_AUTO_TEST_CASE(the_papers_numbers_stand_beside_the_papers_methods_only) {
  auto number = [](const std::string& corpus, const std::string& attention) {
    auto row = paper_row(corpus, attention);
    return row ? row->accuracy : 0;
  };
  BOOST_TEST(number("SST-2", "global") == 79.36);
  BOOST_TEST(number("IMDB", "relative(clip=8)") == 84.61);
  BOOST_TEST(number("SVA", "gaussian(layers=1)") == 95.00);
  BOOST_TEST(number("IMDB", "window(layers=1)") == 85.09);
  BOOST_TEST(number("SST-2", "window(use=additive, layers=1)") == 82.13);
  for (const char* other : {"gaussian(window=fixed)", "relative + gaussian", "window(segment=5)", "heads(global*4)"})
    BOOST_TEST(number("SVA", other) == 0, other);
  BOOST_TEST(number("", "global") == 0);
}

BOOST_AUTO_TEST_SUITE_END()
