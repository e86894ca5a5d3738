#include "experiments/support/data/sentencepiece_model.h"

#include <array>
#include <cmath>
#include <cstring>
#include <unordered_set>

#include "tensor/error.h"

namespace fovea {

namespace {

/// A field of a serialised protocol buffer message.
struct Field {
  std::uint64_t number = 0;
  unsigned type = 0;            ///< 0 varint, 1 eight bytes, 2 bytes with their length, 5 four bytes
  std::uint64_t integer = 0;    ///< type 0
  std::string_view bytes = {};  ///< types 1, 2 and 5
};

std::uint64_t read_varint(std::string_view& rest, const std::string& name) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    require(!rest.empty(), "{}: truncated inside a number", name);
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  fail("{}: not a SentencePiece model (a number of more than 64 bits)", name);
}

/// Calls visit(field) with the fields of a message, in order.
template <class Visit>
void for_fields(std::string_view rest, const std::string& name, const Visit& visit) {
  while (!rest.empty()) {
    const std::uint64_t tag = read_varint(rest, name);
    Field field{.number = tag >> 3, .type = static_cast<unsigned>(tag & 7)};
    const bool is_known = field.type <= 2 || field.type == 5;
    require(is_known, "{}: not a SentencePiece model (wire type {})", name, field.type);
    const std::uint64_t value = field.type == 1 ? 8 : field.type == 5 ? 4 : read_varint(rest, name);
    if (field.type == 0) {
      field.integer = value;
    } else {
      require(value <= rest.size(), "{}: truncated: {} bytes are announced, {} are left", name, value, rest.size());
      field.bytes = rest.substr(0, static_cast<std::size_t>(value));
      rest.remove_prefix(static_cast<std::size_t>(value));
    }
    visit(field);
  }
}

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
  for_fields(message, name, [&](const Field& field) {
    if (field.number == 1 && field.type == 2) text = field.bytes;
    if (field.number == 2 && field.type == 5) std::memcpy(&score, field.bytes.data(), sizeof score);
    if (field.number == 3 && field.type == 0) type = field.integer;
  });
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

}  // namespace

CheckedModel check_sentencepiece_model(std::string_view model, const std::string& name) {
  constexpr std::uint64_t unigram = 1, bpe = 2, characters = 4;
  std::unordered_set<std::string_view> seen;
  std::uint64_t type = unigram;
  std::size_t pieces = 0;
  for_fields(model, name, [&](const Field& field) {
    if (field.type != 2) return;
    if (field.number == 1) check_piece(field.bytes, pieces++, seen, name);
    if (field.number == 2)  // TrainerSpec { model_type = 3 }
      for_fields(field.bytes, name, [&](const Field& inner) {
        if (inner.number == 3 && inner.type == 0) type = inner.integer;
      });
    if (field.number == 3 ||
        field.number == 5)  // NormalizerSpec: a map of offsets that SentencePiece follows unchecked
      for_fields(field.bytes, name, [&](const Field& inner) {
        require(inner.number != 2 || inner.bytes.empty(), "{}: the model has a character map, expected none", name);
      });
  });
  require(pieces > special_tokens, "{}: {} pieces, expected more than the {} special ones", name, pieces,
          special_tokens);
  require(type == unigram || type == bpe || type == characters,
          "{}: model type {}, expected unigram (1), bpe (2) or char (4)", name, type);
  const Units units = type == bpe ? Units::bpe : type == characters ? Units::characters : Units::unigram;
  return {.units = units, .size = static_cast<int>(pieces)};
}

}  // namespace fovea
