/// Sentences and their translations, articles and their summaries: files whose lines belong together.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/data/records.h"
#include "experiments/support/data/text_pairs.h"
#include "experiments/support/data/text_sets.h"
#include "experiments/support/text/lines.h"

namespace fovea {

class Cli;

enum class BadLines { refuse, skip };

struct LineRules {
  BadLines bad_lines = BadLines::refuse;
  std::int64_t max_words = 0;  ///< on either side, as length_of counts them; 0: any number
};

/// The files of one part, plain or gzip-compressed: line i of each belongs together. Or one file of records, in which
/// both texts of a pair are fields.
struct PairFiles {
  std::filesystem::path source;  ///< empty: the texts have no source, or it is a field of the target's file
  std::filesystem::path target;
  std::filesystem::path alignment;  ///< gold links; empty: none are known
  RecordFormat format = RecordFormat::lines;
  RecordFields fields = {};  ///< of records: source, target and further references, or the texts alone

  bool empty() const { return target.empty(); }
  bool has_source() const { return !source.empty() || fields.names.size() > 1; }
};

/// The number of pairs that were left out, for each reason.
struct SkippedPairs {
  std::int64_t no_text = 0;   ///< invalid UTF-8 or a NUL byte
  std::int64_t blank = 0;     ///< one side is empty or white space
  std::int64_t too_long = 0;  ///< more than max_words
  std::int64_t unpaired = 0;  ///< beyond the end of the other file
  std::int64_t broken = 0;    ///< records without the fields, or of the wrong form
  std::string first;          ///< "train.en:17: byte 3 is 0xef: ..."

  std::int64_t total() const { return no_text + blank + too_long + unpaired + broken; }
};

/// "3 pairs skipped: 1 not UTF-8, 2 blank; the first: train.en:17: ..."; empty for none.
std::string describe(const SkippedPairs& skipped, std::string_view noun = "pair");

/// Reads pair by pair; only one is in memory. Bad pairs are refused with `file:line: ...`, or skipped and counted:
/// invalid UTF-8, blank lines, lines of too many words, files of different length. Blank lines of texts alone are
/// always skipped.
class PairReader {
 public:
  PairReader(const PairFiles& files, const LineRules& rules);

  /// False at the end of the files.
  bool next(TextPair& pair);

  /// The number of the line that `next` gave last.
  std::int64_t number() const { return records_ ? records_->number() : target_->number(); }
  const SkippedPairs& skipped() const { return skipped_; }

 private:
  bool next_lines(TextPair& pair);
  bool next_record(TextPair& pair);
  bool has_fault(const std::string& text, const std::string& place, std::string_view if_blank);
  bool report(std::int64_t SkippedPairs::*kind, const std::string& message, bool is_harmless = false);
  void end_together(bool source, bool target, bool alignment);

  LineRules rules_;
  bool has_source_ = false;
  std::optional<LineReader> source_, target_, alignment_;
  std::optional<RecordReader> records_;  ///< in the place of source_ and target_
  SkippedPairs skipped_;
};

struct ParallelCorpusOptions {
  std::string data;  ///< a directory, or one file of texts alone or of records
  std::string source,
      target;           ///< how the names of the files end: "en", "de"; or fields of records; no source: texts alone
  std::string columns;  ///< records: "1,2" or "source,target", in the place of source and target
  Header header = Header::automatic;
  bool needs_source = false;                 ///< true: texts alone are refused
  std::string train_set, dev_set, test_set;  ///< names without the language; empty: found by their names
  LineRules lines;
  bool needs_training_set = true;  ///< false: a directory of other parts alone will do
};

/// Declares --source, --target, --columns, --header, --train-set, --dev-set, --test-set, --bad-lines and --max-words;
/// --data is the program's own flag.
void add_options(Cli& cli, ParallelCorpusOptions& options);

/// The files `SET.LANGUAGE` of a directory, also with .txt or .gz behind it or both; texts alone need no language:
/// train.txt, wiki.valid.tokens. `choose_sets` (text_sets.h) says which set is which part. `SET.align` has gold
/// alignments. A part without files is split off the training pairs by a hash of the source (10 % each).
///
/// Sets may also be files of records, train.jsonl, train.tsv or train.csv: pairs are two of their fields, texts alone
/// one.
///
/// Or one file. If it is called a training file, the development and test file beside it are read too. Otherwise it is
/// split: pairs by hash; of texts alone the last tenth of the lines is the test part, the tenth before it the
/// development part.
class ParallelCorpus : public PairSource {
 public:
  /// Throws Error where a needed training file is missing, a file has no partner, or several sets could be a part.
  /// Reads a single file of texts once, to count its lines.
  explicit ParallelCorpus(const ParallelCorpusOptions& options);

  void visit(Part part, const std::function<void(const TextPair&)>& visitor) const override;
  std::string description() const override;
  /// "train: 3 pairs skipped: ...", a part after the other.
  std::string left_out() const override;

  const PairFiles& files(Part part) const { return files_[static_cast<std::size_t>(part)]; }
  /// The pairs that the last visit of the part's files left out.
  const SkippedPairs& skipped(Part part) const { return skipped_[static_cast<std::size_t>(part)]; }

 private:
  void find_parts(const std::filesystem::path& file);
  RecordFormat format_of(const std::filesystem::path& file) const;
  RecordFields fields_of(const std::filesystem::path& file, RecordFormat format) const;
  PairFiles records_or_lines(const std::filesystem::path& file) const;
  TextSets sets_of_records(const std::filesystem::path& directory) const;
  void find_sets(const std::filesystem::path& directory);
  void choose_files(const TextSets& targets, const std::string& train_set, const std::filesystem::path& directory);
  [[noreturn]] void fail_without_training_set(const std::filesystem::path& directory) const;
  Part part_of(const TextPair& pair, std::int64_t line) const;

  ParallelCorpusOptions options_;
  std::array<PairFiles, 3> files_;
  std::vector<std::string> unused_;  ///< names of files that look like a part of the data but are not used
  std::int64_t lines_ = 0;           ///< of the one file; 0 for a directory
  mutable std::array<SkippedPairs, 3> skipped_;
};

}  // namespace fovea
