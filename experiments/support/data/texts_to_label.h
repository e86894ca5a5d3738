/// New texts for a trained classifier, from files of lines and from tables like those it was trained on.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/support/data/records.h"
#include "experiments/support/data/sentiment_data.h"

namespace fovea {

/// Reads one text at a time, also from standard input ("-") while a person types. Every line or record except a header
/// is one text; a blank line is a blank text.
///
/// In JSON lines the text is the key, in tables the column, that `columns` (SentimentOptions::columns) says, or the one
/// whose name says that it has texts (sentence, text, ...). Of two columns without a header it is the one beside a
/// label, one of the `classes`. Other lines are texts as a whole.
class TextsToLabel {
 public:
  TextsToLabel(const std::filesystem::path& file, std::vector<std::string> classes,
               std::string columns = automatic_columns);

  /// Reads the next text; false at the end. Throws Error "file:line: ..." for invalid text and for rows with another
  /// number of columns.
  bool next(std::string& text);

  /// The column that is read, known after the first text: "new.tsv: labels are for column 1 of 2, 'sentence'". Empty
  /// where whole lines are texts.
  const std::string& note() const { return note_; }

  std::int64_t number() const { return table_.number(); }
  const std::string& name() const { return table_.name(); }

  /// Throws Error "file:line: ..." about the text that `next` gave last, unless the claim holds.
  template <class... Args>
  void require_here(bool claim, fmt::format_string<Args...> format, Args&&... args) const {
    if (!claim) [[unlikely]]
      table_.fail_here(format, std::forward<Args>(args)...);
  }

 private:
  bool begin(std::vector<std::string>& row);
  std::optional<std::size_t> named_column(const std::vector<std::string>& row) const;
  std::optional<std::size_t> column_beside_label(const std::vector<std::string>& row) const;
  std::string text_of(const std::vector<std::string>& row);

  TableReader table_;
  RecordFormat format_;
  std::vector<std::string> classes_;
  std::string column_;  ///< its name or number from `columns`; empty: to be found out
  std::string note_;
  bool has_begun_ = false;
  std::optional<std::size_t> place_;  ///< the position of the column; nothing: whole lines are texts
  std::size_t width_ = 1;
};

}  // namespace fovea
