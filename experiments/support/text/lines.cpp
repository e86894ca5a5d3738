#include "experiments/support/text/lines.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include <unistd.h>
#include <zlib.h>

#include "experiments/support/text/words.h"

namespace fovea {

namespace {

constexpr std::size_t chunk_bytes = 1 << 16;
constexpr std::size_t longest_line = std::size_t{64} << 20;

}  // namespace

/// The bytes of a file, read by zlib, which passes plain text on unchanged. Standard input is read directly, because
/// zlib waits until a buffer is full, and a person who types wants an answer after each line.
class LineReader::Source {
 public:
  Source(const std::filesystem::path& path, const std::string& name) : name_(name) {
    if (path == "-") return;
    require(!std::filesystem::is_directory(path), "{}: a directory, expected a text file", name);
    file_ = ::gzopen(path.c_str(), "rbe");
    require(file_ != nullptr, "{}: cannot be opened: {}", name, std::strerror(errno));
    ::gzbuffer(file_, chunk_bytes);
    must_be_compressed_ = path.extension() == ".gz";
  }
  ~Source() {
    if (file_ != nullptr) ::gzclose_r(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Appends some more bytes; false at the end. `line` is named in errors.
  bool append_to(std::string& text, std::int64_t line) {
    std::array<char, chunk_bytes> chunk;
    const auto bytes = file_ == nullptr ? bytes_of_standard_input(chunk) : bytes_of_file(chunk, line);
    text.append(chunk.data(), bytes);
    return bytes > 0;
  }

 private:
  std::size_t bytes_of_standard_input(std::span<char> chunk) {
    ssize_t bytes = 0;
    do {
      bytes = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    } while (bytes < 0 && errno == EINTR);
    require(bytes >= 0, "{}: cannot be read: {}", name_, std::strerror(errno));
    const bool compressed = is_first_ && std::string_view(chunk.data(), std::size_t(bytes)).starts_with("\x1f\x8b");
    require(!compressed, "{}: is compressed with gzip; zcat FILE | ... sends the text itself", name_);
    is_first_ = false;
    return std::size_t(bytes);
  }

  std::size_t bytes_of_file(std::span<char> chunk, std::int64_t line) {
    const bool is_plain = must_be_compressed_ && is_first_ && ::gzdirect(file_) == 1;
    require(!is_plain, "{}: not a gzip file (it does not start with the bytes 1f 8b)", name_);
    is_first_ = false;
    const int bytes = ::gzread(file_, chunk.data(), static_cast<unsigned>(chunk.size()));
    if (bytes > 0) return std::size_t(bytes);
    int fault = Z_OK;
    std::string_view reason = ::gzerror(file_, &fault);
    if (reason.starts_with(name_ + ": ")) reason.remove_prefix(name_.size() + 2);
    require(fault != Z_ERRNO, "{}: cannot be read: {}", name_, std::strerror(errno));
    require(fault != Z_BUF_ERROR, "{}:{}: the gzip stream is truncated: the file ends inside it", name_, line);
    require(fault == Z_OK, "{}:{}: the gzip stream is damaged: {}", name_, line, reason);
    return 0;
  }

  std::string name_;
  gzFile file_ = nullptr;
  bool must_be_compressed_ = false, is_first_ = true;
};

LineReader::LineReader(const std::filesystem::path& path)
    : name_(path == "-" ? std::string("standard input") : path.string()) {
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

bool LineReader::next_of_any_kind(std::string& line) {
  std::size_t end = pending_.find('\n', used_);
  while (end == std::string::npos) {
    pending_.erase(0, used_);
    used_ = 0;
    const std::size_t searched = pending_.size();
    if (!source_->append_to(pending_, number_ + 1)) break;
    end = pending_.find('\n', searched);
    require((end == std::string::npos ? pending_.size() : end) <= longest_line,
            "{}:{}: a line of more than {} MiB: not a text of lines", name_, number_ + 1, longest_line >> 20);
  }
  if (end == std::string::npos && used_ == pending_.size()) return false;
  line.assign(pending_, used_, (end == std::string::npos ? pending_.size() : end) - used_);
  used_ = end == std::string::npos ? pending_.size() : end + 1;
  ++number_;

  if (!line.empty() && line.back() == '\r') line.pop_back();
  if (number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);
  return true;
}

std::string text_fault(std::string_view line) {
  if (const std::size_t bad = invalid_utf8(line); bad != std::string::npos) {
    return fmt::format("byte {} is 0x{:02x}: not valid UTF-8 (another encoding? try iconv -t UTF-8)", bad + 1,
                       static_cast<unsigned char>(line[bad]));
  }
  const std::size_t nul = line.find('\0');
  return nul == std::string::npos ? "" : fmt::format("byte {} is NUL: not a text file", nul + 1);
}

TextFile read_lines(const std::filesystem::path& path) {
  LineReader reader(path);
  TextFile file{.name = reader.name(), .lines = {}};
  for (std::string line; reader.next(line);) file.lines.push_back(line);
  return file;
}

std::size_t TextFile::first_line() const {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_blank(lines[i])) return i;
  }
  fail("{}: the file is empty", name);
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
