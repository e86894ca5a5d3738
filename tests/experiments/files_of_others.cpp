// Files as other programs write them, which the programs of experiments/ read, or refuse with what to do.
#include <algorithm>
#include <limits>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "experiments/support/attend/attention_case.h"
#include "experiments/support/data/parallel_corpus.h"
#include "experiments/support/record/record.h"
#include "tensor/format/safetensors.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

/// A folder of files that a test writes.
struct Files : Folder {
  std::string operator()(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// All pairs of words and tags of a file: those of the training, development and test parts together, sorted.
Pairs pairs_of(const std::string& data, const std::string& columns = "") {
  ParallelCorpusOptions options;
  options.data = data;
  options.columns = columns;
  options.needs_source = options.lines.has_words = true;
  const ParallelCorpus corpus(options);
  Pairs pairs;
  for (const Part part : {Part::train, Part::dev, Part::test})
    corpus.visit(part, [&](const TextPair& pair) { pairs.emplace_back(pair.source, pair.target); });
  std::ranges::sort(pairs);
  return pairs;
}

Ended score(const Files& write, const std::string& hypotheses, const std::string& reference,
            const std::vector<std::string>& more = {}) {
  return ended("score", joined({write("h.txt", hypotheses), "--reference", write("r.txt", reference)}, more));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(files_of_others)

BOOST_AUTO_TEST_CASE(models_of_other_programs_are_called_what_they_are) {
  const Files write;
  const std::string torch = write("model.pt", "\x80\x02.........");
  auto refusal = [&](const std::vector<std::string>& flags) {
    const std::string done = refusal_of(ended("translate", flags));
    return done;
  };
  BOOST_TEST(contains(refusal({"--model", torch, "--decode", "-"}),
                      "model.pt: is a PyTorch file (.pt, .bin), expected JSON text, or the directory of a run"));
  BOOST_TEST(contains(refusal(tiny(write.path / "out", {"--data", few_sentences, "--init", torch})),
                      "model.pt: is a PyTorch file (.pt, .bin), expected a safetensors file; in Python: "));
  const std::string config = write("config.json", "{\"model_type\": \"bert\", \"hidden_size\": 3}");
  BOOST_TEST(contains(refusal({"--config", config}), "config.json: describes a Hugging Face model"));
  BOOST_TEST(contains(refusal({"--model", write.path, "--decode", "-"}), "config.json: has no 'num_hidden_layers'"));
}

BOOST_AUTO_TEST_CASE(links_may_be_counted_from_1) {
  const Files write;
  const std::string from_0 = "0-0 1-1 2-2\n0-0 1-2\n", from_1 = "1-1 2-2 3?3\n1-1 2-3\n";
  auto aer = [&](const std::string& links, const std::string& gold, const std::vector<std::string>& more = {}) {
    return score(write, links, gold, joined({"--metrics", "aer"}, more));
  };
  const Ended mixed = aer(from_0, from_1);
  BOOST_TEST(contains(mixed.err, "r.txt: no link is of a source word 0, as links of "), mixed.err);
  BOOST_TEST(contains(mixed.err, "--gold-from 1"), mixed.err);
  BOOST_TEST(contains(aer(from_1, from_0).err, "--links-from 1"));
  for (const Ended& right : {aer(from_0, from_1, {"--gold-from", "1"}), aer(from_1, from_0, {"--links-from", "1"})}) {
    BOOST_TEST(contains(right.out, "0.0000"), right.out);
    BOOST_TEST(right.err == "");
  }
  BOOST_TEST(aer(from_1, from_1).err == "");
  BOOST_TEST(aer("\n\n", from_0).err == "");  // nothing is linked, so nothing is counted
  BOOST_TEST(contains(aer(from_0, "0-1 1-2 2-3\n0-1 1-3\n").err, "r.txt: no link is of a target word 0"));
  const std::string zero = refusal_of(aer(from_0, from_0, {"--gold-from", "1"}));
  BOOST_TEST(contains(zero, "r.txt:1: '0-0': expected a link like 0-2 or 0?2, of words counted from 1"), zero);
}

BOOST_AUTO_TEST_CASE(scores_that_mean_nothing_are_warned_of) {
  const Files write;
  for (const std::string text : {"สวัสดี", "नमस्ते दुनिया 7", "你好世界 AI", "Привет"})
    BOOST_TEST(contains(score(write, text + "\n", text + "\n", {"--metrics", "rouge"}).err,
                        "r.txt: ROUGE sees no letters but a-z"),
               text);
  for (const std::string text : {"a naïve café", "“quoted” – well", "12"})
    BOOST_TEST(score(write, text + "\n", text + "\n", {"--metrics", "rouge"}).err == "", text);
  BOOST_TEST(contains(score(write, "a b\nc d\n", "\n \n").err, "r.txt: every line is blank"));
  BOOST_TEST(score(write, "a b\nc d\n", "\na\n").err == "");
}

BOOST_AUTO_TEST_CASE(flags_that_no_metric_reads_are_warned_of) {
  const Files write;
  for (const auto& [flag, value, metric] :
       {std::tuple("--tokenize", "zh", "sacrebleu"), {"--links-from", "1", "aer"}, {"--gold-from", "1", "aer"}})
    BOOST_TEST(contains(score(write, "a b\n", "a c\n", {"--metrics", "bleu", flag, value}).err,
                        fmt::format("without effect: {}; only --metrics {} reads it", flag, metric)));
  BOOST_TEST(contains(score(write, "a b\n", "a c\n", {"--metrics", "bleu", "--stem"}).err, "--metrics rouge reads it"));
  BOOST_TEST(score(write, "a b\n", "a c\n", {"--metrics", "bleu,sacrebleu", "--tokenize", "zh"}).err == "");
  BOOST_TEST(contains(score(write, "a b\n", "a c\n", {"--metrics", "rouge", "--letters", "mixed"}).err,
                      "without effect: --letters; no metric"));
  for (const char* metric : {"accuracy", "word-accuracy"}) {
    BOOST_TEST(contains(score(write, "A b\n", "a B\n", {"--metrics", metric, "--letters", "lower"}).out, "100.00"));
    BOOST_TEST(!contains(score(write, "A b\n", "a B\n", {"--metrics", metric}).out, "100.00"));
  }
}

BOOST_AUTO_TEST_CASE(attend_reads_numpy_arrays) {
  const Files write;
  const auto array = [](const std::string& type, const std::string& shape, const std::string& bytes) {
    const std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + "}";
    return "\x93NUMPY\1" + std::string(1, '\0') + static_cast<char>(header.size()) + std::string(1, '\0') + header +
           bytes;
  };
  write("query.npy", array("<f4", "(1, 2, 2)", std::string("\0\0\x40\x40\0\0\x80\x40\0\0\xa0\x40\0\0\xc0\x40", 16)));
  write("lengths.npy", array("<i8", "(1,)", std::string("\1\0\0\0\0\0\0\0", 8)));
  const std::vector<std::string> query{"--method", "mean", "--in", write.path / "query.npy"};
  const Ended one = succeeded(ended("attend", query));
  BOOST_TEST(contains(one.out, "f32 [1, 2, 2]"), one.out);
  const Ended two = succeeded(ended("attend", joined(query, {"--in", write.path / "lengths.npy"})));
  BOOST_TEST(contains(two.out, "lengths"), two.out);
  write("query.npy", array("<f2", "(1, 2, 2)", std::string("\0\x42\0\x44\0\x45\1\0", 8)));
  const Ended half = succeeded(ended("attend", query));
  BOOST_TEST(contains(half.err, "query.npy: has half-precision numbers (F16), which are read as f32"), half.err);
  BOOST_TEST(std::ranges::count(half.err, '\n') == 1, half.err);
  BOOST_TEST(contains(ended("attend", joined(query, query)).err, "--in: 'query' is in "));
  const std::string archive = refusal_of(ended("attend", {"--in", write("model.pt", "\x80\x02.........")}));
  BOOST_TEST(contains(archive, "model.pt: is a PyTorch file (.pt, .bin), expected a safetensors file; "), archive);
}

BOOST_AUTO_TEST_CASE(conll_u_is_words_and_their_tags) {
  const Files write;
  auto row = [](const char* id, const char* form, const char* upos, const char* xpos) {
    return fmt::format("{}\t{}\tx\t{}\t{}\t_\t0\troot\t_\t_\n", id, form, upos, xpos);
  };
  const std::string text = "# sent_id = 1\n# a b c d e f g h\n" + row("1-2", "vámonos", "_", "_") +
                           row("1", "vamos", "VERB", "V") + row("2", "nos", "PRON", "P") + row("2.1", "x", "_", "_") +
                           "\n\n# sent_id = 2\n" + row("1", "New York", "PROPN", "N") + row("2", "#", "SYM", "S");
  const std::string file = write("es-ud.conllu", text);
  const Pairs by_upos{{"New_York #", "PROPN SYM"}, {"vamos nos", "VERB PRON"}};
  BOOST_TEST((pairs_of(file) == by_upos));
  BOOST_TEST((pairs_of(file, "2,4") == by_upos));
  BOOST_TEST((pairs_of(file, "form,xpos") == Pairs{{"New_York #", "N S"}, {"vamos nos", "V P"}}));
}

BOOST_AUTO_TEST_CASE(other_conll_files_have_the_columns_that_they_have) {
  const Files write;
  const Pairs expected{{"# 1-2 won", "SYM NUM VERB"}, {"It runs", "PRON VERB"}};
  BOOST_TEST(
      (pairs_of(write("a.conll", "# a comment line\nIt PRON\nruns VERB\n\n# SYM\n1-2 NUM\nwon VERB\n")) == expected));
  BOOST_TEST((pairs_of(write("a.tsv", "It\tPRON\nruns\tVERB\n \n#\tSYM\n1-2\tNUM\nwon\tVERB\n\n")) == expected));
  // above the first word of the file as above other words
  const Pairs signs{{"# It", "SYM PRON"}, {"# won", "NO VERB"}};
  BOOST_TEST((pairs_of(write("d.conll", "# a b\n# SYM\nIt PRON\n\n# NO\nwon VERB\n")) == signs));
  const std::string four = write("eng.conll", "-DOCSTART- -X- O O\n\nIt PRP B-NP O\n\n2-1 CD I-NP O\nwon VBD O O\n");
  BOOST_TEST((pairs_of(four, "1,2") == Pairs{{"2-1 won", "CD VBD"}, {"It", "PRP"}}));
  BOOST_TEST(contains(message_of([&] { pairs_of(four); }), "4 columns (It, PRP, B-NP, O), expected 2"));
  const std::string broken = write("b.conll", "It PRON\nruns\n\nHe PRON\n");
  BOOST_TEST(contains(message_of([&] { pairs_of(broken); }), "b.conll:2: 1 column, the words before have 2"));
  const std::string sentences = write("c.txt", "It runs\tPRON VERB\nHe won\tPRON VERB\n");
  BOOST_TEST(contains(message_of([&] { pairs_of(sentences); }),
                      "c.txt:1: 'It runs' and 'PRON VERB' are a sentence and its tags, expected one word and its tag"));
}

BOOST_AUTO_TEST_CASE(tagging_reads_the_three_files_of_a_treebank) {
  const Files write;
  std::string text;
  for (int k = 0; k < 12; ++k) text += fmt::format("w{} N\nruns V\n\n", k);
  for (const char* part : {"train", "dev", "test"}) write(fmt::format("x-ud-{}.conll", part), text);
  const Ended done =
      succeeded(ended("tagging", tiny_classifier(write.path / "out", {"--data", write.path, "--min-count", "1"})));
  BOOST_TEST(contains(done.out, "12 pairs to train on, 12 to select models, 12 in test"), done.out);
}

BOOST_AUTO_TEST_CASE(words_without_a_tag_are_named_by_file_and_line) {
  const Files write;
  std::string words = "a b c\nd e\n", tags = "A B C\nD\n";
  for (int k = 0; k < 200; ++k) words += fmt::format("x{} y\n", k), tags += "X Y\n";
  write("train.words", words), write("train.tags", tags);
  const auto flags = [&](const std::vector<std::string>& more) {
    return tiny_classifier(
        write.path / "out",
        joined({"--data", write.path, "--source", "words", "--target", "tags", "--min-count", "1"}, more));
  };
  BOOST_TEST(contains(refusal_of(ended("tagging", flags({}))),
                      "train.words:2: 2 words and 1 tag; each word needs one tag (--bad-lines skip leaves such pairs"));
  BOOST_TEST(contains(succeeded(ended("tagging", flags({"--bad-lines", "skip"}))).out, "uneven"));
}

BOOST_AUTO_TEST_CASE(pages_and_documents_of_markup_are_no_texts) {
  const Files write;
  for (const auto& [text, kind] : {std::pair("<!DOCTYPE HTML>\n<p>not found\n", "an HTML page"),
                                   {"\n<html lang=\"en\">\n", "an HTML page"},
                                   {"\xef\xbb\xbf<?xml version=\"1.0\"?>\n<tmx>\n", "an XML document"},
                                   {"<tmx version=\"1.4\">\n<tuv>\n", "an XML document"},
                                   {"<refset setid=\"x\">\n<seg>a</seg>\n", "an XML document"}})
    BOOST_TEST(contains(refusal_of(ended("language_model", tiny(write.path / "out", {"--data", write("a.txt", text)}))),
                        std::string("a.txt: is ") + kind),
               text);
  BOOST_TEST(score(write, "<unk> a\n<b> c\n", "<unk> a\n<b> c\n").err == "");
}

BOOST_AUTO_TEST_CASE(a_metric_of_one_reference_is_refused_where_there_are_several) {
  const Files write;
  std::string table = "text\tshort\tshorter\n";
  for (int k = 0; k < 40; ++k) table += fmt::format("the text {0}\ttext {0}\t{0}\n", k);
  const std::string file = write("sums.tsv", table), out = write.path / "out";
  for (const std::string flag : {"--metrics", "--select"})
    BOOST_TEST(contains(refusal_of(ended("summarize", tiny(out, {"--data", file, "--columns", "text,short,shorter",
                                                                 flag, "word-accuracy"}))),
                        flag + " word-accuracy: word-accuracy: 2 references, expected 1"),
               flag);
  BOOST_TEST(!std::filesystem::exists(out + "/checkpoint.safetensors"));
}

BOOST_AUTO_TEST_CASE(the_language_may_stand_first_in_names) {
  const Files write;
  const std::string source = "a b\nc d\n", target = "A B\nC D\n";
  for (const char* part : {"train", "val"}) {
    write(fmt::format("src-{}.txt", part), source);
    write(fmt::format("tgt-{}.txt", part), target);
  }
  ParallelCorpusOptions options;
  options.data = write.path, options.source = "src", options.target = "tgt", options.needs_source = true;
  BOOST_TEST(contains(ParallelCorpus(options).description(),
                      "train src-train.txt and tgt-train.txt; dev src-val.txt and tgt-val.txt; test 10 % of train"));
  write("src-test.txt", source);
  BOOST_TEST(contains(message_of([&] { ParallelCorpus{options}; }), "there is src-test.txt, but no tgt-test.txt"));
  std::filesystem::remove(write.path / "src-test.txt");
  write("train.src", source), write("train.tgt", target);  // the usual names have precedence
  BOOST_TEST(contains(ParallelCorpus(options).description(), "train train.src and train.tgt"));
}

BOOST_AUTO_TEST_CASE(a_table_may_have_several_references) {
  const Files write;
  std::string table = "document\tsummary1\tsummary2\tsummary3\n";
  for (int k = 0; k < 30; ++k) table += fmt::format("the text {0}\ttext {0}\ta text {0}\t{1}\n", k, k % 2 ? "one" : "");
  const std::string file = write("sums.tsv", table);
  for (const std::vector<std::string>& columns :
       {std::vector<std::string>{"--columns", "document,summary1,summary2,summary3"},
        {"--source", "document", "--target", "summary1,summary2,summary3"}}) {
    Folder out;
    succeeded(ended("summarize", tiny(out.path, joined({"--data", file}, columns))));
    const std::string examples = contents(out / "examples.test.jsonl");
    BOOST_TEST(contains(examples, "\"more_references\":[\"a text"), examples);
    BOOST_TEST(contains(contents(out / "references.txt"), "text "));
  }
  std::vector<TestedExample> examples{{.reference = "a b", .hypothesis = "c d", .more_references = {"x", "c d"}},
                                      {.reference = "e f", .hypothesis = "e f"}};
  BOOST_TEST(scores_of(examples, {"rouge"}, {})[0].metric.value() == 1);
}

BOOST_AUTO_TEST_CASE(lines_that_end_in_carriage_returns_are_no_training_text) {
  const Files write;
  std::string text;
  for (int k = 0; k < 30; ++k) text += fmt::format("the cat {}\r", k);
  for (const char* name : {"train.en", "train.de", "dev.en", "dev.de"}) write(name, text);
  const std::string pairs = refusal_of(
      ended("translate", tiny(write.path / "out", {"--data", write.path, "--source", "en", "--target", "de"})));
  BOOST_TEST(contains(pairs, "train.en: its lines end in carriage returns alone; tr "), pairs);
  const Ended texts = ended("language_model", tiny(write.path / "lm", {"--data", write("a.txt", text)}));
  BOOST_TEST(contains(texts.err, "a.txt: its lines end in carriage returns alone"), texts.err);
  const std::string two = write("c.txt", text + "\n" + text + "\n");
  BOOST_TEST(contains(refusal_of(ended("language_model", tiny(write.path / "lm", {"--data", two}))),
                      "c.txt:1: the line has 29 carriage returns, as where lines that end in them alone were joined"));
  std::string joined_files;
  for (int k = 0; k < 60; ++k) joined_files += fmt::format("{}the cat {}\n", k % 30 ? "" : "\xef\xbb\xbf", k);
  const Ended mark =
      succeeded(ended("language_model", tiny(write.path / "lm", {"--data", write("b.txt", joined_files)})));
  BOOST_TEST(contains(mark.err, "warning: " + (write.path / "b.txt").string() + ":31: a byte order mark inside"),
             mark.err);
}

// Press et al.'s get_slopes(3): the exponents 4, 8, 2
BOOST_AUTO_TEST_CASE(alibi_has_the_slopes_of_the_published_code) {
  auto slopes = [](const std::string& method, int heads) {
    AttentionCase options;
    options.method = method;
    options.heads = heads;
    options.shape = {1, 2, 2, 2 * heads};
    options.precision = AttentionCase::Precision::f64;
    for (const auto& [name, tensor] : attend_case(options, {}))
      if (name == "slope") return tensor.to_vector<double>();
    return std::vector<double>();
  };
  auto powers = [](const std::vector<double>& exponents) {
    std::vector<double> all;
    for (double exponent : exponents) all.push_back(std::exp2(-exponent));
    return all;
  };
  BOOST_TEST(slopes("alibi(slopes=published)", 3) == powers({4, 8, 2}));
  BOOST_TEST(slopes("alibi(slopes=published)", 6) == powers({2, 4, 6, 8, 1, 3}));
  for (int heads : {1, 2, 4, 8}) BOOST_TEST(slopes("alibi(slopes=published)", heads) == slopes("alibi", heads));
  BOOST_TEST(slopes("alibi", 4) == powers({2, 4, 6, 8}));
  BOOST_TEST(
      contains(ended("attend", {"--describe", "alibi"}).out, "published: those of the paper's code, which differ"));
}

BOOST_AUTO_TEST_CASE(a_finished_run_with_a_damaged_file_is_refused) {
  const Files write;
  const std::string run = write.path / "run";
  succeeded(ended("translate", tiny(run, {"--data", few_sentences, "--average", "2"})));
  auto complaint_of = [&](const std::string& program) {
    const Ended done = program == "translate" ? ended(program, {"--resume", run}) : ended(program, {run});
    BOOST_TEST(done.status == (done.err.empty() ? 0 : 2), done.err);
    BOOST_TEST(std::ranges::count(done.err, '\n') <= 1, done.err);
    return done.err;
  };
  for (const std::string program : {"translate", "report", "analyze"}) BOOST_TEST(complaint_of(program) == "");
  for (const std::string name : {"hypotheses.txt", "references.txt", "result.json", "best.safetensors"}) {
    const std::string path = write.path / "run" / name, whole = contents(path);
    std::string damaged = whole;
    damaged[whole.size() / 2] ^= 1;
    std::ofstream(path) << damaged;
    for (const std::string program : {"translate", "report", "analyze"})
      if (name != "best.safetensors" || program != "report")  // which does not read it
        BOOST_TEST(contains(complaint_of(program), path + ": "), program << " " << name);
    std::ofstream(path) << whole;
  }
  for (const std::string program : {"translate", "report", "analyze"}) BOOST_TEST(complaint_of(program) == "");
}

BOOST_AUTO_TEST_CASE(a_parameter_that_is_not_finite_is_named_before_the_first_update) {
  const Files write;
  const std::string run = write.path / "run", name = "decoder.0.feed_forward.inner.weight";
  succeeded(ended("translate", tiny(run, {"--data", few_sentences})));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Safetensors file = read_safetensors(run + "/best.safetensors");
    for (auto& [own, tensor] : file.tensors)
      if (own == name) tensor.mutable_data<float>()[3] = bad;
    write_safetensors(run + "/best.safetensors", file.tensors);
    for (const std::string& from : {run, run + "/best.safetensors"}) {
      const std::string done =
          refusal_of(ended("translate", tiny(write.path / "next", {"--data", few_sentences, "--init", from})));
      BOOST_TEST(contains(done, "best.safetensors: parameter '" + name + "' [8, 8] has "), done);
      BOOST_TEST(!std::filesystem::exists(write.path / "next"));
    }
    BOOST_TEST(ended("translate", {"--model", run, "--decode", "-"}, "a\n").status == 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
