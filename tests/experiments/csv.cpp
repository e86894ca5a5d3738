#include "experiments/support/program/csv.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <random>

#include <boost/test/unit_test.hpp>

#include "tests/files.h"

using namespace fovea;

static const std::vector<std::string> columns{"step", "loss", "note, \"quoted\""};

static void write_rows(MetricsFile& file, int from, int to) {
  for (int step = from; step <= to; ++step) {
    file.row(step, {1.0 / step, step % 7 == 0 ? "a \"b\",\nc" : ""});
    if (step % 5 == 0) file.row(step, {CsvValue(), "dev"});
  }
}

BOOST_AUTO_TEST_SUITE(csv)

BOOST_AUTO_TEST_CASE(fields_survive_writing_and_reading) {
  Folder folder;
  {
    MetricsFile file(folder / "m.csv", {"step", "a", "b", "c"});
    file.row(1, {0.1, "x,y\r\n\"z\"", -3});
    file.row(1, {0.1f, "", std::int64_t(1) << 60});
    file.row(2, {std::nan(""), std::numeric_limits<double>::infinity()});
  }
  BOOST_TEST(contents(folder / "m.csv") ==
             "step,a,b,c\n1,0.1,\"x,y\r\n\"\"z\"\"\",-3\n1,0.1,,1152921504606846976\n2,nan,inf,\n");
  auto metrics = read_metrics(folder / "m.csv");
  BOOST_REQUIRE(metrics.rows.size() == 3u);
  BOOST_TEST(metrics.rows[0][2] == "x,y\r\n\"z\"");
  BOOST_TEST(metrics.numbers("a")[0] == 0.1);
  BOOST_TEST(std::isnan(metrics.numbers("a")[2]));
  BOOST_TEST(metrics.numbers("c")[1] == 1152921504606846976.0);
  BOOST_TEST(std::isnan(metrics.numbers("c")[2]));
  auto [x, y] = metrics.curve("step", "a");
  BOOST_TEST((x == std::vector<double>{1, 1}));
  BOOST_TEST((y == std::vector<double>{0.1, 0.1}));
  BOOST_TEST(message_of([&] { metrics.numbers("stpe"); }) ==
             "metrics: there is no column 'stpe'; did you mean 'step'?");
  BOOST_TEST(contains(message_of([&] { metrics.numbers("b"); }), "is not a number"));
}

BOOST_AUTO_TEST_CASE(a_continued_file_equals_an_uninterrupted_one) {
  Folder folder;
  {
    MetricsFile whole(folder / "whole.csv", columns);
    write_rows(whole, 1, 40);
  }
  std::string expected = contents(folder / "whole.csv");
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    auto path = folder / "cut.csv";
    // killed anywhere after the checkpoint's step was written, even in the middle of a row
    int checkpoint = int(random() % 40);
    std::string head_text;
    {
      MetricsFile head(folder / "head.csv", columns);
      write_rows(head, 1, checkpoint);
      head_text = contents(folder / "head.csv");
    }
    std::size_t cut = head_text.size() + random() % (expected.size() - head_text.size() + 1);
    std::ofstream(path, std::ios::binary) << expected.substr(0, cut);
    {
      auto file = MetricsFile::resume(path, columns, checkpoint);
      write_rows(file, checkpoint + 1, 40);
    }
    BOOST_REQUIRE(contents(path) == expected);
  }
}

BOOST_AUTO_TEST_CASE(a_killed_writer_loses_no_finished_row) {
  Folder folder;
  int status = status_in_child([&] {
    MetricsFile file(folder / "m.csv", columns);
    write_rows(file, 1, 30);
    ::kill(::getpid(), SIGKILL);
    return 0;
  });
  BOOST_TEST(status == -SIGKILL);
  MetricsFile whole(folder / "whole.csv", columns);
  write_rows(whole, 1, 30);
  BOOST_TEST(contents(folder / "m.csv") == contents(folder / "whole.csv"));
}

BOOST_AUTO_TEST_CASE(a_missing_or_headless_file_begins_anew) {
  Folder folder;
  { auto file = MetricsFile::resume(folder / "a.csv", {"step", "x"}, 10); }
  BOOST_TEST(contents(folder / "a.csv") == "step,x\n");
  std::ofstream(folder / "b.csv") << "ste";
  { auto file = MetricsFile::resume(folder / "b.csv", {"step", "x"}, 10); }
  BOOST_TEST(contents(folder / "b.csv") == "step,x\n");
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_and_named) {
  Folder folder;
  auto path = folder / "m.csv";
  std::ofstream(path) << "step,loss\n1,2\nx,3\n";
  auto refusal = [&](std::vector<std::string> names) {
    return message_of([&] { MetricsFile::resume(path, names, 10); });
  };
  BOOST_TEST(refusal({"step", "accuracy"}) == path.string() + ": the columns are step,loss, expected step,accuracy");
  BOOST_TEST(refusal({"step", "loss"}) == path.string() + ":3: 'x' is not a step");
  MetricsFile file(path, {"step", "loss"});
  file.row(5, {1});
  BOOST_TEST(message_of([&] { file.row(4, {1}); }) == path.string() + ": step 4 comes after step 5");
  BOOST_TEST(contains(message_of([&] { file.row(6, {1, 2}); }), "a row has 2 values"));
  BOOST_TEST(contains(message_of([&] { MetricsFile(folder / "no/m.csv", {"step"}); }), "there is no directory"));
  BOOST_TEST(contains(message_of([&] { read_metrics(folder / "none.csv"); }), "cannot be read: No such file"));
  BOOST_TEST(message_of([&] { MetricsFile::resume(folder.path, {"step"}, 1); }) ==
             folder.path.string() + ": is a directory, expected a file");
}

BOOST_AUTO_TEST_SUITE_END()
