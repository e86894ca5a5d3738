#include "experiments/support/program/run_directory.h"

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "experiments/support/program/program.h"
#include "experiments/support/text/utf8.h"
#include "tests/files.h"

using namespace fovea;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(run_directory)

BOOST_AUTO_TEST_CASE(differences_name_the_key_and_both_values) {
  const Json before = Json::parse(R"({"layers": 2, "rate": 1.0, "heads": 4, "old": [1, 2]})");
  const Json after = Json::parse(R"({"rate": 1, "layers": 3, "heads": 8, "dim": 5, "new": "x"})");
  auto refusal = [&](const Json& now, const std::vector<std::string>& may_differ) {
    return message_of([&] { require_same_configuration("runs/a1/config.json", before, now, may_differ); });
  };
  BOOST_TEST(refusal(before, {}) == "no error");
  BOOST_TEST(refusal(after, {}) ==
             "runs/a1/config.json: another configuration: layers was 2 and is 3; heads was 4 and is 8; old was [1,2] "
             "and is nothing; dim was nothing and is 5; new was nothing and is \"x\"");
  BOOST_TEST(refusal(after, {"new", "old", "dim", "heads"}) ==
             "runs/a1/config.json: another configuration: layers was 2 and is 3");
  Json newer = before;  // of a version with more options, none of which is used
  newer.update(Json::parse(R"({"a": null, "b": false, "c": 0, "d": "", "e": [], "f": 0.0})"));
  BOOST_TEST(refusal(newer, {}) == "no error");
  newer["heads"] = 0;
  BOOST_TEST(refusal(newer, {}) == "runs/a1/config.json: another configuration: heads was 4 and is 0");
}

BOOST_AUTO_TEST_CASE(directories_without_a_name_are_numbered) {
  Folder folder;
  auto old = fs::current_path();
  fs::current_path(folder.path);
  auto first = RunDirectory::create("agreement", "");
  auto second = RunDirectory::create("agreement", "");
  BOOST_TEST(first.path().string().starts_with("runs/agreement-20"));
  BOOST_TEST(first.path().string().ends_with("-1"));
  BOOST_TEST(second.path().string().ends_with("-2"));
  BOOST_TEST(fs::is_directory(second.path()));
  fs::current_path(old);
}

BOOST_AUTO_TEST_CASE(a_directory_with_something_in_it_is_refused) {
  Folder folder;
  auto path = folder / "a/b";
  { RunDirectory::create("agreement", path); }
  { RunDirectory::create("agreement", path); }  // empty: fine
  for (const char* name : {"config.json", "checkpoint.safetensors", "log.jsonl"}) std::ofstream(path / name) << "{}";
  BOOST_TEST(
      message_of([&] { RunDirectory::create("agreement", path); }) ==
      fmt::format("--out {0}: the directory is not empty (checkpoint.safetensors, config.json, log.jsonl); name a "
                  "new one, or continue that run: --resume {0}",
                  path.string()));
  std::ofstream(folder / "file") << "x";
  BOOST_TEST(contains(message_of([&] { RunDirectory::create("agreement", folder / "file"); }),
                      "the directory cannot be created"));
  BOOST_TEST(contains(message_of([&] { RunDirectory::create("agreement", folder / "file/in"); }),
                      "the directory cannot be created"));
  BOOST_TEST(message_of([&] { RunDirectory::resume(folder / "none"); }) ==
             fmt::format("--resume {}: there is no such directory", (folder / "none").string()));
}

BOOST_AUTO_TEST_CASE(what_is_discarded_is_what_the_run_made) {
  Folder folder;
  fs::create_directory(folder / "mine");
  for (const char* name : {"mine", "made", "mine/above/made/"}) {
    RunDirectory run = RunDirectory::create("agreement", folder / name);
    std::ofstream(run.file("config.json")) << "{}";
    run.part("global");
    run.discard();
  }
  BOOST_TEST(fs::is_empty(folder / "mine"));
  BOOST_TEST(!fs::exists(folder / "made"));
}

BOOST_AUTO_TEST_CASE(one_process_at_a_time_writes_a_run) {
  Folder folder;
  auto run = RunDirectory::create("agreement", folder / "a");
  auto resume = [&] { RunDirectory::resume(folder / "a"); };
  BOOST_TEST(message_of(resume) ==
             fmt::format("{}: another process is running in this directory", (folder / "a").string()));
  RunDirectory moved = std::move(run);
  BOOST_TEST(contains(message_of(resume), "another process"));
  { RunDirectory gone = std::move(moved); }
  BOOST_TEST(message_of(resume) == "no error");
}

BOOST_AUTO_TEST_CASE(processes_that_share_a_directory_exclude_those_that_do_not) {
  Folder folder;
  const auto path = folder / "a";
  auto alone = [&] { RunDirectory::resume(path); };
  {
    auto one = RunDirectory::create("agreement", path, Access::shared);
    BOOST_TEST(message_of(alone) == fmt::format("{}: another process is running in this directory", path.string()));
    one.end_turn();
    auto other = RunDirectory::resume(path, Access::shared);
    BOOST_TEST(!other.is_last());  // leaves
    other.end_turn();
    one.take_turn();
    BOOST_TEST(one.is_last());
  }
  BOOST_TEST(message_of(alone) == "no error");
  auto run = RunDirectory::resume(path);
  BOOST_TEST(contains(message_of([&] { RunDirectory::resume(path, Access::shared); }), "another process"));
}

BOOST_AUTO_TEST_CASE(one_process_at_a_time_has_the_turn) {
  Folder folder;
  auto one = RunDirectory::create("agreement", folder / "a", Access::shared);
  const auto path = (folder / "a").string();
  std::atomic<bool> has_turn = false;
  std::thread second([&] {
    auto other = RunDirectory::resume(path, Access::shared);
    has_turn = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  BOOST_TEST(!has_turn);
  one.end_turn();
  second.join();
  BOOST_TEST(has_turn);
}

BOOST_AUTO_TEST_CASE(the_first_to_join_makes_the_configuration_and_the_others_have_the_same) {
  Folder folder;
  RunDirectory::Options options{folder / "a", "", true, Access::shared};
  const Json configuration{{"program", "agreement"}, {"layers", 2}}, other{{"program", "agreement"}, {"layers", 3}};
  auto first = RunDirectory::open("agreement", options, configuration);
  BOOST_TEST(first.is_new());
  std::ofstream(first.file("data.json")) << "{}";  // the data are prepared, so that joining takes no turn
  first.end_turn();
  auto second = RunDirectory::open("agreement", options, configuration);
  BOOST_TEST(!second.is_new());
  auto third = RunDirectory::open("agreement", options, configuration);
  BOOST_TEST(message_of([&] { RunDirectory::open("agreement", options, other); }) ==
             first.configuration().string() + ": another configuration: layers was 2 and is 3");
  // a process that fails before its first run leaves nothing that another one would not make
  Folder fresh;
  options.out = fresh / "a";
  {
    auto founder = RunDirectory::open("agreement", options, configuration);
    founder.discard();
  }
  BOOST_TEST(!fs::exists(options.out));
}

BOOST_AUTO_TEST_CASE(a_run_resumes_with_its_own_configuration_and_no_other) {
  Folder folder;
  auto path = (folder / "a").string();
  auto start = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "agreement");
    int layers = 2;
    RunDirectory::Options options;
    Cli cli("agreement", int(arguments.size()), arguments.data());
    cli.option("--layers", layers, "encoder layers");
    cli.add(options);
    cli.parse();
    RunDirectory::open("agreement", options, cli.configuration());
    return layers;
  };
  BOOST_TEST(start({"--out", path.c_str(), "--layers", "5"}) == 5);
  BOOST_TEST(start({"--resume", path.c_str()}) == 5);
  auto refusal = [&](std::vector<const char*> arguments) { return message_of([&] { start(arguments); }); };
  BOOST_TEST(refusal({"--resume", path.c_str(), "--layers", "3"}) ==
             path + "/config.json: another configuration: layers was 5 and is 3");
  BOOST_TEST(contains(refusal({"--resume", path.c_str(), "--out", "b"}), "leave out --out"));
  BOOST_TEST(contains(refusal({"--resume", path.c_str(), "--config", path.c_str()}), "exclude each other"));
  BOOST_TEST(contains(refusal({"--resume", folder.path.c_str()}), "it has no config.json"));
}

BOOST_AUTO_TEST_CASE(parts_have_names_that_every_shell_can_type) {
  BOOST_TEST(file_name_for("window(use=additive, segment=5)") == "window-use=additive-segment=5");
  BOOST_TEST(file_name_for("relative(clip=16)+gaussian/../x") == "relative-clip=16-+gaussian-..-x");
  BOOST_TEST(file_name_for("../..") == "part");
  BOOST_TEST(file_name_for("-rf") == "rf");
  BOOST_TEST(file_name_for("größe 日本") == "größe-日本");
  std::string long_title = "a";
  for (int k = 0; k < 100; ++k) long_title += "日";
  BOOST_TEST((invalid_utf8(file_name_for(long_title)) == std::string::npos));
  std::string long_label(1000, 'a');
  BOOST_TEST(file_name_for(long_label).size() < 150u);
  BOOST_TEST(file_name_for(long_label + " seed 1") != file_name_for(long_label + " seed 2"));
  Folder folder;
  auto run = RunDirectory::create("agreement", folder / "a");
  auto part = run.part("heads(global*4)");
  BOOST_TEST(part.log().string() == (folder / "a/heads-global-4/log.jsonl").string());
}

BOOST_AUTO_TEST_SUITE_END()
