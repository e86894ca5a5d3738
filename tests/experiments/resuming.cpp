// Runs on files of one's own: going on with them, labelling with what was trained, and models that are too large.
#include <csignal>
#include <fstream>

#include <boost/test/unit_test.hpp>
#include <sys/stat.h>

#include "experiments/support/program/json_file.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

/// Enters a directory, and goes back.
class Within {
 public:
  explicit Within(const std::filesystem::path& path) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(path);
  }
  ~Within() { std::filesystem::current_path(before_); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  std::filesystem::path before_;
};

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Sentences with the labels yes and no in turn.
std::string table(int rows, int first = 0) {
  std::string text;
  for (int k = first; k < first + rows; ++k)
    text += fmt::format("word{} is number {}\t{}\n", k % 7, k, k % 2 ? "yes" : "no");
  return text;
}

void write_parts(const std::filesystem::path& folder) {
  write(folder / "train.tsv", table(40));
  write(folder / "dev.tsv", table(10, 50));
  write(folder / "test.tsv", table(10, 70));
}

Ended sentiment(const std::vector<std::string>& flags) { return ended("sentiment", flags); }

const std::string many_updates = "1000000";  // as no test waits for

/// Runs `sentiment` with these flags until the file has so many bytes, and sends it a signal.
Ended stopped(const std::vector<std::string>& flags, const std::filesystem::path& file, std::size_t bytes, int signal) {
  Process process("sentiment", flags);
  becomes_true([&] { return contents(file).size() >= bytes; });
  process.signal(signal);
  return process.end();
}

std::vector<std::string> training(const std::string& data, const std::string& out) {
  return {"--data", data, "--model-dim", "8", "--feed-forward-dim", "8", "--updates", "3", "--out", out};
}

/// The one line of what is refused, after the program's name.
std::string refusal(const std::vector<std::string>& flags) { return refusal_of(sentiment(flags)); }

/// The number behind the last occurrence of `words` in the text; -1 if there is none.
int number_after(const std::string& text, const std::string& words) {
  const std::size_t at = text.rfind(words);
  BOOST_TEST_REQUIRE(at != std::string::npos, text);
  return leading_number<int>(std::string_view(text).substr(at + words.size())).value_or(-1);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(resuming)

BOOST_AUTO_TEST_CASE(a_run_goes_on_from_any_directory) {
  Folder folder;
  write_parts(folder.path);
  {
    Within inside(folder.path);
    succeeded(sentiment(training("./train.tsv", "run")));
  }
  Within elsewhere("/");
  succeeded(sentiment({"--resume", (folder / "run").string()}));
  BOOST_TEST(load_json(folder / "run" / "config.json")["data"] == (folder / "train.tsv").string());
}

BOOST_AUTO_TEST_CASE(a_path_that_a_configuration_cannot_keep_is_refused) {
  Folder folder;
  const std::filesystem::path data = folder / "caf\xe9";
  std::filesystem::create_directory(data);
  write_parts(data);
  const std::string message = refusal(training(data.string(), (folder / "out").string()));
  BOOST_TEST(contains(message, "--data: '" + folder.path.string() + "/caf"), message);
  BOOST_TEST(contains(message, "' is not UTF-8, so config.json cannot keep it"), message);
  BOOST_TEST(!std::filesystem::exists(folder / "out"));
  std::filesystem::rename(data, folder / "café");
  succeeded(sentiment(training((folder / "café").string(), (folder / "out").string())));
}

BOOST_AUTO_TEST_CASE(a_run_does_not_go_on_with_other_data) {
  Folder folder;
  const std::string run = (folder / "run").string();
  write_parts(folder.path);
  auto flags = training((folder / "train.tsv").string(), run);
  flags.insert(flags.end(), {"--seeds", "2"});
  succeeded(sentiment(flags));
  succeeded(sentiment({"--resume", run}));
  const std::string refused =
      "sentiment: {}: the data have changed since the run began, so that it cannot continue: {}\n";
  auto says = [&](const std::string& where, const std::string& what) {
    return fmt::format(fmt::runtime(refused), where, what);
  };
  write(folder / "train.tsv", table(41));
  write(folder / "test.tsv", table(9, 70));
  BOOST_TEST(refusal({"--resume", run}) ==
             says(run, "train had 40 examples and has 41; test had 10 examples and has 9"));
  write_parts(folder.path);
  std::string other = table(10, 50);
  other.replace(other.find("no\n"), 3, "yes\n");
  write(folder / "dev.tsv", other);
  BOOST_TEST(refusal({"--resume", run}) == says(run, "dev has different texts or labels"));
  const std::string part = run + "/global-seed-2";  // a run of its own
  BOOST_TEST(refusal({"--resume", part}) == says(part, "dev has different texts or labels"));
  write_parts(folder.path);
  succeeded(sentiment({"--resume", run}));
  write(folder / "run" / "data.json", "[1]\n");
  BOOST_TEST(refusal({"--resume", run}) == fmt::format("sentiment: {}/data.json: has no part 'train'\n", run));
  write(folder / "run" / "data.json", R"({"train": {"examples": "x"}})");
  BOOST_TEST(
      refusal({"--resume", run}).starts_with(fmt::format("sentiment: {}/data.json: not a file that a run wrote", run)));
}

BOOST_AUTO_TEST_CASE(a_finished_run_goes_on_with_more_updates_as_if_it_had_been_asked_for_them) {
  Folder folder;
  const std::string whole = (folder / "whole").string(), run = (folder / "run").string();
  auto flags = [](const std::string& out, const std::string& updates) {
    return joined(training("generated:train=80,dev=20,test=20", out),
                  {"--updates", updates, "--schedule", "constant(rate=1e-3)", "--evaluate-every", "5",
                   "--checkpoint-every", "5", "--average", "2"});
  };
  auto same = [&](const char* file) {
    BOOST_TEST(contents(folder / "whole" / file) == contents(folder / "run" / file), file);
  };
  succeeded(sentiment(flags(whole, "20")));
  succeeded(sentiment(flags(run, "10")));
  succeeded(sentiment({"--resume", run, "--updates", "20"}));
  for (const char* file : {"best.safetensors", "log.jsonl", "examples.test.jsonl"}) same(file);
  const Json result = load_json(folder / "run" / "result.json");
  BOOST_TEST(result.at("training").at("updates") == 20);
  BOOST_TEST(result.at("goal").at("updates") == 20);
  BOOST_TEST(load_json(folder / "run" / "config.json").at("updates") == 20);
  BOOST_TEST(load_json(folder / "run" / "run.json").size() == 2u);
}

BOOST_AUTO_TEST_CASE(a_finished_run_without_its_checkpoint_is_not_begun_again) {
  Folder folder;
  const std::string run = (folder / "run").string();
  succeeded(sentiment(joined(training("generated:train=80,dev=20,test=20", run), {"--updates", "4"})));
  std::filesystem::remove(folder / "run" / "checkpoint.safetensors");
  const std::string result = contents(folder / "run" / "result.json"),
                    model = contents(folder / "run" / "best.safetensors");
  BOOST_TEST(contains(refusal_of(sentiment({"--resume", run, "--updates", "6"})),
                      "checkpoint.safetensors: the run is finished and its checkpoint is missing"));
  BOOST_TEST(contents(folder / "run" / "result.json") == result);
  BOOST_TEST(contents(folder / "run" / "best.safetensors") == model);
}

BOOST_AUTO_TEST_CASE(an_extension_that_is_refused_leaves_the_result) {
  Folder folder;
  write_parts(folder.path);
  const std::string out = (folder / "out").string(), more = "6";
  succeeded(sentiment(training(folder.path.string(), out)));
  const std::string checkpoint = contents(folder / "out/checkpoint.safetensors"),
                    result = contents(folder / "out/result.json");
  write(folder / "out/checkpoint.safetensors", checkpoint.substr(0, checkpoint.size() - 7));
  BOOST_TEST(contains(refusal({"--resume", out, "--updates", more}), "it was cut short, or is damaged"));
  BOOST_TEST(contents(folder / "out/result.json") == result);
  write(folder / "out/checkpoint.safetensors", checkpoint);
  succeeded(sentiment({"--resume", out, "--updates", more}));
  BOOST_TEST(contents(folder / "out/result.json") != result);
}

BOOST_AUTO_TEST_CASE(an_extension_that_is_stopped_goes_on_too) {
  Folder folder;
  const std::string run = (folder / "run").string();
  write_parts(folder.path);
  const std::vector<std::string> flags =
      joined(training((folder / "train.tsv").string(), run), {"--evaluate-every", "10", "--checkpoint-every", "10"});
  succeeded(sentiment(flags));
  const std::filesystem::path log = folder / "run" / "log.jsonl";
  const std::size_t before = contents(log).size();
  const Ended killed = stopped({"--resume", run, "--updates", many_updates}, log, before + 500, SIGKILL);
  BOOST_TEST(killed.status == -SIGKILL);
  BOOST_TEST(contents(log).size() > before);
  // it has made more than 5 updates, which cannot be taken back
  const int made = number_after(refusal({"--resume", run, "--updates", "5"}), "has made ");
  succeeded(sentiment({"--resume", run, "--updates", std::to_string(made + 10)}));
}

BOOST_AUTO_TEST_CASE(a_comparison_that_is_stopped_says_how_it_continues) {
  Folder folder;
  const std::string run = (folder / "run").string();
  write_parts(folder.path);
  const std::filesystem::path log = folder / "run" / "global-seed-1" / "log.jsonl";
  int made = 0;
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), {SIGTERM, 143}}) {
    const std::vector<std::string> flags =
        joined(training((folder / "train.tsv").string(), run),
               {"--compare", "global; gaussian", "--updates", many_updates, "--checkpoint-every", many_updates});
    const Ended ended = stopped(std::filesystem::exists(run) ? std::vector<std::string>{"--resume", run} : flags, log,
                                contents(log).size() + 500, signal);
    BOOST_TEST(ended.status == status);
    BOOST_TEST(contains(ended.err, "sentiment: stopped after update "), ended.err);
    BOOST_TEST(contains(ended.err, "; --resume " + run + " continues\n"), ended.err);
    made = number_after(ended.err, "stopped after update ");
    BOOST_TEST(std::filesystem::exists(folder / "run" / "global-seed-1" / "checkpoint.safetensors"));
  }
  const Ended ended = succeeded(sentiment({"--resume", run, "--updates", std::to_string(made)}));
  for (const char* row : {"\nglobal ", "\ngaussian "}) BOOST_TEST(contains(ended.out, row), ended.out);
}

BOOST_AUTO_TEST_CASE(what_may_change_when_a_run_goes_on_is_remembered) {
  Folder folder;
  const std::string run = (folder / "run").string();
  write_parts(folder.path);
  succeeded(sentiment(training((folder / "train.tsv").string(), run)));
  succeeded(sentiment({"--resume", run, "--checkpoint-every", "7", "--evaluate-every", "2"}));
  auto remembered = [&](const char* key) { return load_json(folder / "run" / "config.json").at(key); };
  BOOST_TEST(remembered("checkpoint-every") == 7);
  succeeded(sentiment({"--resume", run}));
  BOOST_TEST(remembered("checkpoint-every") == 7);
  BOOST_TEST(remembered("evaluate-every") == 2);
  BOOST_TEST(refusal({"--resume", run, "--clip", "2"}) ==
             fmt::format("sentiment: {}/config.json: another configuration: clip was 1.0 and is 2.0\n", run));
  BOOST_TEST(remembered("clip") == 1.0);
}

BOOST_AUTO_TEST_CASE(a_text_that_fits_no_batch_is_refused) {
  Folder folder;
  write_parts(folder.path);
  write(folder / "dev.tsv", table(9, 50) + "word1 is a sentence of nine words, not four\tyes\n");
  auto flags = training((folder / "train.tsv").string(), (folder / "run").string());
  flags.insert(flags.end(), {"--batch-tokens", "8"});
  BOOST_TEST(refusal(flags) ==
             "sentiment: --batch-tokens 8: the longest text has 9 tokens; raise --batch-tokens, or cut texts with "
             "--max-length\n");
  BOOST_TEST(!std::filesystem::exists(folder / "run"));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_labelled_is_said_with_its_line_behind_the_labels_before_it) {
  Folder folder;
  write_parts(folder.path);
  const std::string run = (folder / "run").string(), texts = (folder / "new.txt").string();
  succeeded(sentiment(training((folder / "train.tsv").string(), run)));
  std::string lines;
  for (int k = 1; k < 1500; ++k) lines += "word1 is number\n";
  auto labels_before = [&](const std::string& line, const std::string& error) {
    write(texts, lines + line + "\nword2\n");
    const Ended ended = sentiment({"--model", run, "--label", texts, "--batch-tokens", "16"});
    BOOST_TEST(ended.status == 2);
    BOOST_TEST(std::ranges::count(ended.out, '\n') == 1499);
    BOOST_TEST(ended.err == fmt::format("sentiment: {}:1500: {}\n", texts, error));
  };
  std::string many;
  for (int k = 0; k < 17; ++k) many += "is ";
  labels_before(many, "17 tokens, --batch-tokens is 16; raise it, or set --max-length to cut longer texts");
  labels_before("caf\xe9", "byte 4 is 0xe9: not valid UTF-8 (another encoding? try iconv -t UTF-8)");
  // cut, the bytes are still no text
  refusal_of(sentiment({"--model", run, "--label", texts, "--batch-tokens", "16", "--max-length", "16"}));
}

BOOST_AUTO_TEST_CASE(a_model_that_the_machine_cannot_hold_is_refused_before_anything_is_made) {
  Folder folder;
  auto refused = [&](const std::vector<std::string>& sizes) {
    auto flags = training("generated", (folder / "run").string());
    flags.insert(flags.end(), sizes.begin(), sizes.end());
    std::string message = refusal(flags);
    BOOST_TEST(!std::filesystem::exists(folder / "run"));
    return message;
  };
  std::string message = refused({"--model-dim", "65536", "--feed-forward-dim", "262144", "--layers", "1000"});
  BOOST_TEST(
      message.starts_with("sentiment: --model-dim 65536, --feed-forward-dim 262144, --layers 1000: 51539608 million "
                          "parameters at least, with their gradients and Adam's state, take 768000.0 GiB; this machine "
                          "has "),
      message);
  message = refused({"--model-dim", "65536", "--layers", "1000", "--heads", "1024", "--head-dim", "8192"});
  BOOST_TEST(message.starts_with("sentiment: --model-dim 65536, --heads 1024, --head-dim 8192, "), message);
  BOOST_TEST(refused({"--model-dim", "1e12"}) == "sentiment: --model-dim: 1000000000000 is outside [1, 65536]\n");
  BOOST_TEST(refused({"--batch-tokens", "1e18"}) == "sentiment: --batch-tokens: 1e+18 is outside [1, 1000000000]\n");
}

BOOST_AUTO_TEST_CASE(a_resume_that_is_refused_leaves_the_run_as_it_was) {
  Folder folder;
  write_parts(folder.path);
  const std::filesystem::path run = folder / "run";
  succeeded(sentiment(training((folder / "train.tsv").string(), run.string())));
  const std::string configuration = contents(run / "config.json"), starts = contents(run / "run.json");
  const auto is_refused = [&](const std::vector<std::string>& flags, const std::string& expected) {
    const std::string message = refusal(joined({"--resume", run.string()}, flags));
    BOOST_TEST(contains(message, expected), message);
    BOOST_TEST(contents(run / "config.json") == configuration, expected);
    BOOST_TEST(contents(run / "run.json") == starts, expected);
  };
  is_refused({"--updates", "2"}, "--updates 2: global seed 1 has made 3 updates already");
  write(folder / "train.tsv", table(30));
  is_refused({"--updates", "5"}, "the data have changed");
  write_parts(folder.path);
  const std::string checkpoint = contents(run / "checkpoint.safetensors");
  write(run / "checkpoint.safetensors", checkpoint.substr(0, checkpoint.size() / 2));
  is_refused({"--updates", "5"}, "checkpoint.safetensors");
  write(run / "checkpoint.safetensors", checkpoint);
  succeeded(sentiment({"--resume", run.string(), "--updates", "5"}));
  BOOST_TEST(contains(contents(run / "config.json"), "\"updates\": 5"));
  BOOST_TEST(contents(run / "run.json") != starts);
}

BOOST_AUTO_TEST_CASE(a_training_that_cannot_begin_leaves_no_directory) {
  Folder folder;
  write_parts(folder.path);
  const std::string data = (folder / "train.tsv").string(), out = (folder / "out").string();
  succeeded(sentiment(training(data, (folder / "other").string())));
  const auto is_refused = [&](const std::vector<std::string>& flags, const std::string& expected) {
    const std::string message = refusal(joined(training(data, out), flags));
    BOOST_TEST(contains(message, expected), message);
    BOOST_TEST(!std::filesystem::exists(out), expected);
  };
  is_refused({"--init", "nowhere"}, "sentiment: --init nowhere: there is no such file or directory\n");
  is_refused({"--init", (folder / "other" / "config.json").string()}, "config.json");
  is_refused({"--init", (folder / "other").string(), "--model-dim", "16"}, "best.safetensors");
  is_refused({"--attention", "man"}, "sentiment: --attention: 'man' needs a mask with each call, which");
  is_refused({"--attention", "window(pointers=given)"},
             "sentiment: --attention: 'window(pointers=given)' needs a left_pointer with each call, which");
  is_refused({"--attention", "linear + gaussian"}, "gaussian beside linear: ");
  is_refused({"--compare", "global; gaussian + man"}, "sentiment: --compare: 'gaussian + man': --attention: ");
  is_refused({"--compare", "global; b: --init nowhere"}, "--init nowhere: there is no such file or directory");
  std::string grid;
  for (int k = 0; k < 14; ++k) grid += "{1,2,3}";
  is_refused({"--compare", grid + ": --layers 1"}, "a grid of more than 1000 rows");
}

BOOST_AUTO_TEST_CASE(no_command_replaces_the_files_of_a_run) {
  Folder folder;
  write_parts(folder.path);
  const std::filesystem::path run = folder / "run";
  succeeded(sentiment(training((folder / "train.tsv").string(), run.string())));
  for (const char* name : {"result.json", "config.json", "best.safetensors", "vocabulary.txt", "run.json"}) {
    const std::string file = (run / name).string(), before = contents(run / name);
    BOOST_TEST(contains(refusal_of(ended("report", {run.string(), "--format", "json", "--out", file})),
                        "--out " + file + ": is a file of the run in " + run.string()));
    BOOST_TEST(contents(run / name) == before, name);
  }
  BOOST_TEST(contains(refusal_of(ended("analyze", {"attention", run.string(), "--out", (run / "run.json").string()})),
                      "is a file of the run in"));
  BOOST_TEST(
      contains(refusal_of(ended("attend", {"--out", (run / "best.safetensors").string()})), "is a file of the run in"));
  succeeded(ended("report", {run.string(), "--out", (run / "table.json").string()}));
  succeeded(ended("report", {run.string(), "--out", (run / "table.json").string()}));
}

BOOST_AUTO_TEST_CASE(pipes_in_place_of_files_of_a_run_are_refused) {
  Folder folder;
  write_parts(folder.path);
  const std::filesystem::path run = folder / "run";
  succeeded(sentiment(training((folder / "train.tsv").string(), run.string())));
  for (const char* name : {"result.json", "config.json", "log.jsonl"}) {
    const std::string before = contents(run / name);
    std::filesystem::remove(run / name);
    BOOST_TEST_REQUIRE(::mkfifo((run / name).c_str(), 0600) == 0);
    const std::string expected = std::string(name) + ": is a pipe or device, expected a file";
    BOOST_TEST(contains(refusal({"--resume", run.string(), "--updates", "5"}), expected), name);
    const Ended reported = ended("report", {run.string()});  // reads no config.json
    BOOST_TEST(contains(reported.err, expected) == (std::string(name) != "config.json"), reported.err);
    std::filesystem::remove(run / name);
    write(run / name, before);
  }
  ::mkfifo((folder / "options.json").c_str(), 0600);
  BOOST_TEST(contains(refusal({"--config", (folder / "options.json").string()}), "is a pipe or device"));
}

BOOST_AUTO_TEST_SUITE_END()
