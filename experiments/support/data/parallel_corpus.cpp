#include "experiments/support/data/parallel_corpus.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

const Role source_role{"SOURCE", {"form"}}, target_role{"TARGET", {"upos"}}, text_alone{"TEXT", {"text"}};

/// The names of --test-set.
std::vector<std::string> names_of_tests(const std::string& test_set) {
  std::vector<std::string> names;
  for (const std::string_view name : split_columns(test_set, ',')) {
    const bool is_new = !name.empty() && std::ranges::count(names, name) == 0;
    require(is_new || test_set.empty(), "--test-set '{}': expected different names, separated by commas", test_set);
    if (is_new) names.emplace_back(name);
  }
  return names;
}

}  // namespace

std::string SkippedPairs::description(std::string_view noun) const {
  std::int64_t total = 0;
  std::vector<std::string> counts;
  for (const auto& [reason, count] : reasons) total += count, counts.push_back(fmt::format("{} {}", count, reason));
  if (total == 0) return "";
  return fmt::format("{} skipped: {}; the first: {}", counted(std::size_t(total), noun), listed(counts, ", "), first);
}

PairReader::PairReader(const PairFiles& files, const LineRules& rules)
    : rules_(rules), has_source_(files.has_source), has_alignment_(!files.alignment.empty()) {
  const std::vector<Role> none;
  if (!files.source.empty()) files_.emplace_back(files.source, RecordFormat::lines, none);
  files_.emplace_back(files.target, files.format,
                      has_source_ ? std::vector{source_role, target_role} : std::vector{text_alone}, files.fields,
                      has_source_);
  if (has_alignment_) files_.emplace_back(files.alignment, RecordFormat::lines, none);
}

bool PairReader::next(TextPair& pair) {
  for (;;) {
    std::vector<std::string> texts, values;
    const RecordReader *ended = nullptr, *going_on = nullptr;  // the first of them
    std::optional<RecordFault> fault;
    for (RecordReader& file : files_) {
      try {
        const bool is_there = file.next(values);
        const RecordReader*& first = is_there ? going_on : ended;
        if (!first) first = &file;
        if (is_there) std::ranges::move(values, std::back_inserter(texts));
      } catch (const RecordFault& of_file) {
        if (!going_on) going_on = &file;
        if (!fault) fault = of_file;
      }
    }
    if (!going_on) return false;
    pair = {};
    if (ended) {
      const auto lines = std::size_t(ended->number());
      skip("without a partner", fmt::format("{}:{}: a line without a partner: {} has {}", going_on->name(),
                                            going_on->number(), ended->name(), counted(lines, "line")));
    } else if (fault) {
      skip(fault->reason, fault->what());
    } else {
      if (has_alignment_) {
        pair.alignment = std::move(texts.back()), texts.pop_back();
        pair.alignment_place = fmt::format("{}:{}", files_.back().name(), files_.back().number());
      }
      if (!are_good(texts)) continue;
      if (has_source_) pair.source = std::move(texts[0]);
      pair.target = std::move(texts[has_source_]);
      for (std::size_t k = 2; k < texts.size(); ++k)
        if (!is_blank(texts[k])) pair.more_targets.push_back(std::move(texts[k]));
      return true;
    }
  }
}

bool PairReader::are_good(const std::vector<std::string>& texts) {
  for (std::size_t k = 0; k <= std::size_t{has_source_}; ++k) {
    const RecordReader& file = files_[std::min(k, files_.size() - 1 - has_alignment_)];
    const std::int64_t words = std::ssize(split_words(texts[k]));
    const bool is_long = rules_.max_words > 0 && words > rules_.max_words;
    if (words > 0 && !is_long) continue;
    const std::string place = fmt::format("{}:{}", file.name(), file.number());
    if (is_long)
      skip("too long", fmt::format("{}: {} words, --max-words is {}", place, words, rules_.max_words));
    else  // blank lines of texts alone stand between paragraphs
      skip("blank", fmt::format("{}: a blank {}", place, file.description().empty() ? "line" : "text"), !has_source_);
    return false;
  }
  if (!rules_.has_words) return true;
  const std::size_t words = split_words(texts[0]).size(), tags = split_words(texts[1]).size();
  if (words != tags)
    skip("uneven", fmt::format("{}:{}: {} and {}; each word needs one tag", files_[0].name(), files_[0].number(),
                               counted(words, "word"), counted(tags, "tag")));
  return words == tags;
}

void PairReader::skip(const char* reason, const std::string& message, bool is_harmless) {
  require(is_harmless || rules_.bad_lines == BadLines::skip, "{} (--bad-lines skip leaves such pairs out)", message);
  if (skipped_.reasons.empty()) skipped_.first = message;
  ++skipped_.reasons[reason];
}

void ParallelCorpusOptions::add_to(Cli& cli) {
  cli.option("--source", source,
             "the source's files, by the end of their names; en for train.en, or a column or JSON key");
  cli.option("--target", target,
             "the target's files, by the end of their names; de for train.de, or a column or JSON key; language models "
             "need none for train.txt");
  cli.option(
      "--columns", columns,
      "the columns of source and target in a table; by number from 1 or by name: 1,2, or keys of JSON lines "
      "(.jsonl): dialogue,summary; of a language model's data one; more than two: further references of the test "
      "(document,summary1,summary2)");
  cli.choice("--header", header, header_names,
             "whether the first line of a table names the columns; auto: where --columns has names")
      .rare();
  cli.rare(
      "--train-set", train_set,
      "the training set of a directory; a file name without its language ending; default: the one called train...");
  cli.rare("--dev-set", dev_set,
           "the development set; default: dev..., val... or valid..., otherwise a tenth of the training set");
  cli.option("--test-set", test_set,
             "the test set, or several: news,talks; default: test..., otherwise a tenth of the training set");
  cli.choice("--bad-lines", lines.bad_lines, {{"refuse", BadLines::refuse}, {"skip", BadLines::skip}},
             "what to do with pairs that are blank, not UTF-8, too long or without a partner")
      .rare();
  cli.rare("--max-words", lines.max_words,
           "the most words of a text; pairs with longer texts are bad lines; 0: any number")
      .at_least(0);
}

ParallelCorpus::ParallelCorpus(const ParallelCorpusOptions& options) : options_(options) {
  const fs::path path = existing_data(options.data);
  if (fs::is_directory(path)) {
    choose_files(targets_in(path), path, options.train_set);
    return;
  }
  require(format_of(path) != RecordFormat::lines ||
              (options.source.empty() && options.target.empty() && !options.needs_source),
          "--data: '{}' is one file of lines; --source and --target name files of a directory, or fields of records "
          "(.jsonl, .tsv, .csv); --columns 1,2 reads tab-separated columns",
          options.data);
  require(options.train_set.empty(), "--train-set {}: --data is one file, '{}', which is the training set",
          options.train_set, options.data);
  choose_files(sets_beside(path), path.has_parent_path() ? path.parent_path() : ".", set_name(path));
  const bool is_alone = std::ranges::count(sets_, true, [](const Set& set) { return !set.files.empty(); }) == 1;
  if (!is_alone || options.needs_source) return;
  LineReader reader(path);
  for (std::string line; reader.next_of_any_kind(line);) continue;
  lines_ = reader.number();
}

/// The files that have targets, or records.
FileSets ParallelCorpus::targets_in(const fs::path& directory) const {
  const auto& [source, target] = std::tie(options_.source, options_.target);
  require(!options_.columns.empty() || !target.empty() || source.empty(),
          "--target is missing: the names of the target's files end with it, as de in train.de");
  require(source.empty() || source != target, "--source and --target are both '{}'", source);
  if (target.empty() && !options_.needs_source) return sets_of(directory, "");
  FileSets targets = target.empty() ? FileSets() : sets_of(directory, target);
  if (!targets.empty()) return targets;
  FileSets records = sets_of(directory, "");
  std::erase_if(records, [&](const auto& set) { return format_of(set.second) == RecordFormat::lines; });
  // config.json is no data
  if (!options_.train_set.empty() ||
      std::ranges::any_of(records, [](const auto& set) { return part_named(set.first).has_value(); }))
    targets = std::move(records);
  require(!targets.empty() || !options_.needs_source || !source.empty(),
          "--source is missing: the names of the source's files end with it, as en in train.en, and those of the "
          "target's files with --target; there are no records either (train.jsonl, train.tsv, train.csv)");
  return targets;
}

RecordFormat ParallelCorpus::format_of(const fs::path& file) const {
  const RecordFormat format = record_format(file);
  const bool may_be_words = format == RecordFormat::lines || format == RecordFormat::tsv;
  if (may_be_words && options_.lines.has_words && options_.source.empty()) return RecordFormat::conll;
  return format == RecordFormat::lines && !options_.columns.empty() ? RecordFormat::tsv : format;
}

/// The fields of a table or of JSON lines that the user chose; none: they are found by their names.
std::vector<std::string> ParallelCorpus::fields_of(const fs::path& file) const {
  const auto& [source, target] = std::tie(options_.source, options_.target);
  if (source.empty() && target.empty())
    return options_.columns.empty() ? std::vector<std::string>() : split_list(options_.columns);
  require(options_.columns.empty(),
          "--columns, and --source or --target, exclude each other: both choose fields of '{}'", file.string());
  require(!options_.needs_source || (!source.empty() && !target.empty()),
          "--{} is missing: --source and --target choose two fields of '{}'", source.empty() ? "source" : "target",
          file.string());
  return split_list(source.empty() || target.empty() ? source + target : source + "," + target);
}

void ParallelCorpus::choose_files(const FileSets& targets, const fs::path& directory, const std::string& train_set) {
  const std::vector<std::string> tests = names_of_tests(options_.test_set);
  const ChosenSets chosen = choose_sets(targets, {train_set, options_.dev_set, tests}, directory, true);
  const FileSets alignments = sets_of(directory, "align");
  const auto add = [&](const std::string& name, const std::string& set) {
    PairFiles& files = sets_.emplace_back(Set{name, {}}).files;
    files.has_source = options_.needs_source;
    if (set.empty()) return;
    files.target = targets.at(set);
    files.format = format_of(files.target);
    if (alignments.contains(set)) files.alignment = alignments.at(set);
    if (files.format != RecordFormat::lines) {
      files.fields = {.names = fields_of(files.target), .header = options_.header};
      fields_ = PairReader(files, options_.lines).fields();  // refuses wrong columns
    } else if (!options_.source.empty()) {
      const FileSets sources = sets_of(directory, options_.source);
      require(sources.contains(set), "{}: there is {}, but no {}", directory.string(), files.target.filename().string(),
              partner(files.target, set, options_.target, options_.source));
      files.source = sources.at(set);
    } else {
      require(!options_.needs_source,
              "--source is missing: the names of the source's files end with it, as en in {}.en", set);
    }
    require(
        options_.header == Header::automatic || files.format == RecordFormat::tsv || files.format == RecordFormat::csv,
        "--header: only tables have a line with names, and {} is none", files.target.string());
  };
  add("train", chosen.train);
  add("dev", chosen.dev);
  for (std::size_t k = 0; k < chosen.tests.size(); ++k) add(tests.empty() ? "test" : tests[k], chosen.tests[k]);
  for (const std::string& set : chosen.unused) unused_.push_back(targets.at(set).filename().string());
  if (!options_.source.empty() && !options_.target.empty()) require_targets(targets, chosen, directory);
  if (!sets_[0].files.empty() || !options_.needs_training_set) return;
  require(!options_.target.empty(),
          "{}: no training set: the name of a file must have the word train in it, as train.txt or wiki.train.tokens "
          "(.gz too), or --train-set NAME must choose one; found {}",
          directory.string(), contents_of(directory));
  fail("{}: no training set train.{} (.txt and .gz too); found {}", directory.string(), options_.target,
       contents_of(directory));
}

/// The name that the file of the other language should have: `test.tgt` beside test.src, OpenNMT's `tgt-test.txt`
/// beside src-test.txt.
std::string ParallelCorpus::partner(const fs::path& file, const std::string& set, const std::string& language,
                                    const std::string& other) {
  const std::string name = file.filename().string();
  return name.starts_with(language + "-") ? other + name.substr(language.size()) : set + "." + other;
}

/// Throws Error if a part that has no files has those of the source alone. Others are not used.
void ParallelCorpus::require_targets(const FileSets& targets, const ChosenSets& chosen, const fs::path& directory) {
  for (const auto& [set, file] : sets_of(directory, options_.source)) {
    const auto named = part_named(set);
    if (!named || targets.contains(set)) continue;
    const bool is_there = !(named->part == Part::train ? chosen.train
                            : named->part == Part::dev ? chosen.dev
                                                       : chosen.tests[0])
                               .empty();
    require(is_there, "{}: there is {}, but no {}", directory.string(), file.filename().string(),
            partner(file, set, options_.source, options_.target));
    unused_.push_back(file.filename().string());
  }
}

Part ParallelCorpus::part_of(const TextPair& pair, std::int64_t line) const {
  if (lines_ > 0) {
    const double place = double(line) / double(lines_);
    return place > 0.9 ? Part::test : place > 0.8 ? Part::dev : Part::train;
  }
  return part_by_hash(pair.source.empty() ? pair.target : pair.source, sets_[1].files.empty(), sets_[2].files.empty());
}

void ParallelCorpus::visit(Part part, const PairVisitor& visitor, std::size_t test) const {
  const Set &set = sets_.at(std::size_t(part) + test), &train = sets_[0];
  const bool has_files = !set.files.empty();
  require(has_files || !train.files.empty(),
          "--data: '{}' has neither a {} set nor a training set, of which it would be a tenth", options_.data,
          name_of(part));
  PairReader reader(has_files ? set.files : train.files, options_.lines);
  const bool whole = has_files && part != Part::train;
  for (TextPair pair; reader.next(pair);)
    if (whole || part_of(pair, reader.number()) == part) visitor(pair);
  if (has_files) set.skipped = reader.skipped();
}

std::vector<std::string> ParallelCorpus::tests() const {
  std::vector<std::string> names;
  for (std::size_t k = 2; k < sets_.size(); ++k) names.push_back(sets_[k].name);
  return names;
}

std::string ParallelCorpus::description() const {
  std::string how = fields_.empty() ? "" : "; " + fields_;
  if (!unused_.empty()) how += "; not used: " + listed(unused_, ", ");
  if (lines_ > 0) return options_.data + ": the last tenth of its lines is test, the tenth before dev" + how;
  std::vector<std::string> sets;
  for (std::size_t k = 0; k < sets_.size(); ++k) {
    const auto& [source, target] = std::tie(sets_[k].files.source, sets_[k].files.target);
    const char* part = name_of(Part(std::min<std::size_t>(k, 2)));
    if (target.empty() && !sets_[0].files.empty()) sets.push_back(fmt::format("{} 10 % of train by hash", part));
    if (target.empty()) continue;
    sets.push_back(fmt::format("{} {}{}{}", part, source.filename().string(), source.empty() ? "" : " and ",
                               target.filename().string()));
  }
  return fmt::format("{}: {}{}", options_.data, fmt::join(sets, "; "), how);
}

std::string ParallelCorpus::left_out() const {
  std::vector<std::string> texts;
  for (const Set& set : sets_)
    if (!set.skipped.reasons.empty())
      texts.push_back(set.name + ": " + set.skipped.description(set.files.has_source ? "pair" : "line"));
  return fmt::format("{}", fmt::join(texts, "; "));
}

}  // namespace fovea
