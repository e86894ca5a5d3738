#include "experiments/support/program/run_log.h"

#include <csignal>
#include <random>

#include <boost/test/unit_test.hpp>

#include "tests/files.h"

using namespace fovea;

namespace {

/// Lines of the updates from `from` to `to`, two for every fifth one.
void write_lines(RunLog& log, int from, int to) {
  for (int update = from; update <= to; ++update) {
    log.write({{"update", update}, {"loss", 1.0 / update}, {"note", update % 7 == 0 ? "a \"b\",\nc" : ""}});
    if (update % 5 == 0) log.write({{"update", update}, {"dev", {{"BLEU", update}}}});
  }
}

std::string whole_log(const std::filesystem::path& path, int to) {
  RunLog log(path, 0);
  write_lines(log, 1, to);
  return contents(path);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(run_logs)

BOOST_AUTO_TEST_CASE(lines_survive_writing_and_reading) {
  Folder folder;
  const std::vector<Json> lines{{{"update", 1}, {"loss", 0.1}, {"text", "x,y\r\n\"z\" é"}},
                                {{"update", 1}, {"big", std::int64_t(1) << 60}},
                                {{"update", 2}, {"dev", {{"BLEU", 27.5}}}}};
  {
    RunLog log(folder / "log.jsonl", 0);
    for (const Json& line : lines) log.write(line);
    log.sync();
  }
  BOOST_TEST((read_log(folder / "log.jsonl") == lines));
  BOOST_TEST(contents(folder / "log.jsonl").starts_with("{\"update\":1,\"loss\":0.1,"));
}

BOOST_AUTO_TEST_CASE(a_curve_has_the_lines_that_have_its_number) {
  const std::vector<Json> log{{{"update", 10}, {"loss", 3.5}},
                              {{"update", 20}, {"loss", 2}, {"dev", {{"BLEU", 7}, {"per token", 9.5}}}},
                              {{"update", 30}, {"loss", nullptr}, {"dev", {{"BLEU", nullptr}}}},
                              {{"update", 40}, {"dev", 3}}};
  using Points = std::vector<std::pair<double, double>>;
  BOOST_TEST((curve(log, "loss") == Points{{10, 3.5}, {20, 2}}));
  BOOST_TEST((curve(log, "dev.BLEU") == Points{{20, 7}}));
  BOOST_TEST((curve(log, "dev.per token") == Points{{20, 9.5}}));
  BOOST_TEST((curve(log, "dev") == Points{{40, 3}}));
  BOOST_TEST(curve(log, "accuracy").empty());
}

BOOST_AUTO_TEST_CASE(a_continued_log_equals_an_uninterrupted_one) {
  Folder folder;
  const std::string expected = whole_log(folder / "whole", 40);
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    // killed anywhere after the checkpoint's line was written, even in the middle of a line
    const int checkpoint = int(random() % 40);
    std::filesystem::remove(folder / "head");
    const std::size_t kept = whole_log(folder / "head", checkpoint).size();
    const std::size_t cut = kept + random() % (expected.size() - kept + 1);
    std::ofstream(folder / "cut", std::ios::binary) << expected.substr(0, cut);
    {
      RunLog log(folder / "cut", checkpoint);
      write_lines(log, checkpoint + 1, 40);
    }
    BOOST_REQUIRE(contents(folder / "cut") == expected);
  }
}

BOOST_AUTO_TEST_CASE(a_killed_writer_loses_no_line) {
  Folder folder;
  const int status = status_in_child([&] {
    RunLog log(folder / "killed", 0);
    write_lines(log, 1, 30);
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  BOOST_TEST(status == -SIGKILL);
  BOOST_TEST(contents(folder / "killed") == whole_log(folder / "whole", 30));
}

BOOST_AUTO_TEST_CASE(a_log_can_be_read_while_it_is_written) {
  Folder folder;
  std::ofstream(folder / "log") << "{\"update\":1}\n{\"update\":2}\n{\"upda";
  BOOST_TEST(read_log(folder / "log").size() == 2u);
  std::ofstream(folder / "none") << "{\"upda";
  BOOST_TEST(read_log(folder / "none").empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_log_is_refused_and_named) {
  Folder folder;
  const std::string path = (folder / "log").string();
  auto refusal = [&](const std::string& text) {
    std::ofstream(path) << text;
    const std::string message = message_of([&] { RunLog(path, 10); });
    BOOST_TEST(contents(path) == text);  // nothing is lost
    return message;
  };
  BOOST_TEST(refusal("{\"update\":1}\nx\n").starts_with(path + ":2: not a file that a run wrote: "));
  BOOST_TEST(refusal("{\"update\":1}\n{\"step\":2}\n").starts_with(path + ":2: not a file that a run wrote: "));
  BOOST_TEST(refusal("{\"update\":\"1\"}\n").starts_with(path + ":1: not a file that a run wrote: "));
  BOOST_TEST(message_of([&] { read_log(folder / "none"); }) ==
             (folder / "none").string() + ": cannot be read: No such file or directory");
  BOOST_TEST(message_of([&] { RunLog(folder.path, 1); }) == folder.path.string() + ": is a directory, expected a file");
  BOOST_TEST(contains(message_of([&] { RunLog(folder / "no" / "log", 0); }), "cannot be written: No such file"));
}

BOOST_AUTO_TEST_SUITE_END()
