#include "tensor/format/npy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string_view>

#include <nlohmann/json.hpp>

#include "tensor/error.h"
#include "tensor/format/byte_source.h"
#include "tensor/support/in_quotes.h"

namespace fovea {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t version_bytes = 2;
constexpr std::size_t header_limit = 65535;  // the most that version 1.0 allows; eight dimensions need less than 400

constexpr std::array stored_types{StoredType{"<f4", DType::f32},       StoredType{"<f8", DType::f64},
                                  StoredType{"<f2", DType::f32, true}, StoredType{"<i4", DType::i32},
                                  StoredType{"<i8", DType::i64},       StoredType{"|u1", DType::u8},
                                  StoredType{"|b1", DType::boolean}};

struct Header {
  StoredType type;
  bool fortran_order;
  Shape shape;
};

using Json = nlohmann::json;

StoredType type_of(const std::string& source, std::string_view descr) {
  for (const StoredType& type : stored_types)
    if (descr == type.name) return type;
  auto shown = in_quotes(descr);
  constexpr std::string_view readable = "<f4, <f8, <f2, <i4, <i8, |u1 or |b1";
  require(!descr.starts_with('>'), "{}: is big-endian ({}), expected {}; astype converts it", source, shown, readable);
  require(!descr.starts_with("<V") && !descr.starts_with("|V"),
          "{}: has elements without a type ({}), expected {}; bf16 can be kept in .safetensors files", source, shown,
          readable);
  require(!descr.starts_with("|O"), "{}: has Python objects ({}), expected {}", source, shown, readable);
  fail("{}: is of type {}, expected {}; astype converts it", source, shown, readable);
}

/// Returns a Python literal of strings without quotes in them, booleans, tuples, lists and dictionaries as JSON.
std::string as_json(std::string literal) {
  const std::array<std::pair<std::string_view, std::string_view>, 5> words{
      {{"'", "\""}, {"(", "["}, {")", "]"}, {"True", "true"}, {"False", "false"}}};
  for (const auto& [python, json] : words)
    for (std::size_t at = 0; (at = literal.find(python, at)) != literal.npos; at += json.size())
      literal.replace(at, python.size(), json);
  // Python allows a comma after the last element, and the integers of Python 2 may end in L.
  std::string json;
  for (char c : literal) {
    const std::size_t last = json.find_last_not_of(" \t\r\n");
    if ((c == ']' || c == '}') && last != json.npos && json[last] == ',') json.resize(last);
    if (c != 'L' || json.empty() || !std::isdigit(static_cast<unsigned char>(json.back()))) json += c;
  }
  return json;
}

Header parse_header(const std::string& source, const std::string& text) {
  // The parser would take a NUL for the end of the text.
  const Json fields = text.find('\0') == text.npos ? Json::parse(as_json(text), nullptr, false) : Json();
  require(fields.is_object() && fields.size() == 3 && fields.contains("descr") && fields.contains("fortran_order") &&
              fields.contains("shape"),
          "{}: the header is {}, expected a dictionary of descr, fortran_order and shape", source, in_quotes(text));
  const Json &type = fields["descr"], &order = fields["fortran_order"], &sizes = fields["shape"];
  require(!type.is_array(), "{}: has structured elements, expected plain numbers", source);
  require(type.is_string() && order.is_boolean() && sizes.is_array(),
          "{}: the header is {}, expected a string, True or False, and a tuple", source, in_quotes(text));
  Header header{type_of(source, type.get_ref<const std::string&>()), order.get<bool>(), {}};
  require(sizes.size() <= Shape::max_rank, "{}: has more than {} dimensions, which is the most a tensor has", source,
          int{Shape::max_rank});
  for (const Json& size : sizes) {
    constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
    require(size.is_number_unsigned() && size.get<std::uint64_t>() <= largest,
            "{}: the shape has {}, expected whole numbers from 0 to 2^63 - 1", source, in_quotes(size.dump()));
    header.shape.push_back(size.get<std::int64_t>());
  }
  return header;
}

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
  Header header = parse_header(source.name(), text);
  std::size_t needed = stored_bytes(source.name(), header.shape, header.type), present = source.size() - data_begin;
  require(needed <= present, "{}: {} {} takes {} bytes, the file has {} after its header: it was cut short",
          source.name(), header.type.description(), header.shape, needed, present);
  require(needed == present, "{}: {} {} takes {} bytes, the file has {} after its header; expected one array",
          source.name(), header.type.description(), header.shape, needed, present);

  std::array<int, Shape::max_rank> order{};
  auto last = order.begin() + header.shape.rank();
  std::iota(order.begin(), last, 0);
  if (header.fortran_order) std::reverse(order.begin(), last);
  Tensor tensor = Tensor::empty(header.shape, std::span(order.begin(), last), header.type.dtype, Device::cpu);
  read_elements(source, data_begin, source.name(), header.type, tensor);
  return tensor;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) { return read(ByteSource(path)); }

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& source) {
  return read(ByteSource(bytes, source));
}

}  // namespace fovea
