// The tokens of BERT and GPT-2, which others have trained.
#include <algorithm>
#include <array>

#include "experiments/support/data/vocabulary.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// Tokens by their numbers. Special tokens are not found by their names, so that no text encodes to them.
class TokenTable : public Tokenizer {
 public:
  TokenTable(Units units, bool lower_case, std::vector<std::string> tokens, std::vector<std::string> merges)
      : Tokenizer(units, lower_case), tokens_(std::move(tokens)), merges_(std::move(merges)) {
    for (std::size_t i = special_tokens; i < tokens_.size(); ++i) ids_.emplace(tokens_[i], int(i));
    for (std::size_t rank = 0; rank < merges_.size(); ++rank) ranks_.emplace(merges_[rank], rank);
  }

  std::string token(int id) const override {
    require_token(id);
    return tokens_[std::size_t(id)];
  }
  int size() const override { return int(tokens_.size()); }

 protected:
  static bool is_written(int id) { return id != pad_id && id != begin_id && id != end_id; }

  WordMap<int> ids_;
  WordMap<std::size_t> ranks_;

 private:
  std::string content() const override { return text_of({{"tokens", tokens_}, {"merges", merges_}}); }

  std::vector<std::string> tokens_, merges_;
};

// ---- BERT

bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                                      {0x20000, 0x2a6df}, {0x2a700, 0x2ceaf}, {0x2f800, 0x2fa1f}};
  return std::ranges::any_of(ranges, [c](const auto& range) { return range.first <= c && c <= range.second; });
}

/// BERT takes all ASCII characters that are neither letters, digits, spaces nor controls for punctuation.
bool is_mark(char32_t c) {
  const bool is_alphanumeric = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
  return c < 0x80 ? c > ' ' && c < 0x7f && !is_alphanumeric : category_of(c)[0] == 'P';
}

/// The text with spaces around marks and ideographs, without control characters.
std::string with_marks_apart(std::string_view text) {
  std::string result;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    const char32_t c = next_character(text, end);
    const bool is_line_space = c == '\t' || c == '\n' || c == '\r';
    if (c == replacement_character || (category_of(c)[0] == 'C' && !is_line_space)) continue;
    const bool is_alone = is_mark(c) || is_ideograph(c);
    if (is_alone) result += ' ';
    result += text.substr(begin, end - begin);
    if (is_alone) result += ' ';
  }
  return result;
}

class WordPieceTokenizer : public TokenTable {
 public:
  WordPieceTokenizer(bool lower_case, std::vector<std::string> tokens)
      : TokenTable(Units::wordpiece, lower_case, std::move(tokens), {}) {}

  std::vector<int> encode(std::string_view text) const override {
    // without its accent a sign can be a mark: ≠ becomes =
    const std::string clean = with_marks_apart(is_lower_case() ? lower_case(without_accents(text)) : std::string(text));
    std::vector<int> tokens{begin_id};
    for (const std::string_view word : split_words(clean)) add_word(tokens, word);
    if (tokens.size() == 1) return {};
    tokens.push_back(end_id);
    return tokens;
  }

  std::string decode(std::span<const int> tokens) const override {
    std::string text;
    for (const int id : tokens) {
      const std::string piece = token(id);
      if (piece.starts_with("##"))
        text += piece.substr(2);
      else if (is_written(id))
        append_word(text, piece);
    }
    return text;
  }

 private:
  /// The longest known beginning of the word, and of each rest; <unk> for the word if a rest has none.
  void add_word(std::vector<int>& tokens, std::string_view word) const {
    constexpr std::int64_t longest = 100;
    std::vector<int> pieces;
    if (character_count(word) > longest) return tokens.push_back(unknown_id);
    for (std::size_t begin = 0, end = 0; begin < word.size(); begin = end) {
      auto known = ids_.end();
      for (end = word.size(); end > begin; end = character_before(word, end)) {
        known = ids_.find((begin > 0 ? "##" : "") + std::string(word.substr(begin, end - begin)));
        if (known != ids_.end()) break;
      }
      if (end == begin) return tokens.push_back(unknown_id);
      pieces.push_back(known->second);
    }
    tokens.insert(tokens.end(), pieces.begin(), pieces.end());
  }

  static std::size_t character_before(std::string_view word, std::size_t end) {
    do --end;
    while (end > 0 && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80);
    return end;
  }
};

// ---- GPT-2

/// The character that stands for each byte in tokens: itself if it is visible, or else one from U+0100 on.
const std::array<std::string, 256>& letters_of_bytes() {
  static const std::array<std::string, 256> letters = [] {
    std::array<std::string, 256> all;
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool is_visible = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      append_utf8(all[byte], is_visible ? byte : next++);
    }
    return all;
  }();
  return letters;
}

enum class CharacterKind { space, letter, number, other };

CharacterKind kind_of(char32_t c) {
  const char category = category_of(c)[0];
  if (category == 'L' || category == 'N') return category == 'L' ? CharacterKind::letter : CharacterKind::number;
  const bool is_separator = c >= 0x1c && c <= 0x1f;  // space for us, not for GPT-2
  return is_space(c) && !is_separator ? CharacterKind::space : CharacterKind::other;
}

/// The end of the piece of GPT-2 that begins at a position: an ending such as 'll; letters, digits or other characters,
/// with one space before them; or white space, of which the last character is left to the piece behind it.
std::size_t end_of_piece(std::string_view text, std::size_t begin) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(begin).starts_with(ending)) return begin + ending.size();
  std::size_t end = begin;
  const char32_t first = next_character(text, end);
  CharacterKind kind = kind_of(first);
  std::size_t at = end;
  if (first == ' ' && end < text.size())
    if (const CharacterKind behind = kind_of(next_character(text, at)); behind != CharacterKind::space)
      kind = behind, end = at;
  std::size_t last = begin;  // where the last character of the piece begins
  for (at = end; at < text.size() && kind_of(next_character(text, at)) == kind; end = at) last = end;
  const bool has_piece_behind = end < text.size();
  return kind == CharacterKind::space && has_piece_behind && last > begin ? last : end;
}

class ByteTokenizer : public TokenTable {
 public:
  ByteTokenizer(bool lower_case, std::vector<std::string> tokens, std::vector<std::string> merges)
      : TokenTable(Units::byte_bpe, lower_case, std::move(tokens), std::move(merges)) {}

  std::vector<int> encode(std::string_view text) const override {
    const std::string own = cased(text);
    std::vector<int> tokens;
    for (std::size_t begin = 0, end = 0; begin < own.size(); begin = end) {
      end = end_of_piece(own, begin);
      for (const std::string& part : merged(std::string_view(own).substr(begin, end - begin))) {
        const auto known = ids_.find(part);
        tokens.push_back(known == ids_.end() ? unknown_id : known->second);
      }
    }
    return tokens;
  }

  std::string decode(std::span<const int> tokens) const override {
    static const WordMap<char> bytes = [] {
      WordMap<char> all;
      for (std::size_t byte = 0; byte < 256; ++byte) all.emplace(letters_of_bytes()[byte], char(byte));
      return all;
    }();
    std::string text;
    for (const int id : tokens) {
      const std::string piece = token(id);
      for (const std::string_view letter : split_characters(is_written(id) ? piece : "")) {
        const auto byte = bytes.find(letter);
        byte == bytes.end() ? text += letter : text += byte->second;
      }
    }
    return text;
  }

 private:
  /// The piece's bytes as letters, joined by the merges: always the pair of the lowest rank, wherever it occurs.
  std::vector<std::string> merged(std::string_view piece) const {
    std::vector<std::string> parts;
    for (const char byte : piece) parts.push_back(letters_of_bytes()[static_cast<unsigned char>(byte)]);
    while (parts.size() > 1) {
      auto best = ranks_.end();
      for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
        const auto found = ranks_.find(parts[k] + " " + parts[k + 1]);
        if (found != ranks_.end() && (best == ranks_.end() || found->second < best->second)) best = found;
      }
      if (best == ranks_.end()) break;
      std::vector<std::string> joined;
      for (std::size_t k = 0; k < parts.size(); ++k) {
        const bool joins = k + 1 < parts.size() && parts[k] + " " + parts[k + 1] == best->first;
        joined.push_back(joins ? parts[k] + parts[k + 1] : parts[k]);
        k += joins;
      }
      parts = std::move(joined);
    }
    return parts;
  }
};

}  // namespace

std::unique_ptr<Tokenizer> trained_tokenizer(Units units, bool lower_case, std::vector<std::string> tokens,
                                             std::vector<std::string> merges) {
  if (units == Units::wordpiece) return std::make_unique<WordPieceTokenizer>(lower_case, std::move(tokens));
  return std::make_unique<ByteTokenizer>(lower_case, std::move(tokens), std::move(merges));
}

std::unique_ptr<Tokenizer> trained_tokenizer(Units units, bool lower_case, std::string_view content,
                                             const std::string& name) {
  std::vector<std::string> tokens, merges;
  reading_json(name, [&] {
    const Json json = parse_json(content);
    tokens = json.at("tokens"), merges = json.at("merges");
  });
  require(std::ssize(tokens) >= special_tokens, "{}: has {}, expected at least {}", name,
          counted(tokens.size(), "token"), special_tokens);
  return trained_tokenizer(units, lower_case, std::move(tokens), std::move(merges));
}

}  // namespace fovea
