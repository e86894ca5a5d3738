#include "experiments/support/analysis/analyzed_run.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "experiments/support/data/pair_data.h"
#include "experiments/support/metrics/alignment.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"

namespace fovea {

std::string title_of_run(const std::filesystem::path& run) {
  const RunResult result = load_result(run).value_or(RunResult{.directory = run});
  return title_of(result) + (result.trial.empty() ? "" : " " + result.trial);
}

std::unique_ptr<AnalyzedRun> AnalyzedRun::open(const std::filesystem::path& run, Part part) {
  const Task& task = task_of(run);
  load_result(run, true);  // throws if a file has changed since the run was finished
  return task.open(run, part);
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

namespace {

/// Whether two gold links cross: the first word of one side is linked with a later word of the other.
bool has_crossing_links(const TextPair& pair) {
  const std::set<Link> links = parse_alignment(pair.alignment).possible;
  return std::any_of(links.begin(), links.end(), [&](const Link& one) {
    return std::any_of(links.begin(), links.end(),
                       [&](const Link& other) { return one.source < other.source && one.target > other.target; });
  });
}

}  // namespace

std::size_t AnalyzedRun::number_of(const std::string& choice) {
  std::vector<std::pair<std::size_t, std::size_t>> lengths;  // in words, with the number of the sentence
  if (const auto given = number<std::int64_t>(choice)) {
    require(*given >= 0 && *given < static_cast<std::int64_t>(size()),
            "--sentence {}: there are {} sentences, counted from 0", choice, size());
    return static_cast<std::size_t>(*given);
  }
  require(choice == "crossing" || choice == "median" || choice == "longest",
          "--sentence '{}': expected a number from 0, crossing, median or longest", choice);
  for (std::size_t k = 0; k < size(); ++k) {
    const TextPair pair = texts(k);
    if (choice == "crossing" && has_crossing_links(pair)) return k;
    lengths.emplace_back(split_words(pair.source.empty() ? pair.target : pair.source).size(), k);
  }
  require(choice != "crossing" && !lengths.empty(),
          "--sentence {}: none of the {} sentences has gold links that cross; expected another choice", choice, size());
  const auto chosen = choice == "longest" ? lengths.end() - 1 : lengths.begin() + std::ssize(lengths) / 2;
  std::nth_element(lengths.begin(), chosen, lengths.end());
  return chosen->second;
}

}  // namespace fovea
