#include "experiments/support/data/sentencepiece_model.h"

#include <array>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "tensor/error.h"

namespace fovea {

namespace {

/// The fields of a serialised protocol buffer message, in order.
class WireReader {
 public:
  struct Field {
    std::uint64_t number = 0;
    unsigned type = 0;          ///< 0 varint, 1 eight bytes, 2 bytes with their length, 5 four bytes
    std::uint64_t integer = 0;  ///< type 0
    std::string_view bytes;     ///< types 1, 2 and 5
  };

  WireReader(std::string_view message, const std::string& name) : rest_(message), name_(name) {}

  bool next(Field& field) {
    if (rest_.empty()) return false;
    const std::uint64_t tag = varint();
    field = {.number = tag >> 3, .type = static_cast<unsigned>(tag & 7), .integer = 0, .bytes = {}};
    if (field.type == 0) {
      field.integer = varint();
    } else {
      require(field.type == 1 || field.type == 2 || field.type == 5, "{}: not a SentencePiece model (wire type {})",
              name_, field.type);
      const std::uint64_t length = field.type == 2 ? varint() : field.type == 1 ? 8 : 4;
      require(length <= rest_.size(), "{}: truncated: {} bytes are announced, {} are left", name_, length,
              rest_.size());
      field.bytes = rest_.substr(0, static_cast<std::size_t>(length));
      rest_.remove_prefix(static_cast<std::size_t>(length));
    }
    return true;
  }

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      require(!rest_.empty(), "{}: truncated inside a number", name_);
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    fail("{}: not a SentencePiece model (a number of more than 64 bits)", name_);
  }

  std::string_view rest_;
  const std::string& name_;
};

enum PieceType : std::uint64_t { normal_piece = 1, unknown_piece = 2, control_piece = 3 };

struct ExpectedPiece {
  std::string_view text;
  PieceType type;
};
constexpr std::array<ExpectedPiece, special_tokens> special_pieces = {
    {{"<pad>", control_piece}, {"<unk>", unknown_piece}, {"<s>", control_piece}, {"</s>", control_piece}}};

/// SentencePiece { piece = 1, score = 2 (float), type = 3 }
void check_piece(std::string_view message, std::size_t id, std::unordered_set<std::string_view>& seen,
                 const std::string& name) {
  std::string_view text;
  std::uint64_t type = normal_piece;
  float score = 0;
  WireReader reader(message, name);
  for (WireReader::Field field; reader.next(field);) {
    if (field.number == 1 && field.type == 2) text = field.bytes;
    if (field.number == 2 && field.type == 5) std::memcpy(&score, field.bytes.data(), sizeof score);
    if (field.number == 3 && field.type == 0) type = field.integer;
  }
  require(!text.empty() && text.find('\0') == std::string_view::npos, "{}: piece {} is empty or has a NUL byte", name,
          id);
  require(std::isfinite(score), "{}: piece {} has the score {}", name, id, score);
  require(seen.insert(text).second, "{}: piece {} occurs twice", name, id);
  if (id < special_tokens) {
    require(text == special_pieces[id].text && type == special_pieces[id].type, "{}: piece {} is '{}', expected {}",
            name, id, text.substr(0, 40), special_pieces[id].text);
  } else {
    require(type == normal_piece, "{}: piece {} is of type {}, expected a normal one", name, id, type);
  }
}

/// NormalizerSpec { precompiled_charsmap = 2 }: the map is an array of offsets that SentencePiece follows unchecked.
void check_normalizer(std::string_view message, const std::string& name) {
  WireReader reader(message, name);
  for (WireReader::Field field; reader.next(field);) {
    require(field.number != 2 || field.bytes.empty(), "{}: the model has a character map, expected none", name);
  }
}

/// TrainerSpec { model_type = 3 }
std::uint64_t model_type(std::string_view message, std::uint64_t before, const std::string& name) {
  WireReader reader(message, name);
  for (WireReader::Field field; reader.next(field);) {
    if (field.number == 3 && field.type == 0) before = field.integer;
  }
  return before;
}

}  // namespace

CheckedModel check_sentencepiece_model(std::string_view model, const std::string& name) {
  constexpr std::uint64_t unigram = 1, bpe = 2, characters = 4;
  std::unordered_set<std::string_view> seen;
  std::uint64_t type = unigram;
  std::size_t pieces = 0;
  WireReader reader(model, name);
  for (WireReader::Field field; reader.next(field);) {
    if (field.type != 2) continue;
    if (field.number == 1) check_piece(field.bytes, pieces++, seen, name);
    if (field.number == 2) type = model_type(field.bytes, type, name);
    if (field.number == 3 || field.number == 5) check_normalizer(field.bytes, name);
  }
  require(pieces > special_tokens, "{}: {} pieces, expected more than the {} special ones", name, pieces,
          special_tokens);
  require(type == unigram || type == bpe || type == characters,
          "{}: model type {}, expected unigram (1), bpe (2) or char (4)", name, type);
  const Units units = type == bpe ? Units::bpe : type == characters ? Units::characters : Units::unigram;
  return {.units = units, .size = static_cast<int>(pieces)};
}

}  // namespace fovea
