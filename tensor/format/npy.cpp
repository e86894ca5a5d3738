#include "tensor/format/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <string_view>

#include "tensor/error.h"
#include "tensor/format/byte_source.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/in_quotes.h"

namespace fovea {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t version_bytes = 2;
constexpr std::size_t header_limit = 65535;  // the most that version 1.0 allows; eight dimensions need less than 400
constexpr std::size_t alignment = 64;        // NumPy starts the data at a multiple of this

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array type_names{TypeName{"<f4", DType::f32}, TypeName{"<f8", DType::f64},
                                TypeName{"<i4", DType::i32}, TypeName{"<i8", DType::i64},
                                TypeName{"|u1", DType::u8},  TypeName{"|b1", DType::boolean}};

struct Header {
  DType dtype = DType::f32;
  bool fortran_order = false;
  Shape shape;
};

DType type_of(const std::string& source, std::string_view descr) {
  for (const TypeName& type : type_names)
    if (descr == type.name) return type.dtype;
  auto shown = in_quotes(descr);
  constexpr std::string_view readable = "<f4, <f8, <i4, <i8, |u1 or |b1";
  require(!descr.starts_with('>'), "{}: is big-endian ({}), expected {}; astype converts it", source, shown, readable);
  require(!descr.starts_with("<V") && !descr.starts_with("|V"),
          "{}: has elements without a type ({}), expected {}; bf16 can be kept in .safetensors files", source, shown,
          readable);
  require(!descr.starts_with("|O"), "{}: has Python objects ({}), expected {}", source, shown, readable);
  fail("{}: is of type {}, expected {}; astype converts it", source, shown, readable);
}

/// Parses the header, a Python literal: a dictionary with a string, a bool and a tuple of whole numbers.
class HeaderReader {
 public:
  HeaderReader(const std::string& source, std::string_view text) : source_(source), text_(text) {}

  Header read() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      std::string_view key = string();
      expect(':');
      if (key == "descr") {
        first(has_descr, key);
        require(next() != '[', "{}: has structured elements, expected plain numbers", source_);
        header.dtype = type_of(source_, string());
      } else if (key == "fortran_order") {
        first(has_order, key);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        first(has_shape, key);
        header.shape = sizes();
      } else {
        fail("{}: the header has {}, expected descr, fortran_order and shape", source_, in_quotes(key));
      }
      if (!accept(',') && next() != '}') refuse("',' or '}'");
    }
    require(has_descr && has_order && has_shape, "{}: the header has no {}", source_,
            !has_descr   ? "descr"
            : !has_order ? "fortran_order"
                         : "shape");
    next();
    if (at_ < text_.size()) refuse("its end");
    return header;
  }

 private:
  /// Skips blanks and returns the next character without consuming it, or '\0' at the end.
  char next() {
    at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool accept(char c) {
    if (next() != c || at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) refuse(fmt::format("'{}'", c));
  }

  [[noreturn]] void refuse(std::string_view expected) {
    next();
    fail("{}: the header has {} at its byte {}, expected {}", source_, in_quotes(text_.substr(at_, 20)), at_, expected);
  }

  void first(bool& seen, std::string_view key) const {
    require(!seen, "{}: the header has {} twice", source_, key);
    seen = true;
  }

  std::string_view string() {
    char quote = next();
    if (quote != '\'' && quote != '"') refuse("a string");
    std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("a string that ends");
    std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }

  bool boolean() {
    next();
    for (auto [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return value;
    }
    refuse("True or False");
  }

  Shape sizes() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      next();
      std::int64_t size = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) refuse("a whole number from 0 to 2^63 - 1");
      at_ = static_cast<std::size_t>(end - text_.data());
      require(shape.rank() < Shape::max_rank, "{}: has more than {} dimensions, which is the most a tensor has",
              source_, int{Shape::max_rank});
      shape.push_back(size);
      accept('L');  // the suffix of long integers in Python 2
      if (!accept(',') && next() != ')') refuse("',' or ')'");
    }
    return shape;
  }

  const std::string& source_;
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Returns the header's text and the offset at which the data begins.
std::pair<std::string, std::size_t> read_header_text(const ByteSource& source) {
  std::array<char, magic.size() + version_bytes> start{};
  require(source.size() >= start.size(), "{}: has {} bytes, a .npy file has at least {}", source.name(), source.size(),
          start.size());
  source.read(0, start.data(), start.size());
  std::string_view text(start.data(), magic.size());
  require(text == magic, "{}: begins with {}, a .npy file with '\\x93NUMPY'", source.name(), in_quotes(text));
  int major = static_cast<unsigned char>(start[magic.size()]), minor = static_cast<unsigned char>(start.back());
  require(major >= 1 && major <= 3 && minor == 0, "{}: is of version {}.{} of the format, expected 1.0, 2.0 or 3.0",
          source.name(), major, minor);

  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::size_t begin = start.size() + length_bytes;
  require(source.size() >= begin, "{}: has {} bytes and ends before the header", source.name(), source.size());
  std::uint32_t length = 0;
  source.read(start.size(), &length, length_bytes);
  require(length <= header_limit, "{}: the header would have {} bytes, expected at most {}", source.name(), length,
          header_limit);
  require(length <= source.size() - begin,
          "{}: the header has {} bytes, the file {} after its length: it was cut short", source.name(), length,
          source.size() - begin);
  std::string header(length, '\0');
  source.read(begin, header.data(), length);
  return {header, begin + length};
}

Tensor read(const ByteSource& source) {
  auto [text, data_begin] = read_header_text(source);
  Header header = HeaderReader(source.name(), text).read();
  std::size_t needed = stored_bytes(source.name(), header.shape, header.dtype), present = source.size() - data_begin;
  require(needed <= present, "{}: {} {} takes {} bytes, the file has {} after its header: it was cut short",
          source.name(), name(header.dtype), header.shape, needed, present);
  require(needed == present, "{}: {} {} takes {} bytes, the file has {} after its header; expected one array",
          source.name(), name(header.dtype), header.shape, needed, present);

  std::array<int, Shape::max_rank> order{};
  auto last = order.begin() + header.shape.rank();
  std::iota(order.begin(), last, 0);
  if (header.fortran_order) std::reverse(order.begin(), last);
  Tensor tensor = Tensor::empty(header.shape, std::span(order.begin(), last), header.dtype, Device::cpu);
  read_elements(source, data_begin, source.name(), tensor);
  return tensor;
}

/// Returns the start of a file, up to the data: magic string, version 1.0, length of the header and header, padded with
/// spaces to a multiple of `alignment` bytes, which is 128 for every shape.
std::string header_text(DType dtype, const Shape& shape) {
  auto type = std::find_if(type_names.begin(), type_names.end(), [&](auto& t) { return t.dtype == dtype; });
  std::string sizes;
  for (std::int64_t size : shape) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size);
  if (shape.rank() == 1) sizes += ",";
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->name, sizes);
  const std::size_t before = magic.size() + version_bytes + 2;
  text.append((alignment - (before + text.size() + 1) % alignment) % alignment, ' ');
  text += '\n';
  std::string start(magic);
  start += {'\1', '\0', static_cast<char>(text.size() & 255), static_cast<char>(text.size() >> 8)};
  return start + text;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) { return read(ByteSource(path)); }

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& source) {
  return read(ByteSource(bytes, source));
}

void write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  require(tensor.defined(), "{}: the tensor is undefined: it has no values to write", path.string());
  require(tensor.dtype() != DType::bf16, "{}: NumPy has no bf16; convert to f32 first, or write .safetensors",
          path.string());
  Tensor packed = tensor.to(Device::cpu).contiguous();
  AtomicFile file(path);
  file.write(header_text(packed.dtype(), packed.shape()));
  file.write(packed.address(), packed.bytes());
  file.commit();
}

}  // namespace fovea
