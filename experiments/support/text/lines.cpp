#include "experiments/support/text/lines.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "experiments/support/text/words.h"
#include "tensor/format/file_kind.h"
#include "tensor/support/warning.h"

namespace fovea {

namespace {

constexpr std::size_t chunk_bytes = 1 << 16;
constexpr std::size_t longest_line = std::size_t{64} << 20;

}  // namespace

/// The bytes of a file or of standard input, unpacked if they are those of gzip. Input is read no further than
/// necessary: a person who types lines wants an answer after each.
class LineReader::Source {
 public:
  Source(const std::filesystem::path& path, const std::string& name) : name_(name) {
    if (path == "-") return;
    require(!std::filesystem::is_directory(path), "{}: a directory, expected a text file", name);
    file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    require(file_ >= 0, "{}: cannot be opened: {}", name, std::strerror(errno));
    must_be_compressed_ = path.extension() == ".gz";
  }
  ~Source() {
    if (is_compressed_) ::inflateEnd(&gzip_);
    if (file_ != STDIN_FILENO) ::close(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Appends some more bytes; false at the end. `line` is named in errors.
  bool append_to(std::string& text, std::int64_t line) {
    if (is_first_) begin();
    if (is_compressed_) return unpack_some(text, line);
    if (!has_unread()) return false;
    text.append(std::exchange(unread_, {}));
    return true;
  }

 private:
  static constexpr char gzip_mark = '\x1f';

  void begin() {
    is_first_ = false;
    is_compressed_ = has_unread() && unread_[0] == gzip_mark;
    require(is_compressed_ || !must_be_compressed_ || unread_.empty(),
            "{}: not a gzip file (it does not start with the bytes 1f 8b)", name_);
    constexpr int gzip_of_any_window = 15 + 16;
    if (is_compressed_ && ::inflateInit2(&gzip_, gzip_of_any_window) != Z_OK) throw std::bad_alloc();
  }

  /// Reads more bytes if all are used; false at the end of the input.
  bool has_unread() {
    if (!unread_.empty()) return true;
    ssize_t bytes = 0;
    do {
      bytes = ::read(file_, input_.data(), input_.size());
    } while (bytes < 0 && errno == EINTR);
    require(bytes >= 0, "{}: cannot be read: {}", name_, std::strerror(errno));
    unread_ = {input_.data(), std::size_t(bytes)};
    return bytes > 0;
  }

  /// A gzip file has one member or several behind one another. Only zeros may follow the last one, as tapes have them.
  bool unpack_some(std::string& text, std::int64_t line) {
    std::array<char, chunk_bytes> chunk;
    for (;;) {
      if (!has_unread()) {
        require(is_behind_member_, "{}:{}: the gzip stream is truncated: the file ends inside it", name_, line);
        return false;
      }
      if (is_behind_member_) {
        const std::size_t zeros = std::min(unread_.find_first_not_of('\0'), unread_.size());
        is_padded_ = is_padded_ || zeros > 0;
        unread_.remove_prefix(zeros);
        if (unread_.empty()) continue;
        require(!is_padded_ && unread_[0] == gzip_mark,
                "{}:{}: the gzip stream is damaged: the bytes behind it are neither zeros nor more of gzip", name_,
                line);
        ::inflateReset(&gzip_);
        is_behind_member_ = false;
      }
      gzip_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(unread_.data()));
      gzip_.avail_in = static_cast<uInt>(unread_.size());
      gzip_.next_out = reinterpret_cast<Bytef*>(chunk.data());
      gzip_.avail_out = chunk.size();
      const int status = ::inflate(&gzip_, Z_NO_FLUSH);
      require(status == Z_OK || status == Z_BUF_ERROR || status == Z_STREAM_END,
              "{}:{}: the gzip stream is damaged: {}", name_, line, gzip_.msg ? gzip_.msg : "it needs a dictionary");
      unread_.remove_prefix(unread_.size() - gzip_.avail_in);
      is_behind_member_ = status == Z_STREAM_END;
      const std::size_t unpacked = chunk.size() - gzip_.avail_out;
      text.append(chunk.data(), unpacked);
      if (unpacked > 0) return true;
    }
  }

  std::string name_;
  int file_ = STDIN_FILENO;
  std::array<char, chunk_bytes> input_;
  std::string_view unread_;  ///< bytes of input_ that are not used yet
  z_stream gzip_{};
  bool must_be_compressed_ = false, is_first_ = true, is_compressed_ = false;
  bool is_behind_member_ = false, is_padded_ = false;
};

LineReader::LineReader(const std::filesystem::path& path)
    : name_(path == "-"    ? "standard input"
            : path.empty() ? "''"
                           : path.string()) {
  source_ = std::make_unique<Source>(path, name_);
}
LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

bool LineReader::next(std::string& line) {
  if (!next_of_any_kind(line)) return false;
  if (const std::string fault = text_fault(line); !fault.empty()) fail_here("{}", fault);
  return true;
}

/// Refuses files of other formats by their first bytes. JSON is read, pages and documents of markup are not.
void LineReader::require_text(std::string_view first) const {
  const std::size_t bad = std::min(invalid_utf8(first), first.find('\0'));
  constexpr std::size_t cut = 3;  // a character may be cut at the end of the first bytes
  const bool is_text = bad == std::string::npos || bad + cut >= std::max(first.size(), recognised_bytes);
  if (is_text && !first.starts_with("version https://git-lfs") && !is_markup(first)) return;
  const std::string known = wrong_format(name_, first, "UTF-8 text");
  require(known.empty(), "{}", known);
}

/// A mark in a line shows that files were joined; a carriage return, that lines end otherwise than in a line feed.
void LineReader::mend(std::string& line) {
  constexpr std::string_view mark = "\xef\xbb\xbf";
  if (number_ == 1 && line.starts_with(mark)) line.erase(0, mark.size());
  if (std::size_t at = line.find(mark); at != std::string::npos) {
    if (!std::exchange(has_warned_of_mark_, true))
      warn(fmt::format("{}:{}: a byte order mark inside the file, as where two files were joined; it is left out",
                       name_, number_));
    for (; at != std::string::npos; at = line.find(mark, at)) line.erase(at, mark.size());
  }
  if (line.find('\r') == std::string::npos) return;
  const bool is_only_line = number_ == 1 && used_ == pending_.size() && !source_->append_to(pending_, 2);
  require(!is_only_line, "{}: its lines end in carriage returns alone; tr '\\r' '\\n' < FILE > NEW mends that", name_);
  constexpr std::ptrdiff_t most_in_line = 8;  // more of them show that lines were joined
  require(std::ranges::count(line, '\r') < most_in_line,
          "{}:{}: the line has {} carriage returns, as where lines that end in them alone were joined with others; "
          "tr '\\r' '\\n' < FILE > NEW makes lines of them",
          name_, number_, std::ranges::count(line, '\r'));
  if (!std::exchange(has_warned_of_return_, true))
    warn(fmt::format("{}:{}: a carriage return inside the line; it is read as a space", name_, number_));
}

bool LineReader::next_of_any_kind(std::string& line) {
  std::size_t end = pending_.find('\n', used_);
  while (end == std::string::npos) {
    pending_.erase(0, used_);
    used_ = 0;
    const std::size_t searched = pending_.size();
    if (!source_->append_to(pending_, number_ + 1)) break;
    if (number_ == 0 && searched == 0) require_text(std::string_view(pending_).substr(0, recognised_bytes));
    end = pending_.find('\n', searched);
    require((end == std::string::npos ? pending_.size() : end) <= longest_line,
            "{}:{}: a line of more than {} MiB: not a text of lines{}", name_, number_ + 1, longest_line >> 20,
            pending_.find('\r') == std::string::npos ? "" : ", or they end in carriage returns alone");
  }
  if (end == std::string::npos && used_ == pending_.size()) return false;
  line.assign(pending_, used_, (end == std::string::npos ? pending_.size() : end) - used_);
  used_ = end == std::string::npos ? pending_.size() : end + 1;
  ++number_;

  if (!line.empty() && line.back() == '\r') line.pop_back();
  mend(line);
  return true;
}

std::string text_fault(std::string_view line) {
  if (const std::size_t bad = invalid_utf8(line); bad != std::string::npos) {
    return fmt::format("byte {} is 0x{:02x}: not valid UTF-8 (another encoding? try iconv -t UTF-8)", bad + 1,
                       static_cast<unsigned char>(line[bad]));
  }
  const std::size_t nul = line.find('\0');
  return nul == std::string::npos
             ? ""
             : fmt::format("byte {} is NUL: not a text file in UTF-8 (of UTF-16? try iconv -f UTF-16{} -t UTF-8)",
                           nul + 1, nul == 0 ? "BE" : "LE");
}

TextFile read_lines(const std::filesystem::path& path) {
  LineReader reader(path);
  TextFile file{.name = reader.name(), .lines = {}};
  for (std::string line; reader.next(line);) file.lines.push_back(line);
  return file;
}

bool is_blank(std::string_view line) { return split_words(line).empty(); }

std::string read_text(const std::filesystem::path& path, std::string_view separator) {
  LineReader reader(path);
  std::string text;
  for (std::string line; reader.next(line);) {
    if (reader.number() > 1) text += separator;
    text += line;
  }
  return text;
}

}  // namespace fovea
