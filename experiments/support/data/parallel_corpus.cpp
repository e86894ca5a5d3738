#include "experiments/support/data/parallel_corpus.h"

#include <algorithm>
#include <map>
#include <vector>

#include "experiments/support/data/classification.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* part_names[] = {"train", "dev", "test"};

/// `train.lc.en.txt.gz`, `en`: `train.lc`; nothing if the file is of another language.
std::optional<std::string> set_of(std::string file, const std::string& language) {
  for (const char* ending : {".gz", ".txt"}) {
    if (file.ends_with(ending) && file.size() > std::string_view(ending).size()) {
      file.erase(file.size() - std::string_view(ending).size());
    }
  }
  const std::string ending = "." + language;
  if (!file.ends_with(ending) || file.size() == ending.size()) return {};
  return file.substr(0, file.size() - ending.size());
}

/// Does the name begin with the word, and not go on with a letter? `test_2016`, `train.lc`, not `training`.
bool begins_with_word(const std::string& name, std::string_view word) {
  if (!name.starts_with(word)) return false;
  const char next = name.size() > word.size() ? name[word.size()] : '.';
  return !(next >= 'a' && next <= 'z') && !(next >= 'A' && next <= 'Z');
}

bool is_set_of(const std::string& name, Part part) {
  if (part == Part::train) return begins_with_word(name, "train");
  if (part == Part::test) return begins_with_word(name, "test");
  return begins_with_word(name, "dev") || begins_with_word(name, "val") || begins_with_word(name, "valid") ||
         begins_with_word(name, "validation");
}

/// The sets of a language in a directory, with their files.
std::map<std::string, fs::path> sets_of(const fs::path& directory, const std::string& language) {
  std::map<std::string, fs::path> sets;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const auto set = entry.is_regular_file() ? set_of(entry.path().filename().string(), language) : std::nullopt;
    if (!set) continue;
    const auto [other, is_new] = sets.emplace(*set, entry.path());
    require(is_new, "{}: both {} and {} are {}", directory.string(), other->second.filename().string(),
            entry.path().filename().string(), *set + "." + language);
  }
  return sets;
}

/// The set that is asked for: `test_2016` may also be the beginning of one name, `test_2016.lc`.
std::string asked_set(const std::vector<std::string>& sets, const std::string& asked) {
  if (std::count(sets.begin(), sets.end(), asked) > 0) return asked;
  const auto fits = [&](const std::string& set) { return set.starts_with(asked + "."); };
  return std::count_if(sets.begin(), sets.end(), fits) == 1 ? *std::find_if(sets.begin(), sets.end(), fits) : "";
}

/// The one set of the part; empty where there is none.
std::string chosen_set(const std::map<std::string, fs::path>& sets, Part part, const std::string& asked,
                       const fs::path& directory) {
  const char* name = part_names[static_cast<std::size_t>(part)];
  std::vector<std::string> all, fitting;
  for (const auto& [set, path] : sets) {
    all.push_back(set);
    if (is_set_of(set, part)) fitting.push_back(set);
  }
  if (!asked.empty()) {
    const std::string set = asked_set(all, asked);
    require(!set.empty(), "--{}-set {}: {} has no such set; it has {}", name, asked, directory.string(),
            listed(all, ", "));
    return set;
  }
  require(fitting.size() <= 1, "{}: several {} sets: choose one with --{}-set: {}", directory.string(), name, name,
          listed(fitting));
  return fitting.empty() ? "" : fitting[0];
}

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

std::string describe(const SkippedPairs& skipped) {
  if (skipped.total() == 0) return "";
  return fmt::format("{} skipped: {}; the first: {}", counted(static_cast<std::size_t>(skipped.total()), "pair"),
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
  if (words == 0) return report(&SkippedPairs::blank, at("a blank line"));
  if (rules_.max_words == 0 || words <= rules_.max_words) return false;
  return report(&SkippedPairs::too_long, at(fmt::format("{} words, --max-words is {}", words, rules_.max_words)));
}

bool PairReader::report(std::int64_t SkippedPairs::*kind, const std::string& message) {
  require(rules_.bad_lines == BadLines::skip, "{} (--bad-lines skip leaves such pairs out)", message);
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
  cli.option("--source", options.source, "what is read: how the names of its files end, en for train.en");
  cli.option("--target", options.target, "what is to be written, likewise");
  cli.option("--train-set", options.train_set, "files of --data without that ending; empty: those called train...");
  cli.option("--dev-set", options.dev_set,
             "likewise; empty: dev..., val... or valid..., or a tenth of the training set");
  cli.option("--test-set", options.test_set, "likewise; empty: test..., or a tenth of the training set");
  cli.choice("--bad-lines", options.lines.bad_lines, {{"refuse", BadLines::refuse}, {"skip", BadLines::skip}},
             "what to do with pairs that are blank, not UTF-8, too long or without a partner");
  cli.option("--max-words", options.lines.max_words, "longer texts are bad lines; 0: none are")
      .unit("words")
      .at_least(0);
}

ParallelCorpus::ParallelCorpus(const ParallelCorpusOptions& options) : options_(options) {
  const fs::path path = existing_data(options.data);
  if (fs::is_regular_file(path)) {
    find_parts(path);
  } else {
    find_files(path);
  }
}

void ParallelCorpus::find_parts(const fs::path& file) {
  require(options_.source.empty() && options_.target.empty(),
          "--data: '{}' is one file; --source and --target name files of a directory", options_.data);
  files_[static_cast<std::size_t>(Part::train)].target = file;
  LineReader reader(file);
  for (std::string line; reader.next_of_any_kind(line);) continue;
  lines_ = reader.number();
}

void ParallelCorpus::find_files(const fs::path& directory) {
  require(!options_.target.empty(),
          "--target is missing: the names of the target's files end with it, as de in train.de");
  require(options_.source != options_.target, "--source and --target are both '{}'", options_.source);
  require(fs::is_directory(directory), "--data: '{}' is no directory of files like train.{}", options_.data,
          options_.target);
  const auto targets = sets_of(directory, options_.target), alignments = sets_of(directory, "align");
  const auto sources = options_.source.empty() ? targets : sets_of(directory, options_.source);
  const std::array<std::string, 3> asked = {options_.train_set, options_.dev_set, options_.test_set};
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    const auto k = static_cast<std::size_t>(part);
    const std::string set = chosen_set(targets, part, asked[k], directory);
    if (set.empty()) continue;
    require(sources.contains(set), "{}: there is {}, but no {}.{}", directory.string(),
            targets.at(set).filename().string(), set, options_.source);
    if (!options_.source.empty()) files_[k].source = sources.at(set);
    files_[k].target = targets.at(set);
    if (alignments.contains(set)) files_[k].alignment = alignments.at(set);
  }
  require(!files(Part::train).empty() || !options_.needs_training_set,
          "{}: no training set train.{} (.txt and .gz too); found {}", directory.string(), options_.target,
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
          options_.data, part_names[static_cast<std::size_t>(part)]);
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
    const char* name = part_names[static_cast<std::size_t>(part)];
    if (of_part.empty() && files(Part::train).empty()) continue;
    if (of_part.empty()) {
      text += fmt::format(" {} 10 % of train by hash;", name);
      continue;
    }
    const std::string source = of_part.source.empty() ? "" : of_part.source.filename().string() + " and ";
    text += fmt::format(" {} {}{};", name, source, of_part.target.filename().string());
  }
  text.pop_back();
  return text;
}

std::string ParallelCorpus::left_out() const {
  std::vector<std::string> parts;
  for (const Part part : {Part::train, Part::dev, Part::test}) {
    const std::string skipped_pairs = describe(skipped(part));
    const char* name = part_names[static_cast<std::size_t>(part)];
    if (!skipped_pairs.empty()) parts.push_back(fmt::format("{}: {}", name, skipped_pairs));
  }
  return listed(parts, "; ");
}

}  // namespace fovea
