#include "experiments/support/data/hugging_face_vocabulary.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>
#include <sentencepiece_processor.h>

#include "experiments/support/program/files.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/in_quotes.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// The rows of the model's tables for <pad>, <unk>, <s> and </s>; -1: the model has no such token.
using SpecialRows = std::array<std::int64_t, special_tokens>;

/// The rows of all tokens in our order: the special tokens first, then the others as in the model.
std::vector<std::int64_t> rows_in_order(const SpecialRows& specials, std::int64_t size) {
  std::vector<std::int64_t> rows(specials.begin(), specials.end());
  for (std::int64_t row = 0; row < size; ++row)
    if (std::ranges::count(specials, row) == 0) rows.push_back(row);
  return rows;
}

/// Tokens and merges as the files have them, each token at its number.
struct Tokens {
  std::string file;
  std::vector<std::string> tokens, merges;

  std::int64_t row_of(const std::string& token) const {
    const auto found = std::ranges::find(tokens, token);
    require(found != tokens.end(), "{}: has no token {}", file, token);
    return found - tokens.begin();
  }
  void add(const nlohmann::json& numbers) {
    for (const auto& [token, number] : numbers.items()) {
      if (!number.is_number_unsigned() || number >= tokens.size())
        fail("{}: token {} has the number {}, config.json has a vocab_size of {}", file, in_quotes(token),
             without_middle(text_of(number), 40), tokens.size());
      std::string& place = tokens[number.get<std::size_t>()];
      if (!place.empty())
        fail("{}: tokens {} and {} have one number, {}", file, in_quotes(place), in_quotes(token), text_of(number));
      place = token;
    }
  }
};

/// The lines of a file; the last may lack its end.
std::vector<std::string> lines_of(const fs::path& path) {
  const std::string content = contents_of_file(path);
  std::vector<std::string> lines;
  for (const std::string_view line : split_columns(content, '\n')) lines.emplace_back(line.substr(0, line.find('\r')));
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

/// "a b" from "a b" or ["a", "b"]: tokenizer.json has either.
std::string merge_of(const nlohmann::json& merge) {
  return merge.is_string() ? merge.get<std::string>()
                           : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>();
}

void require_merge(const std::string& file, const std::string& merge) {
  const std::size_t space = merge.find(' ');
  if (space == merge.npos || space == 0 || space + 1 == merge.size() || merge.find(' ', space + 1) != merge.npos)
    fail("{}: the merge {} is not of two parts with a space between them", file, in_quotes(merge));
}

/// The content of tokenizer.json; an empty object where the folder has none.
nlohmann::json tokenizer_json(const fs::path& folder) {
  const fs::path file = folder / "tokenizer.json";
  return fs::exists(file) ? load_large_json(file) : nlohmann::json::object();
}

/// Throws Error if a tokenizer.json prepares or cuts texts otherwise than the tokenizers of GPT-2 and BERT.
void require_usual_steps(const std::string& file, const nlohmann::json& all, bool is_bpe) {
  const nlohmann::json none = nlohmann::json::object();
  const nlohmann::json cut = all.value("pre_tokenizer", none), change = all.value("normalizer", none);
  const char* const ours = is_bpe ? "BPE of bytes" : "WordPiece";
  const auto is_usual = [](const nlohmann::json& step, const char* type) {
    return step.is_object() && step.value("type", type) == type;
  };
  require(is_usual(cut, is_bpe ? "ByteLevel" : "BertPreTokenizer") && cut.value("use_regex", true) &&
              !cut.value("add_prefix_space", false),
          "{}: pre_tokenizer is {}, which our {} does not have", file, text_of(cut), ours);
  require(is_bpe ? change.empty()
                 : is_usual(change, "BertNormalizer") && change.value("clean_text", true) &&
                       change.value("handle_chinese_chars", true),
          "{}: normalizer is {}, which our {} does not have", file, text_of(change), ours);
}

/// Reads vocab.txt with WordPiece's tokens, or vocab.json with merges.txt for BPE, or what tokenizer.json has of them.
Tokens read_tokens(const fs::path& folder, std::int64_t size, bool is_bpe, const nlohmann::json& tokenizer) {
  const std::string one = (folder / "tokenizer.json").string();
  reading_json(
      one, [&] { require_usual_steps(one, tokenizer, is_bpe); }, "a tokenizer");
  const fs::path own = folder / (is_bpe ? "vocab.json" : "vocab.txt");
  const bool has_own = fs::exists(own);
  require(has_own || fs::exists(one), "{}: has no vocabulary: no {}, and no tokenizer.json", folder.string(),
          is_bpe ? "vocab.json with merges.txt" : "vocab.txt");
  Tokens read{
      .file = has_own ? own.string() : one, .tokens = std::vector<std::string>(std::size_t(size)), .merges = {}};
  if (has_own && !is_bpe) {
    const std::vector<std::string> lines = lines_of(own);
    require(std::ssize(lines) <= size, "{}: has {} tokens, config.json has a vocab_size of {}", read.file, lines.size(),
            size);
    std::ranges::copy(lines, read.tokens.begin());
    return read;
  }
  reading_json(
      read.file,
      [&] {
        if (has_own) return read.add(load_large_json(own));
        const nlohmann::json& model = tokenizer.at("model");
        const char* const type = is_bpe ? "BPE" : "WordPiece";
        require(model.value("type", type) == type, "{}: the tokens are of the type {}, expected {}", one,
                text_of(model.value("type", nlohmann::json())), type);
        read.add(model.at("vocab"));
        for (const nlohmann::json& merge : model.value("merges", nlohmann::json()))
          read.merges.push_back(merge_of(merge));
      },
      "a vocabulary");
  if (has_own) read.merges = lines_of(folder / "merges.txt");
  std::erase_if(read.merges, [](const std::string& merge) { return merge.starts_with("#version"); });
  for (const std::string& merge : read.merges) require_merge(has_own ? (folder / "merges.txt").string() : one, merge);
  return read;
}

HuggingFaceVocabulary in_our_order(Units units, bool lower_case, const Tokens& read, const SpecialRows& specials) {
  std::vector<std::int64_t> rows = rows_in_order(specials, std::ssize(read.tokens));
  std::vector<std::string> tokens;
  for (const std::int64_t row : rows) {
    constexpr const char* lacking[] = {"<pad>", "<unk>"};
    const std::string name = row < 0 ? lacking[tokens.size()] : read.tokens[std::size_t(row)];
    tokens.push_back(name.empty() ? fmt::format("<unused {}>", row) : name);
  }
  return {trained_tokenizer(units, lower_case, std::move(tokens), read.merges), std::move(rows)};
}

HuggingFaceVocabulary vocabulary_of_gpt2(const fs::path& folder, const Json& config) {
  const std::string settings = (folder / "tokenizer_config.json").string();
  if (fs::exists(settings))
    reading_json(
        settings,
        [&] {
          require(load_json(settings).value("add_prefix_space", Json()) != true,
                  "{}: add_prefix_space is true, but our BPE of bytes puts no space before a text", settings);
        },
        "the settings of a tokenizer");
  const Tokens read = read_tokens(folder, config.at("vocab_size"), true, tokenizer_json(folder));
  const std::int64_t end = config.at("eos_token_id");
  require(end >= 0 && end < std::ssize(read.tokens), "{}: eos_token_id is {}, and vocab_size {}",
          (folder / "config.json").string(), end, read.tokens.size());
  require(!read.tokens[std::size_t(end)].empty(), "{}: has no token of the number {} (eos_token_id)", read.file, end);
  return in_our_order(Units::byte_bpe, false, read, {-1, -1, end, end});
}

HuggingFaceVocabulary vocabulary_of_bert(const fs::path& folder, const Json& config) {
  const std::string settings = (folder / "tokenizer_config.json").string(), one = (folder / "tokenizer.json").string();
  const nlohmann::json tokenizer = tokenizer_json(folder);
  const bool has_settings = fs::exists(settings);
  bool lower_case = true;
  reading_json(
      has_settings ? settings : one,
      [&] {
        const Json all = has_settings ? load_json(settings) : Json::object();
        Json steps = tokenizer.value("normalizer", nlohmann::json());
        if (steps.is_null()) steps = Json::object();
        lower_case = all.value("do_lower_case", steps.value("lowercase", true));
        const Json accents = all.value("strip_accents", steps.value("strip_accents", Json()));
        require((accents.is_null() || accents == lower_case) &&
                    all.value("tokenize_chinese_chars", steps.value("handle_chinese_chars", true)),
                "{}: our WordPiece removes accents where do_lower_case is true, and parts Chinese characters; "
                "strip_accents and tokenize_chinese_chars ask for something else",
                all.contains("strip_accents") || all.contains("tokenize_chinese_chars") ? settings : one);
      },
      "the settings of a tokenizer");
  const Tokens read = read_tokens(folder, config.at("vocab_size"), false, tokenizer);
  return in_our_order(Units::wordpiece, lower_case, read,
                      {read.row_of("[PAD]"), read.row_of("[UNK]"), read.row_of("[CLS]"), read.row_of("[SEP]")});
}

// ---- T5: a SentencePiece model, which is a message of Protocol Buffers. Its pieces are those of field 1: a name (1),
// a score (2) and a type (3). Reading all else as it is, and writing the pieces in another order, needs no schema.

enum class PieceType { control = 3, user_defined = 4 };

std::uint64_t read_varint(std::string_view bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (int shift = 0; at < bytes.size() && shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  return value;
}

/// A piece as field 1; its name has less than 100 bytes.
std::string piece_field(const std::string& name, PieceType type) {
  std::string piece = "\x0a" + std::string(1, char(name.size())) + name + "\x15" + std::string(4, '\0') + "\x18";
  piece += char(type);
  return "\x0a" + std::string(1, char(piece.size())) + piece;
}

/// The fields of a message of fields with a length, as they are, number and length included.
std::vector<std::pair<std::uint64_t, std::string>> fields_of(const std::string& file, std::string_view message) {
  std::vector<std::pair<std::uint64_t, std::string>> fields;
  for (std::size_t begin = 0, end = 0; begin < message.size(); begin = end) {
    const std::uint64_t tag = read_varint(message, end), length = read_varint(message, end);
    require((tag & 7) == 2 && length <= message.size() - end, "{}: is not a SentencePiece model", file);
    end += length;
    fields.emplace_back(tag >> 3, message.substr(begin, end - begin));
  }
  return fields;
}

/// The name of a row behind those of the pieces: T5 has a hundred tokens for left-out spans, and rows without use.
std::string name_behind(std::int64_t k) {
  constexpr std::int64_t spans = 100;
  return k < spans ? fmt::format("<extra_id_{}>", spans - 1 - k) : fmt::format("<unused {}>", k);
}

HuggingFaceVocabulary vocabulary_of_t5(const fs::path& folder, const Json& config) {
  const std::string file = (folder / "spiece.model").string();
  require(fs::exists(file), "{}: has no spiece.model, the vocabulary of T5", folder.string());
  const std::string model = contents_of_file(file);
  sentencepiece::SentencePieceProcessor processor;
  const auto status = processor.LoadFromSerializedProto(model);
  require(status.ok(), "{}: SentencePiece refuses the model: {}", file, status.ToString());
  const std::int64_t pad = config.at("pad_token_id"), begin = config.value("decoder_start_token_id", pad),
                     end = config.at("eos_token_id"), size = config.at("vocab_size"), pieces = processor.GetPieceSize();
  for (const std::int64_t special : {pad, begin, end})
    require(0 <= special && special < pieces && pieces <= size,
            "{}: has {} pieces, config.json a special token {} and a vocab_size of {}", file, pieces, special, size);
  // An ordinary piece that begins all outputs can also be in texts: it keeps its place, and <s> has its row too.
  const bool is_in_texts = begin != processor.unk_id() && !processor.IsControl(int(begin));
  std::vector<std::int64_t> rows = rows_in_order({pad, processor.unk_id(), is_in_texts ? end : begin, end}, size);
  rows[begin_id] = begin;
  std::vector<std::string> of_rows;
  std::string rest;
  for (auto& [number, field] : fields_of(file, model)) number == 1 ? of_rows.push_back(field) : void(rest += field);
  for (std::int64_t k = 0; k < size - pieces; ++k)
    of_rows.push_back(piece_field(name_behind(k), PieceType::user_defined));
  std::string ours;
  for (std::size_t k = 0; k < rows.size(); ++k)
    ours += k == begin_id ? piece_field("<s>", PieceType::control) : of_rows[std::size_t(rows[k])];
  return {subword_tokenizer(ours + rest, Units::unigram, false, file), std::move(rows)};
}

}  // namespace

HuggingFaceVocabulary hugging_face_vocabulary(const fs::path& folder) {
  const std::string file = (folder / "config.json").string();
  constexpr std::int64_t most_tokens = 10'000'000;
  HuggingFaceVocabulary vocabulary;
  reading_json(
      file,
      [&] {
        const Json config = load_json(file);
        const std::string type = config.at("model_type");
        const std::int64_t size = config.at("vocab_size");
        require(size > special_tokens && size <= most_tokens, "{}: vocab_size is {}, expected {} to {}", file, size,
                special_tokens + 1, most_tokens);
        vocabulary = type == "gpt2"   ? vocabulary_of_gpt2(folder, config)
                     : type == "bert" ? vocabulary_of_bert(folder, config)
                                      : vocabulary_of_t5(folder, config);
      },
      "the configuration of such a model");
  return vocabulary;
}

}  // namespace fovea
