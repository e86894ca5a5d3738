#include "experiments/support/program/program.h"

#include <fstream>
#include <limits>
#include <new>
#include <regex>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include "experiments/support/program/files.h"
#include "experiments/support/program/interrupt.h"
#include "experiments/support/program/json_file.h"
#include "experiments/support/text/utf8.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

enum class Unit { words, subwords, characters };

struct Settings {
  int layers = 2;
  std::int64_t steps = 1000;
  std::uint64_t seed = 1;
  float dropout = 0.1f;
  double learning_rate = 1e-3;
  bool lowercase = false, shuffle = true;
  std::string attention = "global";
  std::filesystem::path data;
  Unit unit = Unit::words;
  std::optional<double> clip;
  std::vector<int> sizes{1, 2};
  std::vector<std::string> train;
  std::filesystem::path out;

  void add_to(Cli& cli) {
    cli.group("Model");
    cli.option("--layers", layers, "encoder layers").range(1, 100);
    cli.option("--attention", attention, "attention method").also("--encoder-attention");
    cli.option("--dropout", dropout, "probability of dropping an activation").range(0, 1);
    cli.group("Training");
    cli.option("--steps", steps, "optimizer steps").at_least(0);
    cli.option("--seed", seed, "of all random numbers");
    cli.option("--learning-rate", learning_rate, "peak learning rate").positive();
    cli.rare("--clip", clip, "largest norm of the gradient");
    cli.option("--shuffle", shuffle, "new order each epoch");
    cli.group("Data");
    cli.option("--lowercase", lowercase, "fold case");
    cli.option("--data", data, "where the files are");
    cli.choice("--unit", unit, {{"words", Unit::words}, {"subwords", Unit::subwords}}, "what a token is");
    cli.option("--sizes", sizes, "numbers");
    cli.option("--train", train, "files");
    cli.option("--out", out, "directory").unsaved();
  }
};

Settings parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "test");
  Settings settings;
  Cli cli("test", int(arguments.size()), arguments.data());
  cli.add(settings);
  cli.parse();
  return settings;
}

std::string refusal(std::vector<const char*> arguments) {
  return message_of([&] { parsed(arguments); });
}

/// Runs a program in a child process with both outputs in files.
struct Outcome {
  int status;
  std::string out, err;
};
Outcome outcome_of(std::vector<const char*> arguments, const std::function<void(Cli&)>& body) {
  Folder folder;
  arguments.insert(arguments.begin(), "test");
  int status = status_in_child([&] {
    if (!std::freopen((folder / "out").c_str(), "w", stdout)) return 99;
    if (!std::freopen((folder / "err").c_str(), "w", stderr)) return 99;
    int result = run("test", int(arguments.size()), arguments.data(), body);
    std::fflush(stderr);
    return result;
  });
  return {status, contents(folder / "out"), contents(folder / "err")};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(program)

BOOST_AUTO_TEST_CASE(flags_set_variables_and_the_rest_keeps_its_defaults) {
  auto s = parsed({"--layers",  "3",        "--steps=1e5", "--seed",       "18446744073709551615",
                   "--dropout", ".25",      "--lowercase", "--no-shuffle", "--attention=window(use=additive)",
                   "--unit",    "subwords", "--clip",      "inf",          "--sizes",
                   "4,5",       "--sizes",  "6",           "--train",      "a,b",
                   "--train",   "c"});
  BOOST_TEST(s.layers == 3);
  BOOST_TEST(s.steps == 100000);
  BOOST_TEST(s.seed == std::numeric_limits<std::uint64_t>::max());
  BOOST_TEST(s.dropout == 0.25f);
  BOOST_TEST(s.learning_rate == 1e-3);
  BOOST_TEST(s.lowercase);
  BOOST_TEST(!s.shuffle);
  BOOST_TEST(s.attention == "window(use=additive)");
  BOOST_TEST((s.unit == Unit::subwords));
  BOOST_TEST((s.clip == std::numeric_limits<double>::infinity()));
  BOOST_TEST((s.sizes == std::vector<int>{4, 5, 6}));
  BOOST_TEST((s.train == std::vector<std::string>{"a,b", "c"}));  // texts may have commas
  BOOST_TEST(parsed({"--layers", "3", "--layers", "4"}).layers == 4);
  BOOST_TEST(parsed({"--attention", "global", "--encoder-attention", "gaussian"}).attention == "gaussian");
  BOOST_TEST(parsed({"--lowercase=false"}).lowercase == false);
  BOOST_TEST(parsed({"--data="}).data.empty());
  BOOST_TEST((parsed({}).sizes == std::vector<int>{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_machine_is_crowded_if_others_run_on_the_processors_that_the_threads_need) {
  BOOST_TEST(!others_take_processors("0.00 0.01 0.05 1/90 17\n", 2, 2));  // this program runs alone
  BOOST_TEST(others_take_processors("0.00 0.01 0.05 2/90 17\n", 2, 2));
  BOOST_TEST(!others_take_processors("9.00 9.01 9.05 2/90 17\n", 1, 2));
  BOOST_TEST(others_take_processors("9.00 9.01 9.05 31/90 17\n", 35, 64));
  BOOST_TEST(!others_take_processors("9.00 9.01 9.05 31/90 17\n", 34, 64));
  for (const char* unknown : {"", "0.00 0.01", "a b c d e"}) BOOST_TEST(!others_take_processors(unknown, 2, 2));
}

BOOST_AUTO_TEST_CASE(wrong_flags_and_values_are_named) {
  const std::string huge(400, '9'), half = huge.substr(0, 40);
  for (const auto& [arguments, message] : std::vector<std::pair<std::vector<const char*>, std::string>>{
           {{"--layer", "3"}, "--layer: no such flag; did you mean '--layers'?"},
           {{"-layers", "3"}, "-layers: no such flag; did you mean '--layers'?"},
           {{"--learning_rate=3"}, "--learning_rate: no such flag; did you mean '--learning-rate'?"},
           {{"--encoder-atention=a"}, "--encoder-atention: no such flag; did you mean '--encoder-attention'?"},
           {{"--frobnicate"}, "--frobnicate: no such flag"},
           {{"layers=3"}, "'layers=3': unexpected argument; did you mean '--layers=3'?"},
           {{"gaussian"}, "'gaussian': unexpected argument; every value follows its flag (--help lists them)"},
           {{"--layers"}, "--layers: a value is missing (N)"},
           {{"--attention", "--layers", "3"},
            "--attention: a value is missing (TEXT) before --layers; if --layers is the value: --attention=--layers"},
           {{"--layers", "two"}, "--layers: 'two' is not a whole number"},
           {{"--layers", "2.5"}, "--layers: '2.5' is not a whole number"},
           {{"--layers", "3e9"}, "--layers: 3e9 is too large, the most is 2147483647"},
           {{"--layers", huge.c_str()}, "--layers: " + half + " ... " + half + " is too large, the most is 2147483647"},
           {{"--seed", "99999999999999999999"},
            "--seed: 99999999999999999999 is too large, the most is 18446744073709551615"},
           {{"--layers", ""}, "--layers: '' is not a whole number"},
           {{"--seed", "-1"}, "--seed: -1 is too small, the least is 0"},
           {{"--learning-rate", "1e-3x"}, "--learning-rate: '1e-3x' is not a number"},
           {{"--learning-rate", "nan"}, "--learning-rate: 'nan' is not a number"},
           {{"--learning-rate", "-1"}, "--learning-rate: -1 must be above 0"},
           {{"--dropout", "1.5"}, "--dropout: 1.5 is outside [0, 1]"},
           {{"--steps", "-3"}, "--steps: -3 is too small, the least is 0"},
           {{"--unit", "subword"}, "--unit: 'subword' is none of words, subwords; did you mean 'subwords'?"},
           {{"--lowercase=maybe"}, "--lowercase: 'maybe' is not true or false"},
           {{"--no-lowercase=true"}, "--no-lowercase: takes no value"}})
    BOOST_TEST(refusal(arguments) == message);
  BOOST_TEST(message_of([] { with_flag("--schedule", [] { fail("no schedule 'cosin'"); }); }) ==
             "--schedule: no schedule 'cosin'");
}

BOOST_AUTO_TEST_CASE(positional_arguments_are_taken_in_order) {
  auto parse = [](std::vector<const char*> arguments, std::string& model, std::vector<std::string>& inputs) {
    arguments.insert(arguments.begin(), "evaluate");
    Cli cli("evaluate", int(arguments.size()), arguments.data());
    cli.option("MODEL", model, "a run's directory").required();
    cli.option("INPUT", inputs, "files");
    int threads = 1;
    cli.option("--threads", threads, "processor threads");
    cli.parse();
  };
  std::string model;
  std::vector<std::string> inputs;
  parse({"m", "--threads", "2", "-", "--", "--odd"}, model, inputs);
  BOOST_TEST(model == "m");
  BOOST_TEST((inputs == std::vector<std::string>{"-", "--odd"}));
  BOOST_TEST(message_of([&] { parse({}, model, inputs); }) == "MODEL is required: a run's directory");
}

BOOST_AUTO_TEST_CASE(a_resolved_configuration_read_back_gives_the_same_values) {
  Folder folder;
  Settings first;
  std::vector<const char*> arguments{"test",
                                     "--layers=7",
                                     "--dropout=0.3",
                                     "--lowercase",
                                     "--clip=inf",
                                     "--unit=subwords",
                                     "--out=elsewhere",
                                     "--no-shuffle",
                                     "--train=été \"x\"",
                                     "--seed=18446744073709551615"};
  Cli cli("test", int(arguments.size()), arguments.data());
  cli.add(first);
  cli.parse();
  save_json(folder / "config.json", cli.configuration());
  BOOST_TEST(cli.configuration().dump().starts_with(
      R"({"program":"test","layers":7,"attention":"global","dropout":0.3,"steps":1000,)"));
  BOOST_TEST(!cli.configuration().contains("out"));
  BOOST_TEST(!cli.configuration().contains("config"));

  std::string file = (folder / "config.json").string(), directory = folder.path.string();
  for (const auto& source : {file, directory}) {
    Settings second;
    std::vector<const char*> again{"test", "--steps", "5", "--config", source.c_str(), "--layers", "8"};
    Cli other("test", int(again.size()), again.data());
    other.add(second);
    other.parse();
    BOOST_TEST(second.layers == 8);  // a flag wins over the file
    BOOST_TEST(second.steps == 5);
    auto expected = cli.configuration();
    expected["layers"] = 8;
    expected["steps"] = 5;
    BOOST_TEST(other.configuration().dump() == expected.dump());
    BOOST_TEST(other.given("--lowercase"));
    BOOST_TEST(!other.given("--out"));
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_configuration_file_is_named_with_its_key) {
  Folder folder;
  std::string path = (folder / "c.json").string();
  auto refusal_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    auto message = refusal({"--config", path.c_str()});
    BOOST_TEST(message.starts_with(path + ": "));
    return message.substr(std::min(message.size(), path.size() + 2));
  };
  for (const auto& [text, message] :
       {std::pair(R"({"layer": 3})", "there is no option 'layer'; did you mean 'layers'?"),
        {R"({"layers": "3"})", "layers: expected a whole number, found \"3\""},
        {R"({"layers": 2.5})", "layers: '2.5' is not a whole number"},
        {R"({"layers": null})", "layers: expected a whole number, found null"},
        {R"({"layers": 0})", "layers: 0 is outside [1, 100]"},
        {R"({"lowercase": 1})", "lowercase: expected true or false, found 1"},
        {R"({"train": "a"})", "train: expected a list, found \"a\""},
        {R"({"unit": "word"})", "unit: 'word' is none of words, subwords; did you mean 'words'?"},
        {R"({"config": "x"})", "there is no option 'config'"},
        {R"({"program": "translate"})", "is a configuration of \"translate\", not of 'test'"},
        {"[1]", "expected an object with the options' values, found array"}})
    BOOST_TEST(refusal_of(text) == message);
  BOOST_TEST(contains(refusal_of("{\n \"layers\": }"), "not JSON, or cut short, at line 2, column 12"));
  BOOST_TEST(contains(refusal_of("{\"layers\": 2, \"layers\": 3}"), "the key 'layers' occurs twice in one object"));
  const std::string deep = "{\"layers\": " + std::string(200'000, '[') + std::string(200'000, ']') + "}";
  BOOST_TEST(contains(refusal_of(deep), "lists and objects lie in each other more than 100 deep"));
  BOOST_CHECK_THROW(parse_json("{\"a\": {\"b\": 1, \"b\": 2}}"), Json::exception);
  BOOST_TEST(refusal({"--config", "/no/such.json"}) == "--config /no/such.json: there is no such file or directory");
  std::filesystem::remove(path);
  BOOST_TEST(contains(refusal({"--config", folder.path.c_str()}), "not the directory of a run"));
}

BOOST_AUTO_TEST_CASE(help_shows_groups_defaults_and_units) {
  auto help = [](const char* flag) {
    return outcome_of({flag}, [](Cli& cli) {
      Settings settings;
      cli.describe("tests the flags");
      cli.add(settings);
      cli.parse();
      fmt::print("not reached\n");
    });
  };
  auto result = help("--help-all");
  BOOST_TEST(result.status == 0);
  BOOST_TEST(result.err == "");
  for (const char* part :
       {"test: tests the flags\n", "usage: test [flags]\n", "\nModel:\n", "\nTraining:\n", "  --layers N ",
        "encoder layers (1 to 100; default: 2)\n", "attention method (also --encoder-attention;", "default: 0.001)",
        "--[no-]shuffle ", "new order each epoch (default: yes)\n", "--unit words|subwords",
        "(may be repeated; default: 1,2)"}) {
    BOOST_TEST(contains(result.out, part), part << " is missing in\n" << result.out);
  }
  BOOST_TEST(!contains(result.out, "not reached"));
  // --help has descriptions up to their first semicolon and defaults, but no ranges.
  const std::string brief = help("--help").out;
  BOOST_TEST(contains(brief, "encoder layers (default: 2)\n"), brief);
  for (const char* part : {"  --help ", "  --help-all  ", "3 more flags\n"}) BOOST_TEST(contains(brief, part), brief);
  BOOST_TEST((!contains(brief, "--clip") && contains(result.out, "--clip X ")), brief);  // a rare one
  BOOST_TEST(!contains(result.out, "more flags"), result.out);
}

BOOST_AUTO_TEST_CASE(every_program_shows_its_flags) {
  for (const std::string program : {"agreement", "language_model", "score", "sentiment", "summarize", "translate"}) {
    const Ended some = succeeded(ended(program, {"--help"})), all = succeeded(ended(program, {"--help-all"}));
    BOOST_TEST(some.err == "");
    BOOST_TEST(some.out.starts_with(program + ": "), some.out);
    for (const std::string& text : {some.out, all.out}) {
      BOOST_TEST(contains(text, "usage: " + program));
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);)
        BOOST_TEST((display_width(line) <= 130u && !line.ends_with(' ')), line);
    }
    BOOST_TEST(some.out.size() < all.out.size());
    BOOST_TEST(contains(all.out, "--config "));
    if (program == "score") continue;
    for (const char* flag : {"--updates", "--attention", "--compare", "--seeds", "--resume", "--out"})
      BOOST_TEST(contains(some.out, std::string(flag) + " "), program << flag);
    BOOST_TEST(contains(all.out, "--search "), program);
    BOOST_TEST(!contains(some.out, "--search "), program);
  }
  for (const char* program : {"agreement", "language_model", "sentiment", "summarize", "tagging", "translate"})
    BOOST_TEST(contains(succeeded(ended(program, {"--list-attentions"})).out, "adaptive_span"), program);
  for (const char* command : {"step", "decode"}) {
    const Ended list = succeeded(ended("benchmark", {command, "--list-attentions"}));
    BOOST_TEST((list.out.starts_with("Methods are") && !contains(list.out, "/s")), command << list.out.substr(0, 200));
  }
  const std::string presets = std::regex_replace(ended("translate", {"--help-all"}).out, std::regex("\n +"), "\n");
  for (const char* preset : {"\nmini: ", "\nsmoke: ", "\nshu-word: "}) BOOST_TEST(contains(presets, preset), presets);
}

BOOST_AUTO_TEST_CASE(analyze_names_what_is_neither_a_run_nor_a_command) {
  BOOST_TEST(refusal_of(ended("analyze", {"nope"})) ==
             "analyze: 'nope' is neither the directory of a run nor a command; analyze --help lists the commands\n");
  BOOST_TEST(contains(refusal_of(ended("analyze", {"widhts"})), "; did you mean 'widths'?"));
  const Ended help = succeeded(ended("analyze", {"--help-all"}));
  BOOST_TEST(contains(help.out, "\n  widths "), help.out);
}

BOOST_AUTO_TEST_CASE(a_program_that_was_moved_reads_the_presets_beside_it) {
  Folder folder;
  namespace fs = std::filesystem;
  fs::create_directories(folder / "moved/presets");
  fs::copy(FOVEA_PROGRAMS "/translate", folder / "moved/translate");
  fs::copy(FOVEA_PROGRAMS "/../libfovea.so.0", folder / "libfovea.so.0");
  std::ofstream(folder / "moved/presets/mine.json") << R"({"about": "mine", "layers": 7, "model-dim": 24})";
  const std::string command = (folder / "moved/translate").string() +
                              " --preset mine --parameters --vocabulary-size 50 >" + (folder / "out").string();
  BOOST_TEST(std::system(command.c_str()) == 0);
  BOOST_TEST(contains(contents(folder / "out"), "encoder.6"), contents(folder / "out"));
}

/// The flags of --help-all that take a value: "--layers", ...
std::vector<std::string> flags_with_values(const std::string& program) {
  std::vector<std::string> flags;
  std::istringstream lines(ended(program, {"--help-all"}).out);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  --") && !line.starts_with("  --[") && line.size() > 5)
      flags.push_back(line.substr(2, line.find_first_of(" =", 2) - 2));
  std::erase_if(flags, [](const std::string& flag) { return flag.starts_with("--help"); });
  return flags;
}

// Whatever a flag is given, and whatever a file has, the complaint fits a few lines of a terminal.
BOOST_AUTO_TEST_CASE(messages_about_long_values_are_short) {
  constexpr std::size_t longest = 520;
  Folder folder;
  const std::string word(3000, 'x'), call = "gaussian(" + std::string(3000, 'y') + "=1)",
                                     sums = "global" + std::string(3000, '+'),
                                     many = "[" + std::string(3000, '9') + "]";
  std::ofstream(folder / "long.json") << "{\"" << word << "\": \"" << word << "\"}";
  std::ofstream(folder / "value.json") << "{\"layers\": \"" << word << "\"}";
  auto check = [&](const std::string& program, const std::vector<std::string>& arguments) {
    const Ended one = ended(program, arguments);
    if (one.status == 0) return;  // any text is good for this flag
    std::istringstream lines(one.err);
    for (std::string line; std::getline(lines, line);)
      BOOST_TEST(line.size() <= longest, program << " " << arguments[0] << ": " << line.size() << " bytes: " << line);
    BOOST_TEST(one.status == 2, program << " " << arguments[0] << ": " << one.err.substr(0, 1000));
  };
  const std::string no_data = "--data=generated:train=" + word, out = "--out=" + (folder / "out").string();
  for (const std::string program : {"sentiment", "translate"})
    for (const std::string& flag : flags_with_values(program)) check(program, {flag + "=" + word, no_data, out});
  for (const std::string program : {"attend", "score"})
    for (const std::string& flag : flags_with_values(program)) check(program, {flag + "=" + word});
  for (const std::string program : {"agreement", "language_model", "sentiment", "summarize", "tagging", "translate"}) {
    for (const char* file : {"long.json", "value.json"}) check(program, {"--config", (folder / file).string(), out});
    for (const std::string& sum : {word, call, sums})
      for (const char* flag : {"--attention=", "--compare=", "--schedule="}) check(program, {flag + sum, no_data, out});
    check(program, {"--schedule=noam(" + many + ")", no_data, out});
    check(program, {"--layers", "--" + word});
  }
  for (const char* program : {"agreement", "analyze", "attend", "benchmark", "generate", "language_model", "report",
                              "reproduce", "score", "sentiment", "summarize", "tagging", "translate"}) {
    check(program, {"--" + word});
    check(program, {word, no_data});
  }
  for (const std::string& method : {word, call, sums}) check("attend", {"--describe", method});
  // with the place of the fault
  const std::string fault = ended("attend", {"--describe", sums}).err;
  BOOST_TEST(contains(fault, "(column 8)"), fault);
}

BOOST_AUTO_TEST_CASE(a_row_overrides_what_the_command_line_says_where_rows_may_differ) {
  struct Row {
    int layers = 2;
    std::string data = "generated", attention = "global";
    std::vector<std::string> metrics{"bleu"};
    void add_to(Cli& cli) {
      cli.option("--data", data, "where the files are");
      cli.comparable(true);
      cli.option("--layers", layers, "encoder layers").range(1, 9);
      cli.option("--attention", attention, "attention method");
      cli.option("--metrics", metrics, "scores");
      cli.comparable(false);
    }
  };
  const char* arguments[] = {"test", "--layers", "3", "--data", "x", "--metrics", "ribes", "--metrics", "rouge"};
  Row of_line;
  Cli line("test", int(std::size(arguments)), arguments);
  line.add(of_line);
  line.parse();
  Json configuration;
  auto row_of = [&](const std::vector<std::string>& flags) {
    Row row;
    Cli cli(line, flags);
    cli.add(row);
    cli.parse();
    configuration = cli.configuration();
    return row;
  };
  const Row same = row_of({}), other = row_of({"--layers=5", "--attention", "gaussian", "--metrics=bleu"});
  BOOST_TEST(same.layers == 3);
  BOOST_TEST(same.metrics == (std::vector<std::string>{"ribes", "rouge"}), boost::test_tools::per_element());
  BOOST_TEST(other.layers == 5);
  BOOST_TEST(other.data == "x");
  BOOST_TEST(other.attention == "gaussian");
  BOOST_TEST(other.metrics == std::vector<std::string>{"bleu"}, boost::test_tools::per_element());
  BOOST_TEST(configuration.at("layers") == 5);
  BOOST_TEST(configuration.at("data") == "x");
  BOOST_TEST(of_line.layers == 3);
  auto refusal_of = [&](const std::vector<std::string>& flags) { return message_of([&] { row_of(flags); }); };
  BOOST_TEST(refusal_of({"--data=y"}) == "--data: cannot differ between the rows of a comparison");
  BOOST_TEST(refusal_of({"--config=y"}) == "--config: cannot differ between the rows of a comparison");
  BOOST_TEST(refusal_of({"--layer=5"}) == "--layer: no such flag; did you mean '--layers'?");
  BOOST_TEST(refusal_of({"--layers=10"}) == "--layers: 10 is outside [1, 9]");
}

BOOST_AUTO_TEST_CASE(the_command_can_be_pasted_into_a_shell) {
  const char* arguments[] = {"/some/where/test", "--data", "a b", "--out=it's", "--empty", "", "$HOME", "plain-1.5,x"};
  const std::string command = Cli("test", int(std::size(arguments)), arguments).command();
  BOOST_TEST(command == R"(test --data 'a b' '--out=it'\''s' --empty '' '$HOME' plain-1.5,x)");
  Folder folder;
  std::ofstream(folder / "test") << "for one in \"$@\"; do printf '%s\\n' \"$one\"; done\n";
  const std::string line = "sh " + (folder / "test").string() + command.substr(4) + " >" + (folder / "out").string();
  BOOST_TEST(std::system(line.c_str()) == 0);
  BOOST_TEST(contents(folder / "out") == "--data\na b\n--out=it's\n--empty\n\n$HOME\nplain-1.5,x\n");
}

BOOST_AUTO_TEST_CASE(exit_statuses_say_who_can_put_it_right) {
  using Action = std::function<void()>;
  for (const auto& [action, status, message] : std::vector<std::tuple<Action, int, std::string>>{
           {[] { fmt::print("ok\n"); }, 0, ""},
           {[] { fail("train.tsv:3: 3 columns,\nexpected 2"); }, 2, "test: train.tsv:3: 3 columns, expected 2\n"},
           {[] { throw std::bad_alloc(); }, 2, "test: out of memory: a smaller batch, model or length needs less\n"},
           {[] { std::filesystem::create_directory("/no/such/place"); }, 2,
            "test: /no/such/place: No such file or directory\n"},
           {[] { throw std::out_of_range("vector"); }, 1, "test: internal error: vector\n"},
           {[] { throw Interrupted("stopped; go on with --resume a1"); }, 130,
            "test: stopped; go on with --resume a1\n"}}) {
    const Outcome end = outcome_of({}, [&action = action](Cli&) { action(); });
    BOOST_TEST(end.status == status);
    BOOST_TEST(end.err == message);
  }
}

BOOST_AUTO_TEST_CASE(a_reader_that_leaves_and_a_full_disk_are_noticed) {
  Folder folder;
  auto status_writing_to = [&](const std::function<void()>& redirect) {
    return status_in_child([&] {
      redirect();
      if (!std::freopen((folder / "err").c_str(), "w", stderr)) return 99;
      const char* arguments[] = {"test"};
      int status = run("test", 1, arguments, [](Cli&) {
        for (int i = 0; i < 100000; ++i) fmt::print("label {}\n", i);
      });
      std::fflush(stderr);
      return status;
    });
  };
  int closed = status_writing_to([] {
    int ends[2];
    if (::pipe(ends) != 0) ::_exit(98);
    ::close(ends[0]);
    ::dup2(ends[1], STDOUT_FILENO);
  });
  BOOST_TEST(closed == 141);
  BOOST_TEST(contents(folder / "err") == "");
  int full = status_writing_to([] {
    if (!std::freopen("/dev/full", "w", stdout)) ::_exit(98);
  });
  BOOST_TEST(full == 2);
  BOOST_TEST(contains(contents(folder / "err"), "No space left on device"));
  int limited = status_writing_to([&] {
    rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (!std::freopen((folder / "out").c_str(), "w", stdout)) ::_exit(98);
  });
  BOOST_TEST(limited == 2);
  BOOST_TEST(contains(contents(folder / "err"), "File too large"));
}

BOOST_AUTO_TEST_CASE(only_a_file_that_can_be_read_has_a_checksum) {
  const Folder folder;
  BOOST_TEST(file_checksum(folder.write("digits", "123456789")) == "cbf43926");
  for (const std::filesystem::path& path : {folder.path, folder / "none"})
    BOOST_TEST(message_of([&] { file_checksum(path); }) == path.string() + ": cannot be read");
}

BOOST_AUTO_TEST_CASE(commands_have_their_own_flags) {
  int size = 0;
  std::vector<Command> commands{{"gemm", "matrix products",
                                 [&](Cli& cli) {
                                   cli.option("--size", size, "rows");
                                   cli.parse();
                                 }},
                                {"step", "training steps", [](Cli& cli) { cli.parse(); }}};
  auto status = [&](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "benchmark");
    return run("benchmark", int(arguments.size()), arguments.data(), commands);
  };
  BOOST_TEST(status({"gemm", "--size", "17"}) == 0);
  BOOST_TEST(size == 17);
  for (auto wrong : {std::vector<const char*>{"step", "--size", "17"}, {"gem"}, {}}) {
    int result = status_in_child([&] {
      if (!std::freopen("/dev/null", "w", stderr)) return 99;
      return status(wrong);
    });
    BOOST_TEST(result == 2);
  }
}

BOOST_AUTO_TEST_CASE(steps_of_several_processes_are_timed_for_one_model) {
  BOOST_TEST(refusal_of(ended("benchmark", {"step", "--processes", "2", "--compare", "global; gaussian"})) ==
             "benchmark step: --processes 2: times one model; leave out --compare and --launches\n");
}

BOOST_AUTO_TEST_SUITE_END()
