// Models as Hugging Face's transformers publishes them, with their logits and tokens: tests/reference/hugging_face.py.
#include "experiments/support/program/hugging_face.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "experiments/support/analysis/task.h"
#include "experiments/support/data/hugging_face_vocabulary.h"
#include "experiments/support/models/classification.h"
#include "experiments/support/models/sequence_options.h"
#include "experiments/support/training/hugging_face_parameters.h"
#include "tensor/format/safetensors.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

namespace fs = std::filesystem;

fs::path model_of(const std::string& name) { return fs::path("tests/goldens/hugging_face") / name; }

/// A copy of a model's folder, to be damaged.
struct Copy : Folder {
  explicit Copy(const std::string& name) { fs::copy(model_of(name), path, fs::copy_options::recursive); }

  void replace(const std::string& file, const std::string& part, const std::string& by) const {
    std::string text = contents(path / file);
    const std::size_t at = text.find(part);
    BOOST_REQUIRE(at != text.npos);
    write(file, text.replace(at, part.size(), by));
  }
  /// Changes the tensors of the model.
  void change(const std::function<void(std::vector<std::pair<std::string, Tensor>>&)>& change) const {
    Safetensors file = read_safetensors(path / "model.safetensors");
    change(file.tensors);
    write_safetensors(path / "model.safetensors", file.tensors);
  }
};

/// Our numbers of the tokens that have these rows.
Tensor in_our_order(const Tensor& ids, const std::vector<std::int64_t>& rows, const std::array<int, 2>& zero = {}) {
  std::vector<std::int32_t> ours;
  for (const std::int64_t row : ids.to_vector<std::int64_t>())
    ours.push_back(row == zero[0] ? zero[1] : std::int32_t(std::ranges::find(rows, row) - rows.begin()));
  return Tensor::from(ours, ids.shape());
}

/// The largest difference between every seventh column of their logits [B, T, V], and ours.
double largest_difference(const Tensor& theirs, const Tensor& ours, const std::vector<std::int64_t>& rows) {
  double largest = 0;
  const std::int64_t T = theirs.size(1), columns = theirs.size(2), V = ours.size(2);
  const std::vector<double> a = theirs.to_vector<double>(), b = ours.to_vector<double>();
  for (std::int64_t bt = 0; bt < theirs.size(0) * T; ++bt)
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t column = std::ranges::find(rows, 7 * c) - rows.begin();
      largest = std::max(largest, std::abs(a[std::size_t(bt * columns + c)] - b[std::size_t(bt * V + column)]));
    }
  return largest;
}

/// The tokens of a text, as they are written.
std::vector<std::string> written(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::string> tokens;
  for (const int id : tokenizer.encode(text)) tokens.push_back(tokenizer.token(id));
  return tokens;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::istringstream text(contents(path));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The text without the lines that warn: of half precision, for example.
std::string without_warnings(const std::string& text) {
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("warning: ")) result += line + "\n";
  return result;
}

Ended analysis(const fs::path& folder) { return ended("analyze", {folder, "--text", "the cat"}); }

/// The output of a successful `analyze`, up to the line with its command, which differs with the folder.
std::string finding(const Ended& done) {
  BOOST_TEST(done.status == 0, done.err);
  return done.out.substr(0, done.out.find("Printed "));
}

std::string refusal(const Folder& folder) {
  const std::string done = refusal_of(analysis(folder.path));
  const std::string last = without_warnings(done);
  BOOST_TEST(std::ranges::count(last, '\n') == 1, done);
  return last;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(hugging_face)

BOOST_AUTO_TEST_CASE(logits_of_gpt2_are_those_of_transformers) {
  const fs::path folder = model_of("gpt2");
  SequenceOptions options = sequence_options(folder);
  options.trained.directory = folder;
  const auto model = options.load_model(load_tokenizers(folder));
  const Safetensors expected = read_safetensors(folder / "expected.safetensors");
  const std::vector<std::int64_t> rows = hugging_face_vocabulary(folder).rows;
  const Tensor logits = model->logits({.input = in_our_order(expected.at("ids"), rows)}).value();
  BOOST_TEST(largest_difference(expected.at("logits"), logits, rows) < 1e-4);
  for (const int lacking : {pad_id, unknown_id, begin_id})  // so low that they are never predicted
    BOOST_TEST(logits.select(2, lacking).select(1, 3).select(0, 1).item() < -1000);
}

BOOST_AUTO_TEST_CASE(logits_of_t5_are_those_of_transformers) {
  for (const char* name : {"t5", "t5_1.1"}) {
    const Copy folder(name);
    if (!fs::exists(folder / "spiece.model")) fs::copy(model_of("t5") / "spiece.model", folder.path);
    SequenceOptions options = sequence_options(folder.path);
    options.trained.directory = folder.path;
    const auto model = options.load_model(load_tokenizers(folder.path));
    const Safetensors expected = read_safetensors(folder / "expected.safetensors");
    const std::vector<std::int64_t> rows = hugging_face_vocabulary(folder.path).rows;
    const Tensor logits = model
                              ->logits({.source = in_our_order(expected.at("source"), rows),
                                        .source_lengths = expected.at("lengths").to(DType::i32),
                                        .input = in_our_order(expected.at("ids"), rows, {0, begin_id})})
                              .value();
    BOOST_TEST(largest_difference(expected.at("logits"), logits, rows) < 1e-4, name);
  }
}

BOOST_AUTO_TEST_CASE(logits_of_bert_are_those_of_transformers) {
  const fs::path folder = model_of("bert");
  const auto options = options_of_run<ClassificationOptions>(folder);
  const HuggingFaceVocabulary vocabulary = hugging_face_vocabulary(folder);
  const auto model = options.model.make(options.model.attention, vocabulary.tokenizer->size(), 3);
  model->initialise(1);
  load_hugging_face(*model, folder);
  model->train(false);
  const Safetensors expected = read_safetensors(folder / "expected.safetensors");
  const Tensor logits =
      model->forward(in_our_order(expected.at("ids"), vocabulary.rows), expected.at("lengths").to(DType::i32)).value();
  const std::vector<double> a = expected.at("logits").to_vector<double>(), b = logits.to_vector<double>();
  BOOST_REQUIRE(a.size() == b.size());
  for (std::size_t k = 0; k < a.size(); ++k) BOOST_TEST(std::abs(a[k] - b[k]) < 1e-4);
  BOOST_TEST(hugging_face_classes(folder) == (std::vector<std::string>{"bad", "so so", "good"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(tokens_are_those_of_transformers_also_when_they_were_saved) {
  const Json texts = load_json(model_of("texts.json"));
  for (const std::string name : {"gpt2", "bert", "t5"}) {
    const auto tokenizer = load_tokenizer(model_of(name));
    Folder saved;
    tokenizer->save(saved.path);
    const auto again = load_tokenizer(saved.path);
    for (const Tokenizer* each : {tokenizer.get(), again.get()})
      for (std::size_t k = 0; k < texts.at("texts").size(); ++k) {
        std::vector<std::string> expected = texts.at(name).at(k);
        if (name == "t5")  // pieces that the model does not know
          for (std::string& piece : expected)
            if (std::ranges::count(each->encode(piece), unknown_id) > 0) piece = "<unk>";
        const std::string text = texts.at("texts").at(k);
        BOOST_TEST(written(*each, text) == expected, name << ": " << text);
      }
  }
}

BOOST_AUTO_TEST_CASE(texts_cannot_spell_special_tokens_and_come_back) {
  const Json texts = load_json(model_of("texts.json"));
  const auto gpt2 = load_tokenizer(model_of("gpt2")), bert = load_tokenizer(model_of("bert"));
  for (const Json& text : texts.at("texts")) BOOST_TEST(gpt2->decode(gpt2->encode(text.get<std::string>())) == text);
  BOOST_TEST(bert->decode(bert->encode("The unaffable OWNER, 12")) == "the unaffable owner , 12");
  for (const int id : gpt2->encode("<|endoftext|><pad> <s>")) BOOST_TEST(id >= special_tokens);
  const std::vector<int> tokens = bert->encode("[SEP] [CLS] [PAD] the");
  BOOST_TEST((tokens.front() == begin_id && tokens.back() == end_id));
  for (const int special : {pad_id, begin_id, end_id})
    BOOST_TEST(std::ranges::count(tokens, special) == (special == pad_id ? 0 : 1));
  BOOST_TEST(bert->encode(" \t").empty());
  const std::vector<std::string> apart{"[CLS]", "the", "[UNK]", "cat", "[UNK]", "[UNK]", "the", "[SEP]"};
  BOOST_TEST(written(*bert, "The≠cat≮≯thé") == apart, boost::test_tools::per_element());
  BOOST_TEST(tokens_of(*bert, "the cat sat", 4) ==
                 (std::vector<int>{begin_id, tokens[tokens.size() - 2], bert->encode("cat")[1], end_id}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_token_of_texts_may_begin_the_output_of_t5) {
  const Copy folder("t5");
  const auto before = load_tokenizer(model_of("t5"));
  const Json texts = load_json(model_of("texts.json")).at("texts");
  for (const int token : {5, 9, 23}) {
    Json config = load_json(folder / "config.json");
    config["decoder_start_token_id"] = token;
    folder.write("config.json", text_of(config));
    const HuggingFaceVocabulary after = hugging_face_vocabulary(folder.path);
    BOOST_TEST(after.rows[begin_id] == token);
    BOOST_TEST(std::ranges::count(after.rows, token) == 2);
    for (const std::string text : texts) BOOST_TEST(written(*after.tokenizer, text) == written(*before, text), text);
  }
}

BOOST_AUTO_TEST_CASE(a_vocabulary_may_be_in_one_file) {
  const Copy gpt2("gpt2"), bert("bert");
  Json merges = Json::array(), words = Json::object(), lines = Json::object();
  std::ifstream of_merges(gpt2 / "merges.txt");
  std::string first, second;
  std::getline(of_merges, first);  // the version
  while (of_merges >> first >> second) merges.push_back({first, second});
  gpt2.write("tokenizer.json", text_of({{"model", {{"vocab", load_json(gpt2 / "vocab.json")}, {"merges", merges}}}}));
  fs::remove(gpt2 / "vocab.json");
  std::ifstream file(bert / "vocab.txt");
  int number = 0;
  for (std::string line; std::getline(file, line);) lines[line] = number++;
  bert.write("tokenizer.json", text_of({{"model", {{"vocab", lines}}}}));
  bert.write("tokenizer_config.json", R"({"do_lower_case": false})");
  fs::remove(bert / "vocab.txt");
  const std::string text = "don't eat the eggs 12";
  BOOST_TEST(written(*load_tokenizer(gpt2.path), text) == written(*load_tokenizer(model_of("gpt2")), text));
  BOOST_TEST(written(*load_tokenizer(bert.path), text) == written(*load_tokenizer(model_of("bert")), text));
  BOOST_TEST(written(*load_tokenizer(bert.path), "The the")[1] == "[UNK]");
}

BOOST_AUTO_TEST_CASE(a_tokenizer_with_other_steps_is_refused) {
  const Copy gpt2("gpt2"), bert("bert");
  gpt2.write("tokenizer_config.json", R"({"add_prefix_space": true})");
  BOOST_TEST(contains(refusal(gpt2), "tokenizer_config.json: add_prefix_space is true, but our BPE of bytes puts no"));
  gpt2.write("tokenizer_config.json", R"({"add_prefix_space": false})");
  Json words = Json::object(), merges = Json::array();
  int number = 0;
  for (const std::string& line : lines_of(bert / "vocab.txt")) words[line] = number++;
  fs::remove(bert / "vocab.txt");
  const Json letters = load_json(gpt2 / "vocab.json");
  gpt2.write("tokenizer.json", R"({"pre_tokenizer": {"type": "Metaspace"}})");  // beside vocab.json
  BOOST_TEST(contains(refusal(gpt2), "tokenizer.json: pre_tokenizer is "));
  fs::remove(gpt2 / "vocab.json");
  auto with = [&](const Copy& folder, const Json& tokens, const std::string& steps) {
    Json all = Json::parse(steps);
    all["model"] = {{"vocab", tokens}, {"merges", merges}};
    folder.write("tokenizer.json", text_of(all));
  };
  for (const char* steps : {R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})",
                            R"({"pre_tokenizer": {"type": "ByteLevel", "use_regex": false}})",
                            R"({"pre_tokenizer": {"type": "Metaspace"}})", R"({"pre_tokenizer": null})"}) {
    with(gpt2, letters, steps);
    BOOST_TEST(contains(refusal(gpt2), "tokenizer.json: pre_tokenizer is "), steps);
  }
  with(gpt2, letters, R"({"normalizer": {"type": "NFC"}})");
  BOOST_TEST(contains(refusal(gpt2),
                      "tokenizer.json: normalizer is {\"type\":\"NFC\"}, which our BPE of bytes does not have"));
  with(gpt2, letters, R"({"normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "use_regex": true}})");
  BOOST_TEST(analysis(gpt2.path).status == 0);

  auto normalizer = [](const std::string& rest) { return R"({"normalizer": {"type": "BertNormalizer")" + rest + "}}"; };
  with(bert, words, R"({"pre_tokenizer": {"type": "Whitespace"}})");
  BOOST_TEST(contains(refusal(bert), "tokenizer.json: pre_tokenizer is "));
  with(bert, words, R"({"normalizer": {"type": "NFKC"}})");
  BOOST_TEST(contains(refusal(bert), "tokenizer.json: normalizer is "));
  for (const char* rest : {R"(, "strip_accents": false)", R"(, "handle_chinese_chars": false)"}) {
    with(bert, words, normalizer(rest));
    BOOST_TEST(contains(refusal(bert), "tokenizer.json: our WordPiece removes accents where"), rest);
  }
  with(bert, words, normalizer(R"(, "lowercase": false)"));
  bert.write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  BOOST_TEST(written(*load_tokenizer(bert.path), "The the")[1] == "[UNK]");
}

BOOST_AUTO_TEST_CASE(analyze_looks_into_them) {
  const std::string text = "the cat sat";
  for (const std::string name : {"gpt2", "bert", "t5"}) {
    const Ended map = succeeded(ended("analyze", {model_of(name), "--text", text}));
    BOOST_TEST(without_warnings(map.err) == "", map.err);
    BOOST_TEST(std::ranges::count(map.err, '\n') == 1, map.err);  // of half precision
    BOOST_TEST(contains(map.out, "the"), map.out);
  }
  Folder folder;
  const std::string data = folder.write("texts.txt", "the cat\nsat on a mat\nthe dog ran\nwe eat eggs\n" + text + "\n");
  const Ended mass = succeeded(ended("analyze", {"mass", model_of("gpt2"), "--data", data}));
  BOOST_TEST(contains(ended("analyze", {"mass", model_of("gpt2")}).err,
                      "gpt2: a model of Hugging Face has no data of its own; name some with --data"));
  const std::vector<std::string> vary{"vary", model_of("t5"), "--vary", "beam=1,2"};
  BOOST_TEST(contains(ended("analyze", vary).err, "t5: a model of Hugging Face has no data of its own"));
  succeeded(ended("analyze", joined(vary, {"--data", few_sentences})));
  BOOST_TEST(contains(ended("analyze", {"model", model_of("t5")}).out, "t5(buckets=8, max_distance=20)"));
}

BOOST_AUTO_TEST_CASE(training_begins_with_them_and_another_attention) {
  Folder folder;
  std::string lines, labelled;
  for (int k = 0; k < 40; ++k) {
    lines += fmt::format("the cat {} sat\n", k);
    labelled += fmt::format("the cat {}\t{}\n", k, k % 2 ? "a" : "b");
  }
  const std::vector<std::string> few{"--updates", "2", "--evaluate-every", "1", "--max-length", "7"};
  struct Case {
    std::string program, model, data, attention;
  };
  for (const auto& [program, model, data, attention] :
       {Case{"language_model", "gpt2", folder.write("lines.txt", lines), "relative"},
        Case{"sentiment", "bert", folder.write("labels.tsv", labelled), "gaussian"},
        Case{"translate", "t5", few_sentences, "t5(buckets=8, max_distance=20) + alibi"}}) {
    const std::string out = folder / program;
    const Ended done = ended(program, joined(few, {"--preset", model_of(model), "--data", data, "--out", out,
                                                   "--attention", attention, "--min-count", "1"}));
    BOOST_TEST(done.status == 0, program << done.out << done.err);
    const bool has_parameters = program != "translate";
    BOOST_TEST(contains(done.err, "which keep their initial ones: ") == has_parameters, done.err);
    succeeded(ended("analyze", {out, "--text", "the cat"}));
    const auto trained = load_tokenizer(out), published = load_tokenizer(model_of(model));
    BOOST_TEST(written(*trained, "the eggs") == written(*published, "the eggs"));
  }
}

/// The golden classifier has the classes bad, so so and good, in this order; data have them in alphabetical order.
BOOST_AUTO_TEST_CASE(a_classifier_is_taken_over_by_the_names_of_its_classes) {
  Folder folder;
  std::vector<std::string> words;
  std::istringstream lines(contents(model_of("bert") / "vocab.txt"));
  for (std::string word; std::getline(lines, word);)
    if (word.size() > 2 && std::ranges::all_of(word, [](unsigned char c) { return std::islower(c); }))
      words.push_back(word);
  std::string texts, labelled, renamed;
  for (std::size_t k = 0; k < 120; ++k) {
    const std::string text = words[k % words.size()] + " " + words[(3 * k + 1) % words.size()];
    texts += text + "\n";
    labelled += text + "\t" + std::array{"good", "bad", "so so"}[k % 3] + "\n";
    renamed += text + "\t" + std::array{"fine", "bad", "so so"}[k % 3] + "\n";
  }
  const std::string labels_of = folder.write("texts.txt", texts);
  auto trained = [&](const std::string& data, const std::string& out) {
    return ended("sentiment", {"--preset", model_of("bert"), "--data", data, "--updates", "1", "--rate", "1e-12",
                               "--out", out, "--dropout", "0"});
  };
  const Ended alike = succeeded(trained(folder.write("alike.tsv", labelled), folder / "alike"));
  const std::string before = ended("sentiment", {"--model", model_of("bert"), "--label", labels_of}).out,
                    after = ended("sentiment", {"--model", folder / "alike", "--label", labels_of}).out;
  BOOST_TEST(before == after);
  BOOST_TEST(contains(before, "bad\n"));
  BOOST_TEST(contains(before, "so so\n"));
  const Ended other = trained(folder.write("renamed.tsv", renamed), folder / "renamed");
  BOOST_TEST(contains(other.err,
                      "its classes are bad, so so, good, those of the data bad, fine, so so; the last layer "
                      "begins anew"),
             other.err);
}

BOOST_AUTO_TEST_CASE(labels_are_those_of_a_trained_classifier) {
  const Copy whole("bert"), one("bert");
  const std::string texts = whole.write("texts.txt", "the cat\nowner cafe the mat\n");
  auto label = [&](const Folder& folder) { return ended("sentiment", {"--model", folder.path, "--label", texts}); };
  BOOST_TEST(without_warnings(succeeded(label(whole)).err) == "");
  for (const std::string layer : {"classifier", "pooler"}) {
    const Copy folder("bert");
    folder.change([&](auto& tensors) {
      std::erase_if(tensors, [&](const auto& each) { return contains(each.first, layer + "."); });
    });
    const Ended done = label(folder);
    BOOST_TEST(done.status == 2);
    BOOST_TEST(contains(done.err, "has no '" + layer + ".weight' for these classes, so its labels would be random"),
               done.err);
    BOOST_TEST(done.out == "");
  }
  Json config = load_json(one / "config.json");
  config["id2label"] = {{"0", "LABEL_0"}};
  one.write("config.json", text_of(config));
  BOOST_TEST(contains(refusal_of(label(one)), "has one class, LABEL_0, so every text would get this label"));
}

BOOST_AUTO_TEST_CASE(texts_end_at_the_last_position) {
  Folder folder;
  std::string words = "the mat";
  for (int k = 0; k < 20; ++k) words += " the cat";
  const std::string texts = folder.write("texts.txt", "the cat\n" + words + "\nthe mat\n");
  const Ended labelled = ended("sentiment", {"--model", model_of("bert"), "--label", texts});
  BOOST_TEST(labelled.status == 2);
  BOOST_TEST(std::ranges::count(labelled.out, '\n') == 1);
  BOOST_TEST(without_warnings(labelled.err) ==
             "sentiment: " + texts +
                 ":2: 48 tokens with padding, --max-positions is 20; set --max-length to cut longer "
                 "texts\n");
  succeeded(ended("sentiment", {"--model", model_of("bert"), "--label", texts, "--max-length", "16"}));

  auto sampled = [&](const std::string& prompt) {
    return ended("language_model", {"--model", model_of("gpt2"), "--sample", "30", "--prompt", prompt});
  };
  const Ended drawn = succeeded(sampled("the cat"));
  BOOST_TEST(contains(drawn.err, "warning: texts end after 11 tokens, not --longest 200: the model has 12 learned"));
  BOOST_TEST(contains(refusal_of(sampled(words)), "tokens with <s>, --max-positions is 12"));
}

BOOST_AUTO_TEST_CASE(parts_of_a_model_in_several_files_are_read) {
  const Copy folder("gpt2");
  const Safetensors whole = read_safetensors(folder / "model.safetensors");
  std::vector<std::pair<std::string, Tensor>> parts[2];
  Json index;
  for (const auto& [name, tensor] : whole.tensors) {
    const std::size_t part = parts[0].size() > parts[1].size();
    parts[part].emplace_back(name, tensor);
    index["weight_map"][name] = fmt::format("part-{}.safetensors", part);
  }
  for (int part : {0, 1}) write_safetensors(folder / fmt::format("part-{}.safetensors", part), parts[part]);
  fs::remove(folder / "model.safetensors");
  folder.write("model.safetensors.index.json", text_of(index));
  BOOST_TEST(finding(analysis(folder.path)) == finding(analysis(model_of("gpt2"))));
  fs::remove(folder / "part-1.safetensors");
  BOOST_TEST(contains(refusal(folder), "part-1.safetensors: cannot be read: No such file or directory"));
}

BOOST_AUTO_TEST_CASE(models_that_ours_cannot_be_are_refused_in_a_line) {
  auto after = [](const std::string& part, const std::string& by, const std::string& name = "gpt2") {
    const Copy folder(name);
    folder.replace("config.json", part, by);
    return refusal(folder);
  };
  std::pair<std::string, std::string> cases[] = {
      {after("\"model_type\": \"gpt2\"", "\"model_type\": \"llama\""),
       "config.json: describes a model of the type \"llama\", expected \"gpt2\", \"bert\" or \"t5\""},
      {after("\"n_layer\": 2,", ""), "config.json: has no 'n_layer', which a model of the type gpt2 has"},
      {after("\"n_layer\": 2", "\"n_layer\": 3"),
       "model.safetensors: has no tensor 'h.2.attn.c_attn.weight', which a model of the type \"gpt2\" has"},
      {after("\"n_inner\": 24", "\"n_inner\": 25"),
       "tensor 'h.0.mlp.c_fc.weight' is [16, 24], which makes [16, 24]; the parameter "
       "'decoder.0.feed_forward.inner.weight' is [16, 25]"},
      {after("gelu_new", "silu"), "activation_function is 'silu', expected relu, gelu, gelu_new"},
      {after("\"scale_attn_by_inverse_layer_idx\": false", "\"scale_attn_by_inverse_layer_idx\": true"),
       "config.json: scale_attn_by_inverse_layer_idx is true, which our models do not have; expected false"},
      {after("\"vocab_size\": ", "\"vocab_size\": 99, \"x\": "), "config.json has a vocab_size of 99"},
      {after("\"vocab_size\": ", "\"vocab_size\": -3, \"x\": "), "vocab_size is -3, expected 5 to 10000000"},
      {after("\"pad_token_id\": 0", "\"pad_token_id\": 60", "t5"),
       "spiece.model: has 60 pieces, config.json a special"},
      {after("\"d_kv\": 4", "\"d_kv\": 0", "t5"), "config.json: d_kv is 0, expected a whole number from 1"},
      {after("\"d_kv\": 4", "\"d_kv\": 5", "t5"),
       "tensor 'encoder.block.0.layer.0.SelfAttention.q.weight' is [16, 16], which makes [16, 16]; the parameter "
       "'encoder.0.attention.query.weight' is [16, 20]"},
      {after("\"is_decoder\": false", "\"is_decoder\": true", "bert"), "is_decoder is true"},
  };
  for (const auto& [message, part] : cases) BOOST_TEST(contains(message, part), message);
  BOOST_TEST(
      contains(ended("translate", {"--preset", model_of("bert")}).err, "bert: is a model for sentiment; translate"));
  for (const auto& [program, model, own] :
       {std::tuple("translate", "gpt2", "language_model"), {"language_model", "t5", "translate"}})
    BOOST_TEST(contains(ended(program, {"--preset", model_of(model)}).err,
                        fmt::format("{}: is a model for {}, not for {}", model, own, program)));

  for (const auto& [name, fault] :
       {std::pair("bad", "'bad' is given twice"), {"", "'' is empty"}, {"so\\nso", "'so␊so' is of several lines"}}) {
    const Copy folder("bert");
    folder.replace("config.json", "so so", name);
    BOOST_TEST(contains(message_of([&] { hugging_face_classes(folder.path); }),
                        fmt::format("config.json: id2label: the class {}", fault)));
  }

  const Copy torch("gpt2"), bare("bert"), cut("gpt2");
  fs::rename(torch / "model.safetensors", torch / "pytorch_model.bin");
  BOOST_TEST(contains(refusal(torch), ": has pytorch_model.bin, expected model.safetensors; in Python: "));
  fs::remove(bare / "vocab.txt");
  BOOST_TEST(contains(refusal(bare), ": has no vocabulary: no vocab.txt, and no tokenizer.json"));
  fs::resize_file(cut / "model.safetensors", 9999);
  BOOST_TEST(contains(refusal(cut), "model.safetensors: tensor 'transformer."));

  const Copy merges("gpt2"), numbers("gpt2"), parts("gpt2");
  std::ofstream(merges / "merges.txt", std::ios::app) << "garbage\n";
  BOOST_TEST(contains(refusal(merges), "merges.txt: the merge 'garbage' is not of two parts"));
  merges.write("merges.txt", "\b\n");  // would move a terminal's cursor
  BOOST_TEST(contains(refusal(merges), "merges.txt: the merge '\\x08' is not of two parts"));
  std::ofstream(numbers / "vocab.json") << "{}";
  BOOST_TEST(contains(refusal(numbers), "vocab.json: has no token of the number "));
  fs::remove(parts / "model.safetensors");
  for (const auto& [index, error] : {std::pair(R"({"weight_map": {}})", "index.json: weight_map is empty"),
                                     std::pair(R"({"weight_map": {"a": "../b"}})", "'../b' is not in the folder")}) {
    std::ofstream(parts / "model.safetensors.index.json") << index;
    BOOST_TEST(contains(refusal(parts), error));
  }
}

BOOST_AUTO_TEST_CASE(names_may_lack_the_prefix_of_the_architecture) {
  const Copy folder("gpt2");
  folder.change([](auto& tensors) {
    for (auto& [name, tensor] : tensors) name.erase(0, std::string("transformer.").size());
    tensors.emplace_back("h.0.attn.bias", Tensor::full({1, 1, 12, 12}, 0.5));  // a mask, in the files of gpt2
  });
  const Ended bare = analysis(folder.path);
  BOOST_TEST(finding(bare) == finding(analysis(model_of("gpt2"))));
  BOOST_TEST(bare.err == "");
}

BOOST_AUTO_TEST_CASE(old_names_and_tensors_without_a_place_are_no_trouble) {
  const Copy folder("bert");
  folder.change([](auto& tensors) {
    for (auto& [name, tensor] : tensors) {
      for (const auto& [now, old] :
           {std::pair("LayerNorm.weight", "LayerNorm.gamma"), {"LayerNorm.bias", "LayerNorm.beta"}})
        if (name.ends_with(now)) name.replace(name.rfind(now), std::string::npos, old);
    }
    tensors.emplace_back("cls.seq_relationship.bias", tensors.front().second);
  });
  const Ended old = analysis(folder.path);
  BOOST_TEST(finding(old) == finding(analysis(model_of("bert"))));
  BOOST_TEST(contains(old.err, "the model has no place for these tensors: cls.seq_relationship.bias"), old.err);
}

BOOST_AUTO_TEST_SUITE_END()
