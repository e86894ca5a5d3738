#include "experiments/support/report/classification_report.h"

#include <map>

#include "experiments/support/program/terminal.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/learning_curves.h"
#include "experiments/support/report/paper_numbers.h"

namespace fovea {

namespace {

std::vector<CurveRuns> curves_of(const std::vector<ComparedAttention>& compared) {
  std::vector<CurveRuns> curves;
  for (const ComparedAttention& each : compared) {
    curves.push_back({each.attention, {}});
    for (const FinishedRun& run : each.runs) curves.back().runs.push_back(run.directory);
  }
  return curves;
}

void add_paper(Report& report, const std::vector<ComparedAttention>& compared, const ClassificationSetting& setting,
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

/// The sections of the attentions, filled sentence by sentence while there is room.
class AttentionSection {
 public:
  AttentionSection(const ClassificationSetting& setting, const Tokenizer& tokenizer,
                   const std::vector<ComparedAttention>& compared)
      : setting_(setting), tokenizer_(tokenizer), compared_(compared) {
    constexpr std::size_t sentences = 3;
    for (std::size_t example : sentences_to_show(setting.encoded.test, sentences)) {
      for (const ComparedAttention& each : compared) draw(each, example);
    }
  }

  void add_to(Report& report) const {
    report.section("Attention");
    report.text(
        "The weights of the values after masks and windows, before dropout; rows are queries, columns keys. Below them "
        "what a method computes on its way. Orange dots and bars are a Gaussian's centre P and width D (one standard "
        "deviation to each side). Each model is the best seed on the development set.");
    for (const ComparedAttention& each : compared_) {
      report.subsection(each.attention);
      auto found = drawn_.find(&each);
      if (found == drawn_.end()) {
        report.text("No pictures: the page would grow over its size.");
        continue;
      }
      report.text(fmt::format("Layer {}, seed {}.", first_layer_of(each.attention) + 1, each.best().outcome.seed));
      for (const auto& [example, pictures] : found->second) {
        report.text(sentence_text(setting_.data, example, each.best().outcome.correct[example] == '1'));
        for (const HeadMaps& maps : pictures.maps) report.add(maps);
        for (const LineChart& curves : pictures.curves) report.add(curves);
      }
    }
  }

 private:
  void draw(const ComparedAttention& each, std::size_t example) {
    if (is_full_) return;
    auto trained = load_classifier(each.best().directory, setting_.model, each.attention);
    SentencePictures pictures =
        pictures_of(*trained.model, setting_.encoded.test.tokens[example], tokenizer_, first_layer_of(each.attention));
    for (const HeadMaps& maps : pictures.maps) bytes_ += svg(maps).size();
    for (const LineChart& curves : pictures.curves) bytes_ += svg(curves).size();
    constexpr std::size_t most_bytes = 850'000;
    is_full_ = bytes_ > most_bytes;
    if (is_full_) return;
    drawn_[&each].emplace_back(example, std::move(pictures));
  }

  const ClassificationSetting& setting_;
  const Tokenizer& tokenizer_;
  const std::vector<ComparedAttention>& compared_;
  std::size_t bytes_ = 0;
  bool is_full_ = false;
  std::map<const ComparedAttention*, std::vector<std::pair<std::size_t, SentencePictures>>> drawn_;
};

}  // namespace

std::optional<Table> paper_table(const std::vector<ComparedAttention>& compared, const std::string& corpus) {
  Table table({"the paper's name", "attention", "ours %", "paper %"});
  bool has_any = false;
  for (const ComparedAttention& each : compared) {
    auto row = paper_row(corpus, each.attention);
    has_any = has_any || row;
    table.row({row ? Cell(row->name) : Cell(), each.attention, Cell::mean_of(each.accuracies(), 2),
               row ? Cell::number(row->accuracy, 2) : Cell()});
  }
  return has_any ? std::optional(table) : std::nullopt;
}

void write_report(const std::filesystem::path& path, const std::string& program, const ClassificationSetting& setting,
                  const Tokenizer& tokenizer, const std::vector<ComparedAttention>& compared,
                  const Json& configuration) {
  Report report(program, describe(setting.data));
  report.section("Accuracy").add(comparison_table(compared, setting.data), comparison_caption(compared, setting.data));
  const FinishedRun& best = best_of(compared);
  report.text(
      fmt::format("Best on the development set: {}, seed {} ({:.2f} %). Its classes of the test texts are in {}.",
                  best.outcome.attention, best.outcome.seed, best.outcome.dev_accuracy, hypotheses_file));
  add_paper(report, compared, setting, tokenizer);
  std::vector<CurveRuns> curves = curves_of(compared);
  add_learning_curves(report, curves, score_curves(curves, "dev_accuracy", "Development accuracy", {"%"}));
  AttentionSection(setting, tokenizer, compared).add_to(report);
  report.section("Configuration").configuration(configuration);
  report.write(path);
}

}  // namespace fovea
