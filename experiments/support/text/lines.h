/// UTF-8 text, line by line, from plain or gzip-compressed files or standard input.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/error.h"

namespace fovea {

/// Reads the lines of a text file. gzip files are recognised by their content. Byte order marks, and a carriage return
/// before the line feed, are dropped; a last line without a line feed counts. Refused with `file:line: ...` are invalid
/// UTF-8, NUL bytes, a truncated or damaged gzip stream, bytes other than zeros behind it, a .gz file that is not
/// compressed, a line of more than 64 MiB, a file whose lines end in carriage returns alone, and files of other
/// formats. The first carriage return inside a line, and the first byte order mark inside the file, are warned of.
class LineReader {
 public:
  /// "-" is standard input, which is read no further than necessary, so that a person can type lines.
  /// Throws Error where the path is missing, a directory or unreadable.
  explicit LineReader(const std::filesystem::path& path);
  ~LineReader();
  LineReader(LineReader&&) noexcept;
  LineReader& operator=(LineReader&&) noexcept;

  /// Puts the next line into `line`, without its end; false at the end of the file.
  bool next(std::string& line);

  /// Like `next`, but also returns lines that are not valid text: `text_fault` describes the fault.
  bool next_of_any_kind(std::string& line);

  /// Number of the line that `next` gave last, from 1; 0 before the first.
  std::int64_t number() const { return number_; }

  /// The path, or "standard input": how errors name the file.
  const std::string& name() const { return name_; }

  /// Throws Error "file:line: ..." about the line that `next` gave last.
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(fmt::format("{}:{}: {}", name_, number_, fmt::format(format, std::forward<Args>(args)...)));
  }

  /// Calls fail_here unless the claim holds.
  template <class... Args>
  void require_here(bool claim, fmt::format_string<Args...> format, Args&&... args) const {
    if (!claim) [[unlikely]]
      fail_here(format, std::forward<Args>(args)...);
  }

 private:
  class Source;
  void require_text(std::string_view first) const;
  void mend(std::string& line);

  std::unique_ptr<Source> source_;
  std::string name_, pending_;
  std::size_t used_ = 0;  ///< bytes of pending_ that were returned as lines
  std::int64_t number_ = 0;
  bool has_warned_of_mark_ = false, has_warned_of_return_ = false;
};

/// A text file in memory: line i of `lines` is number i + 1.
struct TextFile {
  std::string name;
  std::vector<std::string> lines;

  /// Throws Error "file:line: ..." about lines[i].
  template <class... Args>
  [[noreturn]] void fail_at(std::size_t i, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(fmt::format("{}:{}: {}", name, i + 1, fmt::format(format, std::forward<Args>(args)...)));
  }
};

/// All lines of the file. Throws as LineReader does.
TextFile read_lines(const std::filesystem::path& path);

/// The whole text of a small file, its lines joined by `separator`. Throws as LineReader does.
std::string read_text(const std::filesystem::path& path, std::string_view separator = "\n");

/// The fault of a line that is not valid text: "byte 3 is 0xef: not valid UTF-8 (...)", or a NUL byte; empty for valid
/// text.
std::string text_fault(std::string_view line);

/// Whether the line is empty or white space.
bool is_blank(std::string_view line);

}  // namespace fovea
