// The programs with --device cuda: they train, test and decode as on the CPU.
#include <map>

#include <boost/test/unit_test.hpp>

#include "experiments/support/program/json_file.h"
#include "tests/device.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

/// Flags of the sizes of a small Transformer.
const std::vector<std::string> small_sizes{"--model-dim",        "8", "--heads",  "2",
                                           "--feed-forward-dim", "8", "--layers", "1"};

/// Flags that train a small model of each task.
const std::map<std::string, std::vector<std::string>>& tasks() {
  static const std::vector<std::string> batches{"--min-count", "1", "--batch-tokens", "64", "--evaluate-every", "3"};
  auto flags = [](const std::vector<std::string>& more) { return joined(joined(small_sizes, batches), more); };
  static const std::string pairs = "generated:train=9,dev=3,test=3,phrases=1-2,words=4";
  static const std::map<std::string, std::vector<std::string>> all{
      {"translate", flags({"--data", pairs, "--longest", "6", "--attention", "gaussian"})},
      {"summarize", flags({"--data", "generated:train=9,dev=3,test=3", "--longest", "6", "--max-length", "12"})},
      {"language_model", flags({"--data", "generated:train=12,dev=3,test=3", "--attention", "alibi"})},
      {"tagging", flags({"--data", pairs})},
      {"sentiment", flags({"--data", "generated:train=24,dev=6,test=6", "--attention", "relative"})},
      {"agreement", flags({"--data", "generated:train=24,dev=6,test=6", "--attention", "window(use=additive)"})}};
  return all;
}

/// The lines of a run's log.
std::vector<Json> log_of(const std::filesystem::path& run) {
  std::vector<Json> lines;
  std::ifstream file(run / "log.jsonl");
  for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
  return lines;
}

/// Checks that two runs logged the same updates, with equal losses, norms and scores of the development set.
void check_alike(const std::filesystem::path& a, const std::filesystem::path& b, double tolerance) {
  const std::vector<Json> left = log_of(a), right = log_of(b);
  BOOST_TEST_REQUIRE(left.size() == right.size());
  BOOST_TEST(!left.empty());
  for (std::size_t k = 0; k < left.size(); ++k) {
    BOOST_TEST(left[k].at("update") == right[k].at("update"));
    for (const char* key : {"loss", "unsmoothed_loss", "gradient_norm"})
      BOOST_TEST(left[k].at(key).get<double>() == right[k].at(key).get<double>(),
                 boost::test_tools::tolerance(tolerance));
    if (!left[k].contains("dev")) continue;
    for (const auto& [name, score] : left[k].at("dev").items())
      BOOST_TEST(score.get<double>() == right[k].at("dev").at(name).get<double>(),
                 boost::test_tools::tolerance(tolerance));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(programs_on_cuda, *with_cuda())

BOOST_AUTO_TEST_CASE(every_task_trains_and_is_tested_as_on_the_cpu) {
  for (const auto& [program, flags] : tasks()) BOOST_TEST_CONTEXT(program) {
      Folder folder;
      for (const std::string device : {"cpu", "cuda"}) {
        succeeded(ended(program, joined(flags, {"--updates", "3", "--seed", "5", "--device", device, "--out",
                                                (folder / device).string()})));
      }
      check_alike(folder / "cpu", folder / "cuda", 1e-5);
      const Json cpu = load_json(folder / "cpu" / "result.json"), cuda = load_json(folder / "cuda" / "result.json");
      for (const auto& [set, test] : cpu.at("tests").items())
        for (const auto& [name, score] : test.at("scores").items())
          BOOST_TEST(score.get<double>() == cuda.at("tests").at(set).at("scores").at(name).get<double>(),
                     boost::test_tools::tolerance(1e-4));
    }
}

// Equal numbers do not show where they were computed; a kernel that fails does.
BOOST_AUTO_TEST_CASE(updates_and_decoding_run_on_the_device, *with_kernels_on_the_host()) {
  Folder folder;
  const std::string trained = (folder / "trained").string();
  succeeded(ended("translate", joined(tasks().at("translate"), {"--updates", "1", "--out", trained})));
  std::ofstream(folder / "text") << "loru tira\n";
  auto check_fails = [&](const std::string& kernel, const std::string& program, const std::vector<std::string>& flags) {
    ::setenv("FOVEA_CUDA_ON_HOST", ("fault=" + kernel).c_str(), 1);
    const Ended failed = ended(program, joined(flags, {"--device", "cuda"}));
    ::unsetenv("FOVEA_CUDA_ON_HOST");
    BOOST_TEST(failed.status == 2, program);
    BOOST_TEST(contains(failed.err, "kernel '" + kernel + "': fails"), failed.err);
  };
  for (const auto& [program, flags] : tasks())
    check_fails("adam_step", program, joined(flags, {"--updates", "3", "--out", (folder / program).string()}));
  check_fails("top_k", "translate", {"--model", trained, "--decode", (folder / "text").string()});
}

BOOST_AUTO_TEST_CASE(fifty_updates_follow_the_losses_of_the_cpu) {
  Folder folder;
  for (const std::string device : {"cpu", "cuda"}) {
    succeeded(ended("sentiment",
                    joined(small_sizes, {"--data", "generated:train=60,dev=6,test=6", "--batch-tokens", "48",
                                         "--schedule", "constant(rate=3e-3)", "--evaluate-every", "25", "--updates",
                                         "50", "--device", device, "--out", (folder / device).string()})));
  }
  BOOST_TEST(log_of(folder / "cpu").size() == 6u);
  check_alike(folder / "cpu", folder / "cuda", 1e-4);
}

BOOST_AUTO_TEST_CASE(a_run_continues_on_the_other_device) {
  const auto flags = joined(tasks().at("tagging"), {"--checkpoint-every", "1"});
  for (const std::string first : {"cpu", "cuda"}) BOOST_TEST_CONTEXT(first << " first") {
      Folder folder;
      const std::string second = first == "cpu" ? "cuda" : "cpu";
      auto train = [&](const std::string& name, const std::string& updates, const std::string& device) {
        return ended("tagging",
                     joined(flags, {"--updates", updates, "--device", device, "--out", (folder / name).string()}));
      };
      succeeded(train("whole", "4", "cpu"));
      succeeded(train("parts", "2", first));
      succeeded(ended("tagging", {"--resume", (folder / "parts").string(), "--updates", "4", "--device", second}));
      BOOST_TEST(load_json(folder / "parts" / "config.json").at("device") == second);
      BOOST_TEST(load_json(folder / "parts" / "result.json").at("training").at("updates") == 4);
      const double whole = log_of(folder / "whole").back().at("loss"),
                   parts = log_of(folder / "parts").back().at("loss");
      BOOST_TEST(parts == whole, boost::test_tools::tolerance(1e-5));
    }
}

BOOST_AUTO_TEST_CASE(a_device_that_a_saved_run_chose_and_that_is_not_here_is_traced_to_its_file,
                     *with_kernels_on_the_host()) {
  Folder folder;
  const std::string run = (folder / "run").string(), file = run + "/config.json";
  succeeded(ended("translate", joined(tasks().at("translate"), {"--updates", "1", "--device", "cuda", "--out", run})));
  std::ofstream(folder / "text") << "loru tira\n";
  ::setenv("FOVEA_CUDA_ON_HOST", "devices=0", 1);
  const std::string no_gpu = "--device cuda: the NVIDIA driver finds no GPU on this machine; use --device cpu";
  for (const std::vector<std::string>& use :
       {std::vector<std::string>{"--model", run, "--decode", folder / "text"}, {"--resume", run, "--updates", "2"}}) {
    BOOST_TEST(refusal_of(ended("translate", use)) ==
               "translate: " + file + " has " + no_gpu + "; --device on the command line overrides the file\n");
    BOOST_TEST(refusal_of(ended("translate", joined(use, {"--device", "cuda"}))) == "translate: " + no_gpu + "\n");
    succeeded(ended("translate", joined(use, {"--device", "cpu"})));
  }
  BOOST_TEST(load_json(file).at("device") == "cpu");
  std::ofstream(folder / "options.json") << R"({"device": "gpu"})";
  BOOST_TEST(
      ended("attend", {"--config", folder / "options.json"}).err ==
      "attend: " + (folder / "options.json").string() +
          " has --device: 'gpu' is not a device; use cpu, cuda, "
          "or cuda:N with the number of a GPU, counted from 0; --device on the command line overrides the file\n");
  ::unsetenv("FOVEA_CUDA_ON_HOST");
}

BOOST_AUTO_TEST_CASE(a_trained_model_decodes_the_same_on_both_devices) {
  Folder folder;
  const std::string run = (folder / "run").string();
  succeeded(
      ended("translate", joined(small_sizes, {"--data", few_sentences, "--longest", "8", "--min-count", "1",
                                              "--updates", "40", "--schedule", "constant(rate=1e-2)", "--out", run})));
  std::ofstream(folder / "text") << "loru tira\nfafi\n\nloru fafi tira\n";
  auto decoded = [&](const std::string& device, const std::vector<std::string>& more) {
    return succeeded(ended("translate",
                           joined({"--model", run, "--decode", (folder / "text").string(), "--device", device}, more)))
        .out;
  };
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--beam", "1"}, {"--beam", "3", "--n-best", "2", "--no-repeat", "2"}})
    BOOST_TEST(decoded("cuda", more) == decoded("cpu", more));
}

BOOST_AUTO_TEST_CASE(a_step_of_a_small_translator_takes_few_launches) {
  const Ended program = succeeded(ended("benchmark", {"step", "--device", "cuda", "--launches", "--json",
                                                      "--batch-tokens", "64", "--layers", "4", "--dropout", "0.3"}));
  BOOST_TEST(Json::parse(program.out).at("all_launches").get<int>() <= 350);
}

BOOST_AUTO_TEST_SUITE_END()
