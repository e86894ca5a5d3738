#include "experiments/support/report/classification_report.h"

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/learning_curves.h"
#include "experiments/support/report/paper_numbers.h"

namespace fovea {

namespace {

std::vector<CurveRuns> curves_of(const std::vector<ComparedClassifier>& compared) {
  std::vector<CurveRuns> curves;
  for (const ComparedClassifier& each : compared) {
    curves.push_back({each.title, {}});
    for (const FinishedRun& run : each.runs) curves.back().runs.push_back(run.directory);
  }
  return curves;
}

void add_paper(Report& report, const std::vector<ComparedClassifier>& compared, const ClassificationSetting& setting,
               const Tokenizer& tokenizer) {
  auto table = paper_table(compared, setting.data.corpus);
  if (!table) return;
  report.section("Beside the paper").add(*table, fmt::format("Nguyen et al. 2020, Table 5, {}.", setting.data.corpus));
  report.text(fmt::format(
      "What differs: the paper: {}; its windows in layer 1 only; one number a row, without deviation. Here: {} "
      "updates on {} texts, {}, tested on {} texts; layers as in the attention's name (all where it says none).",
      paper_setting(setting.data.corpus), compared.front().runs.front().outcome.updates, setting.data.train.size(),
      tokenizer.description(), setting.data.test.size()));
}

/// "“the boys near the dog”: plural, predicted wrongly."
std::string sentence_text(const ClassificationData& data, std::size_t example, bool is_right) {
  constexpr std::size_t longest = 300;
  const Example& shown = data.test[example];
  return fmt::format("“{}”: {}, predicted {}.", shortened(shown.text, longest),
                     data.classes[static_cast<std::size_t>(shown.label)], is_right ? "rightly" : "wrongly");
}

std::vector<ModelPictures> pictures_of_all(const ClassificationSetting& setting, const Tokenizer& tokenizer,
                                           const std::vector<ComparedClassifier>& compared) {
  constexpr std::size_t sentences = 3;
  const std::vector<std::size_t> examples = sentences_to_show(setting.encoded.test, sentences);
  std::vector<ModelPictures> all;
  for (const ComparedClassifier& each : compared) {
    const int layer = first_layer_of(each.model.attention);
    ModelPictures model{each.title, fmt::format("Layer {}, seed {}.", layer + 1, each.best().outcome.seed), {}};
    auto trained = load_classifier(each.best().directory, each.model);
    for (std::size_t example : examples)
      model.sentences.push_back({sentence_text(setting.data, example, each.best().outcome.correct[example] == '1'),
                                 pictures_of(*trained.model, setting.encoded.test.tokens[example], tokenizer, layer)});
    all.push_back(std::move(model));
  }
  return all;
}

}  // namespace

std::optional<Table> paper_table(const std::vector<ComparedClassifier>& compared, const std::string& corpus) {
  Table table({"the paper's name", "model", "ours %", "paper %"});
  bool has_any = false;
  for (const ComparedClassifier& each : compared) {
    EncoderModelOptions as_first = each.model;
    as_first.attention = compared.front().model.attention;
    auto row = as_first == compared.front().model ? paper_row(corpus, each.model.attention) : std::nullopt;
    has_any = has_any || row;
    table.row({row ? Cell(row->name) : Cell(), each.title, Cell::mean_of(each.accuracies(), 2),
               row ? Cell::number(row->accuracy, 2) : Cell()});
  }
  return has_any ? std::optional(table) : std::nullopt;
}

void write_report(const std::filesystem::path& path, const std::string& program, const ClassificationSetting& setting,
                  const Tokenizer& tokenizer, const std::vector<ComparedClassifier>& compared,
                  const Json& configuration) {
  Report report(program, describe(setting.data));
  report.section("Accuracy").add(comparison_table(compared, setting.data), comparison_caption(compared, setting.data));
  const ComparedClassifier& row = best_of(compared);
  const Outcome& best = row.best().outcome;
  report.text(
      fmt::format("Best on the development set: {}, seed {} ({:.2f} %). Its classes of the test texts are in {}.",
                  row.title, best.seed, best.dev_accuracy, hypotheses_file));
  add_paper(report, compared, setting, tokenizer);
  std::vector<CurveRuns> curves = curves_of(compared);
  add_learning_curves(report, curves, score_curves(curves, "dev_accuracy", "Development accuracy", {"%"}));
  constexpr std::size_t most_bytes = 850'000;
  add_attention_section(
      report,
      "The weights of the values after masks and windows, before dropout; rows are queries, columns keys. Below them "
      "what a method computes on its way. Orange dots and bars are a Gaussian's centre P and width D (one standard "
      "deviation to each side). Each model is the best seed on the development set.",
      pictures_of_all(setting, tokenizer, compared), most_bytes);
  report.section("Configuration").configuration(configuration);
  report.write(path);
}

}  // namespace fovea
