#include "tensor/format/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>
#include <zlib.h>

#include "tensor/cpu/parallel.h"
#include "tensor/error.h"
#include "tensor/format/byte_source.h"
#include "tensor/format/file_kind.h"
#include "tensor/support/atomic_file.h"
#include "tensor/support/in_quotes.h"
#include "tensor/support/suggestion.h"

namespace fovea {
namespace {

constexpr std::size_t length_bytes = 8;
constexpr std::size_t header_limit = 100'000'000;  // the limit that the format sets
constexpr std::string_view metadata_key = "__metadata__";

// The metadata's entry with checksums, which read() removes: "fovea.checksums":"fovea.crc32 HEADER TENSOR TENSOR ...".
// Each is a CRC-32 of 8 hexadecimal digits: the header's, with zeros in place of its own digits, then those of the
// tensors' data in the header's order. Key and value each say what the entry is, so that the entry is still found, and
// the damage with it, when a byte of either has changed.
constexpr std::string_view checksums_key = "fovea.checksums", checksums_mark = "fovea.crc32";
constexpr std::size_t checksum_digits = 8;

std::string as_digits(std::uint32_t checksum) { return fmt::format("{:08x}", checksum); }
std::uint32_t checksum(std::string_view text) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}
std::uint32_t checksum(const Tensor& dense) {
  return checksum({reinterpret_cast<const char*>(dense.address()), dense.bytes()});
}

// The first of a DType is the one that is written.
constexpr std::array stored_types{StoredType{"F32", DType::f32},      StoredType{"F64", DType::f64},
                                  StoredType{"BF16", DType::bf16},    StoredType{"I64", DType::i64},
                                  StoredType{"I32", DType::i32},      StoredType{"U8", DType::u8},
                                  StoredType{"BOOL", DType::boolean}, StoredType{"F16", DType::f32, true}};

std::string_view stored_name(DType dtype) {
  return std::find_if(stored_types.begin(), stored_types.end(), [&](auto& type) { return type.dtype == dtype; })->name;
}

/// The header's entry for one tensor.
struct Entry {
  std::string name;
  StoredType type;
  Shape shape;
  std::array<std::uint64_t, 2> offsets{};

  std::uint64_t begin() const { return offsets[0]; }
  std::uint64_t end() const { return offsets[1]; }
};

struct Header {
  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;
};

using Json = nlohmann::json;

/// How a message shows a JSON value.
std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  return value.is_string() ? in_quotes(value.get_ref<const std::string&>()) : value.dump();
}

/// Returns the numbers of a tensor's field. Throws Error unless the field is a list of whole numbers from 0 to
/// `largest`, which are what `expected` says.
std::vector<std::uint64_t> numbers_of(const std::string& what, const Json& tensor, const char* field,
                                      std::uint64_t largest, const char* expected) {
  const Json& list = tensor.at(field);
  require(list.is_array(), "{}: {} is {}, expected a list of numbers", what, field, shown(list));
  std::vector<std::uint64_t> numbers;
  for (const Json& number : list) {
    require(number.is_number_unsigned() && number.get<std::uint64_t>() <= largest, "{}: {} has {}, expected {}", what,
            field, shown(number), expected);
    numbers.push_back(number);
  }
  return numbers;
}

/// Returns the entry of a tensor. Fields that the format does not know are skipped. `what` begins error messages.
Entry entry_of(const std::string& what, const std::string& name, const Json& tensor) {
  require(tensor.is_object(), "{} is {}, expected an object with dtype, shape and data_offsets", what, shown(tensor));
  for (const char* field : {"dtype", "shape", "data_offsets"})
    require(tensor.contains(field), "{}: has no {}", what, field);
  const Json& type = tensor.at("dtype");
  require(type.is_string(), "{}: dtype is {}, expected a string", what, shown(type));
  auto known = std::find_if(stored_types.begin(), stored_types.end(), [&](auto& known) { return known.name == type; });
  require(known != stored_types.end(),
          "{}: is of type {}, expected F32, F64, F16, BF16, I64, I32, U8 or BOOL; convert it first", what, shown(type));
  Entry entry{name, *known, {}, {}};
  const auto sizes =
      numbers_of(what, tensor, "shape", std::numeric_limits<std::int64_t>::max(), "whole numbers from 0 to 2^63 - 1");
  require(sizes.size() <= Shape::max_rank, "{}: has more than {} dimensions, which is the most a tensor has", what,
          int{Shape::max_rank});
  for (std::uint64_t size : sizes) entry.shape.push_back(static_cast<std::int64_t>(size));
  const auto offsets =
      numbers_of(what, tensor, "data_offsets", std::numeric_limits<std::uint64_t>::max(), "two whole numbers from 0");
  require(offsets.size() == 2, "{}: data_offsets has {} numbers, expected 2", what, offsets.size());
  entry.offsets = {offsets[0], offsets[1]};
  return entry;
}

std::map<std::string, std::string> metadata_of(const std::string& what, const Json& metadata) {
  if (metadata.is_null()) return {};
  require(metadata.is_object(), "{} is {}, expected an object of strings", what, shown(metadata));
  for (const auto& [key, value] : metadata.items())
    require(value.is_string(), "{} {} is {}, expected a string", what, in_quotes(key), shown(value));
  return metadata.get<std::map<std::string, std::string>>();
}

/// Parses the JSON header. Each entry is dropped as soon as it has been read, and the parser drops what is nested
/// deeper than the format allows, so that JSON of another kind takes little memory.
Header parse_header(const std::string& source, const std::string& text) {
  using Event = Json::parse_event_t;
  constexpr int entry_depth = 1, deepest = 3;  // {"entry": {"shape": [[...]]}}
  Header header;
  std::set<std::string> names, fields;
  std::string name, what;
  auto read = [&](int depth, Event event, const Json& value) {
    if (event == Event::object_start || event == Event::array_start) return depth <= deepest;
    if (event == Event::key && depth <= entry_depth + 1) {
      const std::string key = value;
      const bool is_field = depth > entry_depth;
      require((is_field ? fields : names).insert(key).second, "{} has {} twice",
              is_field ? what : source + ": the header", in_quotes(key));
      require(key.find('\0') == std::string::npos, "{}: the name {} has a NUL in it", source, in_quotes(key));
      if (is_field) return true;
      name = key;
      what = name == metadata_key ? fmt::format("{}: {}", source, name)
                                  : fmt::format("{}: tensor {}", source, in_quotes(name));
      fields.clear();
    }
    if (event == Event::key || depth != entry_depth) return true;
    if (name == metadata_key)
      header.metadata = metadata_of(what, value);
    else
      header.entries.push_back(entry_of(what, name, value));
    return false;
  };
  try {
    const Json rest = Json::parse(text, read);  // an empty object: all entries were dropped
  } catch (const Json::exception& error) {
    fail("{}: the header is not JSON: {}", source, in_quotes(error.what(), 200));
  }
  return header;
}

/// Throws Error unless each tensor's data_offsets fit its shape and lie inside the file, and the tensors together cover
/// every byte of the data exactly once.
void require_exact_cover(const std::string& source, const std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::vector<const Entry*> by_offset;
  for (const Entry& entry : entries) {
    auto what = fmt::format("{}: tensor {}", source, in_quotes(entry.name));
    require(entry.begin() <= entry.end(), "{}: its data begins at {} and ends before, at {}", what, entry.begin(),
            entry.end());
    require(entry.end() <= data_bytes, "{}: its data ends at byte {}, the file has {}: it was cut short, or is damaged",
            what, entry.end(), data_bytes);
    std::uint64_t needed = stored_bytes(what, entry.shape, entry.type);
    require(entry.end() - entry.begin() == needed, "{}: {} {} takes {} bytes, data_offsets {} to {} are {}", what,
            entry.type.description(), entry.shape, needed, entry.begin(), entry.end(), entry.end() - entry.begin());
    by_offset.push_back(&entry);
  }
  std::sort(by_offset.begin(), by_offset.end(), [](auto* a, auto* b) { return a->offsets < b->offsets; });
  std::uint64_t end = 0;
  const Entry* before = nullptr;
  for (const Entry* entry : by_offset) {
    require(entry->begin() >= end, "{}: tensors {} and {} overlap: one ends at byte {}, the other begins at {}", source,
            before ? in_quotes(before->name) : "", in_quotes(entry->name), end, entry->begin());
    require(entry->begin() == end, "{}: bytes {} to {} before tensor {} belong to no tensor; the format has no gaps",
            source, end, entry->begin(), in_quotes(entry->name));
    end = entry->end();
    before = entry;
  }
  require(end == data_bytes, "{}: {} bytes after the last tensor belong to none; the format has no gaps", source,
          data_bytes - end);
}

/// Throws Error, with what the file is, if its first bytes are those of another format.
[[noreturn]] void refuse_other_format(const ByteSource& source, const std::string& message) {
  std::string first(std::min(source.size(), recognised_bytes), '\0');
  source.read(0, first.data(), first.size());
  const std::string known = wrong_format(source.name(), first, "a safetensors file");
  fail("{}", known.empty() ? message : known);
}

std::string read_header_text(const ByteSource& source) {
  require(source.size() >= length_bytes, "{}: has {} bytes, a safetensors file has at least {}", source.name(),
          source.size(), length_bytes);
  std::uint64_t length = 0;
  source.read(0, &length, length_bytes);
  if (length > header_limit)
    refuse_other_format(source, fmt::format("{}: not a safetensors file: it does not begin with the length of a header",
                                            source.name()));
  if (length > source.size() - length_bytes)
    refuse_other_format(
        source, fmt::format("{}: the header has {} bytes, the file {} after its length: it was cut short, or is no "
                            "safetensors file",
                            source.name(), length, source.size() - length_bytes));
  std::string text(length, '\0');
  source.read(length_bytes, text.data(), length);
  if (!text.starts_with('{'))
    refuse_other_format(source, fmt::format("{}: the header begins with {}, expected {{: not a safetensors file",
                                            source.name(), in_quotes(text.substr(0, 8))));
  const std::size_t nul = text.find('\0');
  require(nul == text.npos, "{}: byte {} of the header is NUL; only spaces may follow its JSON", source.name(), nul);
  return text;
}

/// Removes the entry with checksums from the header's metadata and returns its value, or nothing if there is none.
std::optional<std::string> extract_checksums(Header& header) {
  auto is_checksums = [](auto& entry) {
    return entry.first == checksums_key || entry.second.starts_with(checksums_mark);
  };
  auto found = std::find_if(header.metadata.begin(), header.metadata.end(), is_checksums);
  if (found == header.metadata.end()) return {};
  std::string checksums = found->second;
  header.metadata.erase(found);
  return checksums;
}

/// Removes the checksums from the header's metadata, compares the first with that of the header's `text`, and returns
/// the others, one for each tensor as hexadecimal digits. Returns nothing if there are no checksums. Throws Error if
/// the text is not the one that was written.
std::vector<std::string> checked_checksums(const std::string& source, Header& header, std::string text) {
  const std::optional<std::string> extracted = extract_checksums(header);
  if (!extracted) return {};
  const std::string& checksums = *extracted;
  const std::size_t first = checksums_mark.size() + 1, step = checksum_digits + 1;
  const std::size_t begin = text.find(checksums);
  bool matches = checksums.size() == first + checksum_digits + step * header.entries.size() && begin != text.npos;
  if (matches) {
    text.replace(begin + first, checksum_digits, checksum_digits, '0');
    matches = checksums.substr(first, checksum_digits) == as_digits(checksum(text));
  }
  require(matches,
          "{}: damaged: the checksum of the header does not match; a program that changes this file must remove {} "
          "from its metadata",
          source, in_quotes(checksums_key));
  std::vector<std::string> of_tensors;
  for (std::size_t at = first + step; at < checksums.size(); at += step)
    of_tensors.push_back(checksums.substr(at, checksum_digits));
  return of_tensors;
}

Safetensors read(const ByteSource& source) {
  std::string text = read_header_text(source);
  const std::size_t data_begin = length_bytes + text.size();
  Header header = parse_header(source.name(), text);
  const std::vector<std::string> checksums = checked_checksums(source.name(), header, std::move(text));
  require_exact_cover(source.name(), header.entries, source.size() - data_begin);

  Safetensors out{source.name(), {}, std::move(header.metadata)};
  out.tensors.reserve(header.entries.size());
  for (Entry& entry : header.entries)
    out.tensors.emplace_back(std::move(entry.name), Tensor::empty(entry.shape, entry.type.dtype));
  std::vector<std::uint32_t> found(checksums.size());
  parallel_for(std::ssize(out.tensors), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const auto& [name, tensor] = out.tensors[i];
      read_elements(source, data_begin + header.entries[i].begin(),
                    fmt::format("{}: tensor {}", source.name(), in_quotes(name)), header.entries[i].type, tensor);
      if (!found.empty()) found[i] = checksum(tensor);
    }
  });
  for (std::size_t i = 0; i < found.size(); ++i)
    require(checksums[i] == as_digits(found[i]), "{}: damaged: the checksum of tensor {} does not match its data",
            source.name(), in_quotes(out.tensors[i].first));
  return out;
}

/// Returns `text` as a JSON string, quoted and escaped. Throws Error if it is not UTF-8, with a message that begins
/// with `what`.
std::string json_string(const std::string& what, const std::string& text) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    fail("{}: is not UTF-8", what);
  }
}

void check_tensors(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    require(names.insert(name).second, "{}: two tensors are called {}", path, in_quotes(name));
    require(tensor.defined(), "{}: tensor {} is undefined: it has no values to write", path, in_quotes(name));
    require(name != metadata_key, "{}: a tensor cannot be called {}, which the format keeps for itself", path, name);
    require(name.find('\0') == std::string::npos, "{}: the name {} has a NUL in it", path, in_quotes(name));
  }
}

/// Returns the metadata as a JSON object, {"key":"value",...}, that begins with the checksums.
std::string metadata_text(const std::string& path, const std::map<std::string, std::string>& metadata,
                          const std::string& checksums) {
  std::string text = fmt::format("{{\"{}\":\"{}\"", checksums_key, checksums);
  for (const auto& [key, value] : metadata) {
    auto what = fmt::format("{}: {} {}", path, metadata_key, in_quotes(key));
    require(key.find('\0') == std::string::npos, "{} has a NUL in its name", what);
    require(key != checksums_key && !value.starts_with(checksums_mark), "{}: is kept for checksums", what);
    text += fmt::format(",{}:{}", json_string(what, key), json_string(what, value));
  }
  return text + "}";
}

/// Returns the checksums of the tensors as the metadata has them, with zeros for that of the header.
std::string checksums_text(const std::vector<std::pair<std::string, Tensor>>& packed) {
  std::string text = fmt::format("{} {}", checksums_mark, as_digits(0));
  for (const auto& [name, tensor] : packed) text += fmt::format(" {}", as_digits(checksum(tensor)));
  return text;
}

/// Returns the offset of each tensor's data if the data is written in the order `data_order`.
std::vector<std::size_t> data_offsets(const std::vector<std::pair<std::string, Tensor>>& tensors,
                                      const std::vector<std::size_t>& data_order) {
  std::vector<std::size_t> offsets(tensors.size());
  std::size_t end = 0;
  for (std::size_t i : data_order) {
    offsets[i] = end;
    end += tensors[i].second.bytes();
  }
  return offsets;
}

/// Returns the JSON header of packed tensors, padded with spaces so that the data begins at a multiple of 8 bytes.
std::string header_text(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                        const std::vector<std::size_t>& offsets, const std::map<std::string, std::string>& metadata) {
  std::string checksums = checksums_text(tensors);
  std::string text = fmt::format("{{\"{}\":{}", metadata_key, metadata_text(path, metadata, checksums));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& [name, tensor] = tensors[i];
    std::string sizes = tensor.shape().str();
    std::erase(sizes, ' ');
    text += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                        json_string(fmt::format("{}: tensor {}", path, in_quotes(name)), name),
                        stored_name(tensor.dtype()), sizes, offsets[i], offsets[i] + tensor.bytes());
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  require(text.size() <= header_limit, "{}: the header would have {} bytes, the format's limit is {}", path,
          text.size(), header_limit);
  text.replace(text.find(checksums) + checksums_mark.size() + 1, checksum_digits, as_digits(checksum(text)));
  return text;
}

}  // namespace

const Tensor* Safetensors::find(std::string_view name) const {
  for (const auto& [own, tensor] : tensors)
    if (own == name) return &tensor;
  return nullptr;
}

const Tensor& Safetensors::at(std::string_view name) const {
  if (const Tensor* found = find(name)) return *found;
  std::vector<std::string> names;
  for (const auto& [own, tensor] : tensors) names.push_back(own);
  fail("{}: no tensor {}{}", source, in_quotes(name), did_you_mean(name, names));
}

Safetensors read_safetensors(const std::filesystem::path& path) { return read(ByteSource(path)); }

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& source) {
  return read(ByteSource(bytes, source));
}

void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  check_tensors(path.string(), tensors);
  std::vector<std::pair<std::string, Tensor>> packed;  // shares memory with tensors that are packed already
  for (const auto& [name, tensor] : tensors) packed.emplace_back(name, tensor.to(Device::cpu).contiguous());
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  auto element_size = [&](std::size_t i) { return size_of(tensors[i].second.dtype()); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return element_size(a) > element_size(b); });

  std::string header = header_text(path.string(), packed, data_offsets(packed, order), metadata);
  std::uint64_t length = header.size();
  AtomicFile file(path);
  file.write(&length, length_bytes);
  file.write(header);
  for (std::size_t i : order) file.write(packed[i].second.address(), packed[i].second.bytes());
  file.commit();
}

}  // namespace fovea
