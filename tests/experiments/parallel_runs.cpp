// Runs of one experiment in several processes: those of --jobs, and processes with --only that share a directory.
#include <csignal>
#include <sstream>

#include <boost/test/unit_test.hpp>

#include "experiments/support/program/json_file.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/text/words.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// The processes with all of these texts on their command line.
std::vector<pid_t> processes_with(const Texts& texts) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const auto process = number<pid_t>(entry.path().filename().string());
    const std::string command = process ? contents(entry.path() / "cmdline") : "";
    if (process && std::ranges::all_of(texts, [&](const auto& text) { return contains(command, text); }))
      found.push_back(*process);
  }
  return found;
}

const std::string many = "1000000";  // updates, as no test waits for

Texts small(const fs::path& out, const Texts& more) {
  return joined(tiny_classifier(out.string(), {"--evaluate-every", "2", "--schedule", "constant(rate=1e-3)"}), more);
}

Texts endless(const fs::path& out, const Texts& more) {
  return small(out, joined({"--updates", many, "--evaluate-every", many, "--checkpoint-every", many}, more));
}

void require_same_runs(const fs::path& one, const fs::path& other, const Texts& runs) {
  for (const std::string& run : runs)
    for (const char* file : {"best.safetensors", "log.jsonl", "examples.test.jsonl", "vocabulary.txt", "data.json"}) {
      BOOST_TEST(!contents(one / run / file).empty(), run + "/" + file);
      BOOST_TEST((contents(one / run / file) == contents(other / run / file)), run + "/" + file);
    }
}

/// The table that a program prints, without the columns of speed.
std::string table_of(const std::string& output) {
  std::istringstream lines(output.substr(std::min(output.find("\nmodel ") + 1, output.size())));
  std::string table, line;
  std::getline(lines, line);
  const std::size_t columns = line.find("parameters") + std::string("parameters").size();
  BOOST_TEST_REQUIRE(line.starts_with("model "), output);
  table = line.substr(0, columns);
  std::getline(lines, line);  // the rule has characters of several bytes
  while (std::getline(lines, line) && !line.starts_with("test: ")) table += "\n" + line.substr(0, columns);
  return table;
}

bool has_log(const fs::path& run) { return !contents(run / "log.jsonl").empty(); }

int updates_in(const fs::path& run) {
  const std::string output = contents(run / "output.txt"), words = "stopped after update ";
  BOOST_TEST_REQUIRE(contains(output, words), output);
  return leading_number<int>(std::string_view(output).substr(output.find(words) + words.size())).value_or(-1);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(parallel_runs)

BOOST_AUTO_TEST_CASE(runs_at_the_same_time_are_those_of_one_after_the_other) {
  Folder folder;
  const Texts flags{"--compare", "global; relative", "--seeds", "2", "--updates", "6"};
  const Ended serial = succeeded(ended("agreement", small(folder / "serial", flags)));
  const Ended parallel = succeeded(ended("agreement", small(folder / "parallel", joined(flags, {"--jobs", "3"}))));
  require_same_runs(folder / "serial", folder / "parallel",
                    {"global-seed-1", "global-seed-2", "relative-seed-1", "relative-seed-2"});
  BOOST_TEST(table_of(serial.out) == table_of(parallel.out));
  for (const char* file : {"config.json", "data.json", "vocabulary.txt"})
    BOOST_TEST(contents(folder / "serial" / file) == contents(folder / "parallel" / file), file);
  BOOST_TEST(contains(contents(folder / "parallel" / "report.html"), "relative"));
  for (const char* run : {"global-seed-1", "global-seed-2", "relative-seed-1", "relative-seed-2"})
    BOOST_TEST(!contains(contents(folder / "parallel" / run / "output.txt"), "\nmodel "), run);  // one table
  for (const char* run : {"/4] global seed 1", "/4] global seed 2", "/4] relative seed 1", "/4] relative seed 2"})
    BOOST_TEST(contains(parallel.err, run), parallel.err);
  BOOST_TEST(!contains(parallel.err, "\r"), parallel.err);  // no terminal: nothing is redrawn
  // finished runs start no process
  const Ended again = succeeded(ended("agreement", {"--resume", (folder / "parallel").string(), "--jobs", "2"}));
  BOOST_TEST(table_of(again.out) == table_of(serial.out));
  BOOST_TEST(load_json(folder / "parallel" / "global-seed-1" / "run.json").size() == 1u);
}

BOOST_AUTO_TEST_CASE(cores_are_shared_out) {
  Folder folder;
  auto threads_of_a_run = [&](const std::string& out, const Texts& more) {
    Process process("agreement", small(folder / out, joined({"--compare", "global; relative"}, more)), "", "4");
    succeeded(process.end());
    return load_json(folder / out / "global-seed-1" / "run.json").at(0).at("threads").get<int>();
  };
  BOOST_TEST(threads_of_a_run("a", {"--jobs", "2"}) == 2);
  BOOST_TEST(threads_of_a_run("b", {"--jobs", "2", "--threads", "3"}) == 3);
  BOOST_TEST(threads_of_a_run("c", {"--jobs", "9"}) == 2);  // there are two runs
}

BOOST_AUTO_TEST_CASE(rows_that_diverge_or_fail_are_reported_and_the_others_are_finished) {
  Folder folder;
  const fs::path out = folder / "out";
  const Texts rows{"--compare", "a: --dropout 0; b: --schedule constant(rate=1e30); c: --dropout 0.2",
                   "--clip",    "0",
                   "--updates", "4"};
  const Ended first = succeeded(ended("agreement", small(out, joined(rows, {"--jobs", "2"}))));
  BOOST_TEST(contains(first.out, "\nb seed 1: training diverged at update "), first.out);
  std::ofstream(out / "c-seed-1" / "checkpoint.safetensors") << "no checkpoint";
  const Ended failed = ended("agreement", {"--resume", out.string(), "--updates", "6", "--jobs", "3"});
  BOOST_TEST(failed.status == 2);
  const std::string reason = out.string() + "/c-seed-1/checkpoint.safetensors: ";
  BOOST_TEST(contains(failed.err, "c seed 1: failed: " + reason), failed.err);
  BOOST_TEST(contains(failed.err, "its output is in " + out.string() + "/c-seed-1/output.txt\n"), failed.err);
  BOOST_TEST(
      failed.err.ends_with("agreement: 1 of 3 runs failed; --resume " + out.string() + " --jobs 3 tries again\n"),
      failed.err);
  BOOST_TEST(contains(failed.out, "\nc seed 1: " + reason), failed.out);
  BOOST_TEST(load_json(out / "a-seed-1" / "result.json").at("training").at("updates") == 6);
  BOOST_TEST(load_json(out / "c-seed-1" / "result.json").at("training").at("updates") == 4);  // that of before is kept
  fs::remove(out / "c-seed-1" / "checkpoint.safetensors"), fs::remove(out / "c-seed-1" / "result.json");
  succeeded(ended("agreement", {"--resume", out.string(), "--jobs", "3"}));
  BOOST_TEST(load_json(out / "c-seed-1" / "result.json").at("training").at("updates") == 6);
}

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_is_named_with_its_signal_and_the_others_are_finished) {
  Folder folder;
  const fs::path out = folder / "out";
  Process process(
      "agreement",
      small(out, {"--compare", "slow: --updates " + many + "; a: --dropout 0; b: --dropout 0.2", "--jobs", "2"}));
  const fs::path others[] = {out / "a-seed-1" / "result.json", out / "b-seed-1" / "result.json"};
  BOOST_TEST(
      becomes_true([&] { return fs::exists(others[0]) && fs::exists(others[1]) && has_log(out / "slow-seed-1"); }));
  const std::vector<pid_t> slow = processes_with({"agreement", out.string(), "--only=1/3"});
  BOOST_TEST_REQUIRE(slow.size() == 1u);
  ::kill(slow.front(), SIGKILL);
  const Ended ended = process.end();
  BOOST_TEST(ended.status == 2);
  BOOST_TEST(contains(ended.err, "slow seed 1: failed: its process was killed; its output is in "), ended.err);
  BOOST_TEST(contains(ended.err, "agreement: 1 of 3 runs failed; "), ended.err);
  for (const char* row : {"\na  ", "\nb  ", "\nslow seed 1: its process was killed"})
    BOOST_TEST(contains(ended.out, row), ended.out);
}

BOOST_AUTO_TEST_CASE(runs_that_are_stopped_have_checkpoints_and_go_on_with_any_number_of_jobs) {
  for (const auto& [signal, status] : {std::pair(SIGINT, 130), {SIGTERM, 143}}) {
    Folder folder;
    const fs::path out = folder / "out";
    const Texts rows{"--compare", "a: --dropout 0; b: --dropout 0.2; c: --dropout 0.1"};
    Process process("agreement", endless(out, joined(rows, {"--jobs", "2"})));
    BOOST_TEST(becomes_true([&] { return has_log(out / "a-seed-1") && has_log(out / "b-seed-1"); }));
    process.signal(signal);
    const Ended stopped = process.end();
    BOOST_TEST(stopped.status == status);
    BOOST_TEST(stopped.err.ends_with("agreement: stopped with 0 of 3 runs finished; --resume " + out.string() +
                                     " --jobs 2 continues\n"),
               stopped.err);
    BOOST_TEST(!fs::exists(out / "c-seed-1" / "log.jsonl"));  // was not begun
    const std::string enough = std::to_string(std::max(updates_in(out / "a-seed-1"), updates_in(out / "b-seed-1")) + 5);
    for (const char* run : {"a-seed-1", "b-seed-1"}) BOOST_TEST(fs::exists(out / run / "checkpoint.safetensors"));
    succeeded(ended("agreement", {"--resume", out.string(), "--updates", enough, "--jobs", "3"}));
    const Ended whole = succeeded(ended("agreement", endless(folder / "whole", joined(rows, {"--updates", enough}))));
    require_same_runs(folder / "whole", out, {"a-seed-1", "b-seed-1", "c-seed-1"});
  }
}

BOOST_AUTO_TEST_CASE(children_end_with_a_parent_that_is_killed) {
  Folder folder;
  const fs::path out = folder / "out";
  Process process("agreement", endless(out, {"--compare", "a: --dropout 0; b: --dropout 0.2", "--jobs", "2"}));
  BOOST_TEST(becomes_true([&] { return has_log(out / "a-seed-1") && has_log(out / "b-seed-1"); }));
  BOOST_TEST(processes_with({out.string(), "--only="}).size() == 2u);
  process.signal(SIGKILL);
  BOOST_TEST(process.end().status == -SIGKILL);
  for (int k = 0; k < 500 && !processes_with({out.string()}).empty(); ++k) ::usleep(10'000);
  BOOST_TEST(processes_with({out.string()}).empty());
  const std::string enough = std::to_string(std::max(updates_in(out / "a-seed-1"), updates_in(out / "b-seed-1")) + 1);
  succeeded(ended("agreement", {"--resume", out.string(), "--updates", enough, "--jobs", "2"}));
}

BOOST_AUTO_TEST_CASE(processes_with_only_make_one_experiment_together) {
  Folder folder;
  const Texts flags{"--compare", "global; relative", "--seeds", "2", "--updates", "6"};
  std::vector<std::unique_ptr<Process>> processes;
  for (const char* only : {"1/4", "2/4", "3/4", "4/4"})
    processes.push_back(
        std::make_unique<Process>("agreement", small(folder / "shared", joined(flags, {"--only", only}))));
  std::string tables;
  for (const auto& process : processes) {
    const Ended ended = succeeded(process->end());
    if (contains(ended.out, "\nmodel ")) tables += ended.out;
  }
  BOOST_TEST(count(tables, "\nmodel ") == 1u, tables);  // the last one makes it
  const Ended serial = succeeded(ended("agreement", small(folder / "serial", flags)));
  require_same_runs(folder / "serial", folder / "shared",
                    {"global-seed-1", "global-seed-2", "relative-seed-1", "relative-seed-2"});
  BOOST_TEST(table_of(tables) == table_of(serial.out));
  BOOST_TEST(fs::exists(folder / "shared" / "report.html"));
}

BOOST_AUTO_TEST_CASE(processes_one_after_the_other_say_how_many_runs_are_finished) {
  Folder folder;
  const std::string out = (folder / "out").string();
  auto only = [&](const std::string& number) {
    return ended("agreement", small(out, {"--compare", "a: --dropout 0; b: --dropout 0.2", "--only", number}));
  };
  const Ended second = succeeded(only("2/2"));
  BOOST_TEST(contains(second.out, "\n1 of 2 runs are finished: the last one makes the table. So far: report " + out),
             second.out);
  BOOST_TEST(!fs::exists(folder / "out" / "report.html"));
  succeeded(ended("report", {out}));
  const Ended first = only("1/2");
  BOOST_TEST(contains(first.out, "\nmodel "), first.out);
  BOOST_TEST(first.out.find("\na ") < first.out.find("\nb "), first.out);
  const std::string report = ended("report", {out}).out;  // in the comparison's order, not in that of the making
  BOOST_TEST(report.find("\na ") < report.find("\nb "), report);
}

BOOST_AUTO_TEST_CASE(a_signal_during_the_test_of_a_run_stops_before_the_next_one) {
  Folder folder;
  const fs::path out = folder / "out";
  Process process("tagging",
                  {"--data", "generated:train=20,dev=5,test=20000", "--updates", "2", "--layers", "1", "--model-dim",
                   "8", "--heads", "2", "--compare", "global; gaussian", "--out", out.string()});
  BOOST_TEST(becomes_true([&] { return fs::exists(out / "global-seed-1" / "checkpoint.safetensors"); }));
  process.signal(SIGINT);
  const Ended stopped = process.end();
  BOOST_TEST(stopped.status == 130);
  BOOST_TEST(stopped.err.ends_with("tagging: stopped before run 2 of 2; --resume " + out.string() + " continues\n"),
             stopped.err);
  BOOST_TEST(fs::exists(out / "global-seed-1" / "result.json"));
  BOOST_TEST(!fs::exists(out / "gaussian-seed-1" / "log.jsonl"));
}

BOOST_AUTO_TEST_CASE(a_run_that_a_living_process_makes_is_refused) {
  Folder folder;
  const fs::path out = folder / "out";
  const Texts rows{"--compare", "a: --dropout 0; b: --dropout 0.2"};
  Process process("agreement", endless(out, joined(rows, {"--only", "1/2"})));
  BOOST_TEST(becomes_true([&] { return has_log(out / "a-seed-1"); }));
  auto refusal = [&](const Texts& flags) {
    const std::string refused = refusal_of(ended("agreement", flags));
    return refused;
  };
  BOOST_TEST(refusal(endless(out, joined(rows, {"--only", "1/2"}))) ==
             fmt::format("agreement: {}/a-seed-1: another process is running in this directory\n", out.string()));
  // a process that makes all runs needs the directory alone
  BOOST_TEST(refusal({"--resume", out.string()}) ==
             fmt::format("agreement: {}: another process is running in this directory\n", out.string()));
  BOOST_TEST(refusal(endless(out, joined(rows, {"--only", "2/2", "--clip", "3"}))) ==
             fmt::format("agreement: {}/config.json: another configuration: clip was 1.0 and is 3.0\n", out.string()));
  process.signal(SIGINT);
  const Ended stopped = process.end();
  BOOST_TEST(stopped.status == 130);
  BOOST_TEST(contains(stopped.err, "; --resume " + out.string() + " --only 1/2 continues\n"), stopped.err);
}

BOOST_AUTO_TEST_CASE(an_only_that_does_not_fit_is_refused_before_anything_is_made) {
  Folder folder;
  auto refusal = [&](const Texts& flags) {
    const std::string refused = refusal_of(
        ended("agreement", joined({"--compare", "a: --dropout 0; b: --dropout 0.2", "--seeds", "3"}, flags)));
    return refused;
  };
  const std::string out = (folder / "out").string();
  BOOST_TEST(refusal({"--out", out, "--only", "3/15"}) ==
             "agreement: --only 3/15: there are 6 runs (rows x trials x seeds); write 3/6\n");
  for (const char* outside : {"0/6", "7/6"})
    BOOST_TEST(refusal({"--out", out, "--only", outside}) ==
               fmt::format("agreement: --only {}: the runs are numbered 1 to 6\n", outside));
  for (const char* wrong : {"", "3", "3/", "/6", "three/6", "1/2/6", "-1/6", "1.5/6"})
    BOOST_TEST(refusal({"--out", out, "--only=" + std::string(wrong)}) ==
               fmt::format("agreement: --only '{}': expected K/N, as in 1/6: run K of the N runs\n", wrong));
  BOOST_TEST(refusal({"--only", "3/6"}) ==
             "agreement: --only 3/6: --out is missing, the directory in which the processes make their runs\n");
  BOOST_TEST(contains(refusal({"--out", out, "--only", "3/6", "--data", "nowhere"}), "nowhere"));
  BOOST_TEST(!fs::exists(out));
  fs::create_directory(out);
  std::ofstream(folder / "out" / "notes.txt") << "mine";
  BOOST_TEST(refusal({"--out", out, "--only", "3/6"}) ==
             fmt::format("agreement: --out {}: has files (notes.txt) but no config.json; name a new directory\n", out));
  BOOST_TEST(contents(folder / "out" / "notes.txt") == "mine");
}

BOOST_AUTO_TEST_SUITE_END()
