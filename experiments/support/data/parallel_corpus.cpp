#include "experiments/support/data/parallel_corpus.h"

#include <vector>

#include "experiments/support/data/classification.h"
#include "experiments/support/data/text_sets.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

std::string joined_reasons(const SkippedPairs& skipped) {
  std::vector<std::string> reasons;
  const auto add = [&](std::int64_t count, const char* reason) {
    if (count > 0) reasons.push_back(fmt::format("{} {}", count, reason));
  };
  add(skipped.no_text, "not UTF-8 text");
  add(skipped.blank, "blank");
  add(skipped.too_long, "too long");
  add(skipped.unpaired, "without a partner");
  return listed(reasons, ", ");
}

}  // namespace

std::string describe(const SkippedPairs& skipped, std::string_view noun) {
  if (skipped.total() == 0) return "";
  return fmt::format("{} skipped: {}; the first: {}", counted(static_cast<std::size_t>(skipped.total()), noun),
                     joined_reasons(skipped), skipped.first);
}

PairReader::PairReader(const PairFiles& files, const LineRules& rules) : rules_(rules), target_(files.target) {
  if (!files.source.empty()) source_.emplace(files.source);
  if (!files.alignment.empty()) alignment_.emplace(files.alignment);
}

bool PairReader::next(TextPair& pair) {
  pair = {};
  do {
    const bool source = source_ && source_->next_of_any_kind(pair.source);
    const bool target = target_.next_of_any_kind(pair.target);
    const bool alignment = alignment_ && alignment_->next(pair.alignment);
    if (!target || source != source_.has_value() || alignment != alignment_.has_value()) {
      end_together(source, target, alignment);
      return false;
    }
  } while (has_fault(pair));
  return true;
}

bool PairReader::has_fault(const TextPair& pair) {
  return (source_ && has_fault(*source_, pair.source)) || has_fault(target_, pair.target);
}

bool PairReader::has_fault(const LineReader& file, const std::string& line) {
  const auto at = [&](const std::string& fault) { return fmt::format("{}:{}: {}", file.name(), file.number(), fault); };
  if (const std::string fault = text_fault(line); !fault.empty()) return report(&SkippedPairs::no_text, at(fault));
  const auto words = static_cast<std::int64_t>(split_words(line).size());
  if (words == 0) return report(&SkippedPairs::blank, at("a blank line"), !source_);  // between paragraphs, say
  if (rules_.max_words == 0 || words <= rules_.max_words) return false;
  return report(&SkippedPairs::too_long, at(fmt::format("{} words, --max-words is {}", words, rules_.max_words)));
}

bool PairReader::report(std::int64_t SkippedPairs::*kind, const std::string& message, bool is_harmless) {
  require(is_harmless || rules_.bad_lines == BadLines::skip, "{} (--bad-lines skip leaves such pairs out)", message);
  if (skipped_.total() == 0) skipped_.first = message;
  ++(skipped_.*kind);
  return true;
}

void PairReader::end_together(bool source, bool target, bool alignment) {
  std::vector<LineReader*> ended, going_on;
  (target ? going_on : ended).push_back(&target_);
  if (source_) (source ? going_on : ended).push_back(&*source_);
  if (alignment_) (alignment ? going_on : ended).push_back(&*alignment_);
  if (going_on.empty()) return;
  const std::int64_t lines = ended[0]->number();
  const std::string message = fmt::format("{}:{}: a line without a partner: {} has {}", going_on[0]->name(), lines + 1,
                                          ended[0]->name(), counted(static_cast<std::size_t>(lines), "line"));
  std::string ignored;
  do {
    report(&SkippedPairs::unpaired, message);
  } while (going_on[0]->next_of_any_kind(ignored));
}

void add_options(Cli& cli, ParallelCorpusOptions& options) {
  cli.option("--source", options.source, "how the names of the source's files end: en for train.en");
  cli.option("--target", options.target,
             "how the names of the target's files end: de for train.de; language models need none for train.txt");
  cli.option("--train-set", options.train_set,
             "the training set of a directory, without that ending; default: the one called train...");
  cli.option("--dev-set", options.dev_set,
             "the development set; default: dev..., val... or valid..., otherwise a tenth of the training set");
  cli.option("--test-set", options.test_set, "the test set; default: test..., otherwise a tenth of the training set");
  cli.choice("--bad-lines", options.lines.bad_lines, {{"refuse", BadLines::refuse}, {"skip", BadLines::skip}},
             "what to do with pairs that are blank, not UTF-8, too long or without a partner");
  cli.option("--max-words", options.lines.max_words, "longer texts are bad lines; 0: none are")
      .unit("words")
      .at_least(0);
}

ParallelCorpus::ParallelCorpus(const ParallelCorpusOptions& options) : options_(options) {
  const fs::path path = existing_data(options.data);
  require(fs::is_directory(path) || fs::is_regular_file(path), "--data: '{}' is neither a file nor a directory",
          options_.data);
  if (fs::is_directory(path)) {
    find_sets(path, options_.train_set);
  } else {
    find_parts(path);
  }
}

void ParallelCorpus::find_parts(const fs::path& file) {
  require(options_.source.empty() && options_.target.empty(),
          "--data: '{}' is one file; --source and --target name files of a directory", options_.data);
  const auto name = part_named(set_name(file));
  if (name && name->part == Part::train) find_sets(file.has_parent_path() ? file.parent_path() : ".", set_name(file));
  if (!files(Part::dev).empty() || !files(Part::test).empty()) return;
  files_ = {};
  files_[0].target = file;
  LineReader reader(file);
  for (std::string line; reader.next_of_any_kind(line);) continue;
  lines_ = reader.number();
}

void ParallelCorpus::find_sets(const fs::path& directory, const std::string& train_set) {
  require(!options_.target.empty() || options_.source.empty(),
          "--target is missing: the names of the target's files end with it, as de in train.de");
  require(options_.source.empty() || options_.source != options_.target, "--source and --target are both '{}'",
          options_.source);
  const TextSets targets = sets_of(directory, options_.target), alignments = sets_of(directory, "align");
  const TextSets sources = options_.source.empty() ? targets : sets_of(directory, options_.source);
  const ChosenSets chosen = choose_sets(targets, {train_set, options_.dev_set, options_.test_set}, directory);
  for (std::size_t k = 0; k < 3; ++k) {
    const std::string& set = chosen.names[k];
    if (set.empty()) continue;
    require(sources.contains(set), "{}: there is {}, but no {}.{}", directory.string(),
            targets.at(set).filename().string(), set, options_.source);
    if (!options_.source.empty()) files_[k].source = sources.at(set);
    files_[k].target = targets.at(set);
    if (alignments.contains(set)) files_[k].alignment = alignments.at(set);
  }
  for (const std::string& set : chosen.unused) unused_.push_back(targets.at(set).filename().string());
  if (files(Part::train).empty() && options_.needs_training_set) fail_without_training_set(directory);
}

void ParallelCorpus::fail_without_training_set(const fs::path& directory) const {
  require(!options_.target.empty(),
          "{}: no training set: the name of a file must have the word train in it, as train.txt or wiki.train.tokens "
          "(.gz too), or --train-set NAME must choose one; found {}",
          directory.string(), contents_of(directory));
  fail("{}: no training set train.{} (.txt and .gz too); found {}", directory.string(), options_.target,
       contents_of(directory));
}

Part ParallelCorpus::part_of(const TextPair& pair, std::int64_t line) const {
  if (lines_ > 0) {
    const double place = static_cast<double>(line) / static_cast<double>(lines_);
    return place > 0.9 ? Part::test : place > 0.8 ? Part::dev : Part::train;
  }
  const double place = split_place(pair.source.empty() ? pair.target : pair.source);
  if (files(Part::test).empty() && place < 0.1) return Part::test;
  return files(Part::dev).empty() && place >= 0.1 && place < 0.2 ? Part::dev : Part::train;
}

void ParallelCorpus::visit(Part part, const std::function<void(const TextPair&)>& visitor) const {
  const bool has_files = !files(part).empty();
  require(has_files || !files(Part::train).empty(),
          "--data: '{}' has neither a {} set nor a training set, of which it "
          "would be a tenth",
          options_.data, name_of(part));
  PairReader reader(files(has_files ? part : Part::train), options_.lines);
  const bool whole = has_files && part != Part::train;
  for (TextPair pair; reader.next(pair);) {
    if (whole || part_of(pair, reader.number()) == part) visitor(pair);
  }
  if (has_files) skipped_[static_cast<std::size_t>(part)] = reader.skipped();
}

std::string ParallelCorpus::description() const {
  if (lines_ > 0) return options_.data + ": the last tenth of its lines is test, the tenth before dev";
  std::string text = options_.data + ":";
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    const PairFiles& of_part = files(part);
    const char* name = name_of(part);
    if (of_part.empty() && files(Part::train).empty()) continue;
    if (of_part.empty()) {
      text += fmt::format(" {} 10 % of train by hash;", name);
      continue;
    }
    const std::string source = of_part.source.empty() ? "" : of_part.source.filename().string() + " and ";
    text += fmt::format(" {} {}{};", name, source, of_part.target.filename().string());
  }
  text.pop_back();
  if (!unused_.empty()) text += "; not used: " + listed(unused_, ", ");
  return text;
}

std::string ParallelCorpus::left_out() const {
  std::string text;
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    const std::string skipped_pairs = describe(skipped(part), files(part).source.empty() ? "line" : "pair");
    if (skipped_pairs.empty()) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name_of(part), skipped_pairs);
  }
  return text;
}

}  // namespace fovea
