#include "experiments/support/text/lines.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "experiments/support/text/words.h"

namespace fovea {

namespace {

constexpr std::size_t chunk_bytes = 1 << 16;
constexpr std::size_t longest_line = std::size_t{64} << 20;

/// Length of the well-formed UTF-8 sequence that starts the text, or 0 (the table of RFC 3629, section 4).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) { return byte(i) >= low && byte(i) <= high; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return within(1, 0x80, 0xbf) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool second = within(1, lead == 0xe0 ? 0xa0 : 0x80, lead == 0xed ? 0x9f : 0xbf);
    return second && within(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool second = within(1, lead == 0xf0 ? 0x90 : 0x80, lead == 0xf4 ? 0x8f : 0xbf);
    return second && within(2, 0x80, 0xbf) && within(3, 0x80, 0xbf) ? 4 : 0;
  }
  return 0;
}

}  // namespace

/// The file's bytes, inflated where they are a gzip stream (or several, one after the other).
class LineReader::Source {
 public:
  Source(const std::filesystem::path& path, const std::string& name) : name_(name) {
    if (path == "-") {
      file_ = ::dup(0);
    } else {
      const auto status = std::filesystem::status(path);
      if (std::filesystem::is_directory(status)) fail("{}: a directory, expected a text file", name);
      file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    if (file_ < 0) fail("{}: cannot be opened: {}", name, std::strerror(errno));
    must_be_gzip_ = path.extension() == ".gz";
  }
  ~Source() {
    if (inflating_) ::inflateEnd(&stream_);
    ::close(file_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// Appends some more bytes; false at the end. `line` is named in errors.
  bool append_to(std::string& text, std::int64_t line) {
    if (!recognised_) recognise();
    if (!inflating_) {
      if (begin_ == end_ && !refill()) return false;
      text.append(input_.data() + begin_, end_ - begin_);
      begin_ = end_;
      return true;
    }
    return inflate_to(text, line);
  }

 private:
  /// Only when something is asked for: a person at the keyboard need not type before the program goes on.
  void recognise() {
    while ((end_ == 0 || (end_ == 1 && input_[0] == '\x1f')) && refill(end_)) continue;
    recognised_ = true;
    const bool compressed = end_ >= 2 && input_[0] == '\x1f' && input_[1] == '\x8b';
    require(compressed || !must_be_gzip_, "{}: not a gzip file (it does not start with the bytes 1f 8b)", name_);
    if (compressed) {
      constexpr int gzip_only = 15 + 16;
      require(::inflateInit2(&stream_, gzip_only) == Z_OK, "{}: zlib cannot start: out of memory", name_);
      inflating_ = true;
    }
  }

  bool refill(std::size_t from = 0) {
    begin_ = 0;
    ssize_t got = 0;
    do {
      got = ::read(file_, input_.data() + from, input_.size() - from);
    } while (got < 0 && errno == EINTR);
    if (got < 0) fail("{}: cannot be read: {}", name_, std::strerror(errno));
    end_ = from + static_cast<std::size_t>(got);
    return got > 0;
  }

  bool inflate_to(std::string& text, std::int64_t line) {
    const std::size_t before = text.size();
    while (text.size() == before) {
      if (begin_ == end_ && !refill()) {
        require(between_members_, "{}:{}: the gzip stream is truncated: the file ends inside it", name_, line);
        return false;
      }
      if (between_members_ && !first_member_ && input_[begin_] != '\x1f') {  // zero padding, as tar and tapes add it
        require(input_[begin_] == '\0', "{}:{}: bytes that are no gzip stream follow the end of one", name_, line);
        ++begin_;
        continue;
      }
      inflate_chunk(text, line);
    }
    return true;
  }

  void inflate_chunk(std::string& text, std::int64_t line) {
    between_members_ = false;
    std::array<char, chunk_bytes> output;
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data() + begin_);
    stream_.avail_in = static_cast<uInt>(end_ - begin_);
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(output.size());
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    begin_ = end_ - stream_.avail_in;
    text.append(output.data(), output.size() - stream_.avail_out);
    if (result == Z_STREAM_END) {
      between_members_ = true;
      first_member_ = false;
      ::inflateReset(&stream_);
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail("{}:{}: the gzip stream is damaged: {}", name_, line,
           stream_.msg != nullptr ? stream_.msg : "unknown fault");
    }
  }

  std::string name_;
  int file_ = -1;
  std::array<char, chunk_bytes> input_{};
  std::size_t begin_ = 0, end_ = 0;
  bool must_be_gzip_ = false, recognised_ = false, inflating_ = false;
  bool between_members_ = false, first_member_ = true;
  z_stream stream_{};
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

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::string::npos;
}

}  // namespace fovea
