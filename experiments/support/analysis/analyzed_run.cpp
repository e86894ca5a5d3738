#include "experiments/support/analysis/analyzed_run.h"

#include <set>

#include <fmt/core.h>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/words.h"

namespace fovea {

std::string SentenceView::text() const {
  std::string to = pair.target;
  if (!predicted.empty()) to = (to.empty() ? "" : "label " + to + ", ") + "predicted " + predicted;
  return pair.source + (pair.source.empty() || to.empty() ? "" : " → ") + to;
}

const AttentionView& SentenceView::chosen(const AttentionChoice& choice) const {
  const auto find = [&](const std::string& place, bool plain) -> const AttentionView* {
    for (const AttentionView& view : attentions)
      if (name_of(view.place) == place && view.layer == choice.layer && view.number == choice.number &&
          (plain || view.method != "global"))
        return &view;
    return nullptr;
  };
  for (bool plain : {false, true})
    for (const char* place : {"cross", "encoder", "decoder"})
      if (choice.place == "any" || choice.place == place)
        if (const AttentionView* view = find(place, plain)) return *view;
  std::string titles;
  for (const AttentionView& view : attentions) titles += (titles.empty() ? "" : "; ") + view.title();
  std::string flags;  // those that are not at their defaults
  if (choice.place != "any") flags += " --place " + choice.place;
  if (choice.layer != 1) flags += fmt::format(" --layer {}", choice.layer);
  if (choice.number != 1) flags += fmt::format(" --sub-layer {}", choice.number);
  fail("{}: the model has no such attention; it has {}", flags.empty() ? "--layer 1" : flags.substr(1), titles);
}

std::string title_of_run(const std::filesystem::path& run) {
  const RunResult result = load_result(run).value_or(RunResult{.directory = run});
  return title_of(result) + (result.trial.empty() ? "" : " " + result.trial);
}

std::unique_ptr<AnalyzedRun> AnalyzedRun::open(const std::filesystem::path& run, Part part,
                                               const std::vector<std::string>& flags) {
  const Task& task = task_of(run);
  load_result(run, true);  // throws if a file has changed since the run was finished
  return task.open(run, part, flags);
}

const PairSet& AnalyzedRun::set() {
  if (!data_) {
    data_.emplace(read(part_));
    warn_of_changed_data(data_->fingerprint());
  }
  return data_->tests.front();
}

TextPair AnalyzedRun::texts(std::size_t k) {
  // with --block, a language model's texts are blocks of several lines
  return set().texts.size() == set().pairs.size() ? set().texts[k] : TextPair{};
}

void AnalyzedRun::name_methods(SentenceView& sentence) const {
  for (AttentionView& view : sentence.attentions) {
    int number = view.number;
    for (const SpecifiedSubLayer& layer : sub_layers(view.place == Place::encoder ? Place::encoder : Place::decoder))
      if (!layer.specification.empty() && (layer.kind == SubLayer::Kind::cross) == (view.place == Place::cross) &&
          --number == 0)
        view.method = layer.specification;
  }
}

void AnalyzedRun::check_text(const std::string& flag, const std::string& text, const Tokenizer& tokenizer) {
  const std::size_t invalid = invalid_utf8(text);
  require(invalid == std::string::npos, "{}: not UTF-8: byte {}", flag, invalid + 1);
  require(!split_words(text).empty(), "{}: has no words", flag);
  note_unknown_words(flag, text, tokenizer);
}

void AnalyzedRun::warn_of_changed_data(const Json& now) const {
  static std::set<std::filesystem::path> warned;
  if (!std::filesystem::exists(run_ / "data.json")) return;
  const std::string changes = data_changes(run_, now);
  if (!changes.empty() && warned.insert(run_).second)
    fmt::print(stderr, "warning: {}: the data have changed since the training: {}\n", run_.string(), changes);
}

std::uint64_t AnalyzedRun::seed() const {
  const std::optional<RunResult> result = load_result(run_);
  require(result.has_value(), "{}: the run is not finished; its seed is not known", run_.string());
  return result->seed;
}

SentenceView AnalyzedRun::sentence(std::size_t k) {
  require(k < size(), "--sentence {}: there are {} sentences, counted from 0", k, size());
  return view(set().pairs, k, texts(k));
}

}  // namespace fovea
