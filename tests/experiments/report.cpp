#include <cmath>
#include <limits>
#include <map>

#include <boost/test/unit_test.hpp>

#include "experiments/support/analysis/analyzed_run.h"
#include "experiments/support/record/record.h"
#include "experiments/support/report/attention_pictures.h"
#include "experiments/support/report/html.h"
#include "experiments/support/report/run_collection.h"
#include "experiments/support/report/svg.h"
#include "tests/experiments/markup.h"
#include "tests/experiments/programs.h"

using namespace fovea;

namespace {

const std::string hostile = "</script><b a=\"x\" b='y'>&amp;\x01\n\xff\u202e]]>";

HeadMaps example_map() {
  return {.title = hostile,
          .queries = {"the", hostile},
          .keys = {"a", "<s>", "&"},
          .heads = {{.values = {.1, .2, .7, 0, 1, -.5}}}};
}

/// The drawing of maps without their colour scale, which consists of cells, too.
std::string without_scale(const std::string& svg) { return svg.substr(0, svg.rfind("<g class=\"cells\"")); }

std::vector<double> ticks_of(double low, double high) {
  return AxisScale({}, {low, high}, AxisScale::Ends::at_data, 0, 1).ticks();
}

/// A run in `directory`. Its answers are right where `right` has a 1; without answers its training diverged.
RunResult saved_run(const std::filesystem::path& directory, const std::string& program, const std::string& row,
                    const std::string& right) {
  std::filesystem::create_directories(directory);
  RunResult run{.row = row, .directory = directory, .parameters = 10};
  run.configuration = Json{{"program", program}, {"data", "some"}, {"attention", row}};
  TestResult test{.metrics = {"accuracy"}};
  for (char one : right)
    test.examples.push_back({.input = "a", .reference = "yes", .hypothesis = one == '1' ? "yes" : "no"});
  if (program == "translate") test.measurements.push_back({"AER", 0.5, 3});
  if (right.empty())
    run.failure = "training diverged at update 2";
  else
    run.tests = {test};
  save_result(run);
  return run;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report)

BOOST_AUTO_TEST_CASE(the_checker_of_markup_can_fail) {
  BOOST_TEST(markup_error("<p>a &amp; b</p>") == "");
  for (const char* wrong : {"<p>", "<p></b></p>", "<p>a & b</p>", "<p title=\"<\"></p>", "</p>"}) {
    BOOST_TEST(markup_error(wrong) != "");
  }
}

BOOST_AUTO_TEST_CASE(hostile_tokens_are_shown_not_obeyed) {
  std::string escaped = escape_html(hostile);
  BOOST_TEST(escaped == "&lt;/script&gt;&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;␁␊\ufffd\ufffd]]&gt;");
  const LineChart chart{hostile, {hostile}, {hostile}, {{hostile, {1, 2}, {3, 4}, {}}}};
  LineChart cloud = chart;
  cloud.points = true;
  Finding finding{.title = hostile, .notes = {hostile}, .outputs = {hostile}, .origin = hostile};
  finding.tables = {{hostile, Table({hostile, "b"}).row({hostile, 1}), hostile}};
  finding.figures = {example_map(), chart, cloud};
  finding.sections = {{.title = hostile, .subtitle = hostile, .notes = {hostile}}, {.title = "two"}};
  const std::string html = html_of(finding);
  BOOST_TEST(markup_error(html) == "");
  for (const char* wrong : {"<b a=", "\x01", "\xff", "\u202e"}) BOOST_TEST(!contains(html, wrong));
}

BOOST_AUTO_TEST_CASE(a_page_stands_alone) {
  Finding finding{.title = "agreement"};
  finding.sections.push_back({.title = "Attention", .notes = {"end"}, .figures = {example_map(), example_map()}});
  finding.sections_of_page = [] { return std::vector<Finding>{{.title = "Later"}}; };
  const std::string html = html_of(finding);
  BOOST_TEST(html.starts_with("<!DOCTYPE html>"));
  for (const char* outside : {"<script", "src=", "@import", "url(", "<link", "href=\"http"}) {
    BOOST_TEST(!contains(html, outside));
  }
  BOOST_TEST(count(html, "http") == count(html, "http://www.w3.org/2000/svg"));  // a name, never fetched
  BOOST_TEST(contains(html, "<a href=\"#section-2\">Later</a>"));
  BOOST_TEST(count(html, "<div class=\"figures\">") == 1u);  // both maps side by side
  BOOST_TEST(!contains(contents_of(finding, Format::markdown), "Later"));
}

BOOST_AUTO_TEST_CASE(maps_of_heads_share_a_colour_scale_and_show_centres) {
  HeadMaps maps{.title = "weights", .queries = {"the", hostile}, .keys = {"a", "<s>", "&"}};
  maps.heads.push_back({.name = "head 1", .values = {.1, .2, .7, 0, 1.4, std::nan("")}});
  maps.heads.push_back({.name = "head 2", .values = {.7, 0, 0, 0, 0, -.7}, .center = {0, 1.5}, .width = {.5, 40}});
  std::string text = svg(maps);
  BOOST_TEST(markup_error(text) == "");
  BOOST_TEST(count(without_scale(text), "h1v1h-1z") == 7u);  // the zeros are left to the panel
  BOOST_TEST(contains(text, "<path fill-opacity=\"1\" d=\"M1 1h1v1h-1z\"/>"));
  BOOST_TEST(contains(text, "<path fill-opacity=\"0.5\" d=\"M2 0h1v1h-1z\"/>"));  // .7 of 1.4, also in head 2:
  BOOST_TEST(contains(text, "<path fill-opacity=\"0.5\" d=\"M0 0h1v1h-1z\"/>"));
  BOOST_TEST(contains(text, "<path class=\"cold\" fill-opacity=\"0.5\" d=\"M2 1h1v1h-1z\"/>"));
  BOOST_TEST(contains(text, "<path class=\"missing\" d=\"M2 1h1v1h-1z\"/>"));
  BOOST_TEST(count(text, "<circle class=\"center\"") == 2u);
  BOOST_TEST(count(text, "class=\"spread\"") == 2u);
  BOOST_TEST(contains(text, "orange: the window&#39;s center and width"));
  BOOST_TEST(markup_error(svg(HeadMaps{})) == "");
  HeadMaps one = example_map();
  one.heads[0].marked = {{1, 2}};
  one.heads[0].values[0] = -std::numeric_limits<double>::infinity();
  BOOST_TEST(markup_error(svg(one)) == "");
  for (const char* style : {"class=\"marked\"", "<path class=\"missing\"", "<path class=\"cold\""})
    BOOST_TEST(count(without_scale(svg(one)), style) == 1u, style);
}

BOOST_AUTO_TEST_CASE(gaps_break_a_curve_and_bad_values_never_reach_the_drawing) {
  double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  LineChart chart{"loss", {"step"}, {"nats"}, {}};
  chart.series.push_back({"a", {1, 2, 3, 4, 5, 6, 7}, {1, 2, nan, 4, infinity, 5, -infinity}, {}});
  chart.series.push_back({"b", {1, 2, 3}, {1, 2, 3}, {.5, nan, 5}});
  std::string text = svg(chart);
  BOOST_TEST(markup_error(text) == "");
  BOOST_TEST(!contains(text, "nan"));
  BOOST_TEST(!contains(text, "inf"));
  std::string path = text.substr(text.rfind("<path class=\"curve c0\""));  // behind that of the legend
  path = path.substr(0, path.find("/>"));
  BOOST_TEST(count(path, "M") == 3u);  // 1 2 | 4 | 5
  BOOST_TEST(count(path, "L") == 1u);
}

BOOST_AUTO_TEST_CASE(a_cloud_of_points_is_one_path) {
  Series few, many;
  for (int i = 0; i < 500; ++i) {
    Series& series = i < 100 ? few : many;
    series.x.push_back(i), series.y.push_back(std::sin(i * 0.7));
    if (i < 100) many.x.push_back(-i), many.y.push_back(i % 7);
  }
  const std::string text = svg(LineChart{"", {"x"}, {"y"}, {few, many}, true});
  for (const char* series : {"c0", "c1"})
    BOOST_TEST(count(text, std::string("<path class=\"dots cloud ") + series) == 1u);
  BOOST_TEST(count(text, "h0") == 600u);
}

BOOST_AUTO_TEST_CASE(an_axis_of_tokens_has_their_texts_in_place_of_numbers) {
  Series series;
  std::vector<std::string> tokens;
  for (int i = 0; i < 90; ++i) {
    series.x.push_back(i), series.y.push_back(i * i);
    tokens.push_back(fmt::format("<t{}>", i));
  }
  const std::string all = svg(LineChart{"", {"key", {"Haus", "<b>"}}, {}, {{.x = {0, 1}, .y = {2, 5}}}});
  for (const char* part : {">Haus</text>", ">&lt;b&gt;</text>", ">key</text>", "rotate(-90"})
    BOOST_TEST(contains(all, part), part);
  BOOST_TEST(!contains(all, ">0.2</text>"));
  const std::string many = svg(LineChart{"", {"key", tokens}, {}, {series}});
  BOOST_TEST(contains(many, "&lt;t0&gt;"));
  BOOST_TEST(!contains(many, "&lt;t1&gt;"));  // would be written over the first
}

BOOST_AUTO_TEST_CASE(curves_of_one_colour_differ_in_their_strokes) {
  LineChart chart;
  for (int k = 0; k < 18; ++k) chart.series.push_back({.name = std::to_string(k), .x = {0, 1}, .y = {0, double(k)}});
  const std::string text = svg(chart);
  for (const char* style : {"curve c1\"", "curve c1 dashed\"", "curve c1 dotted\""})  // series 1, 9 and 17
    BOOST_TEST(count(text, style) == 2u, style);                                      // in the legend and in the plot
}

BOOST_AUTO_TEST_CASE(charts_without_data_say_so) {
  for (const std::string& text :
       {svg(LineChart{"t", {"x"}, {"y"}, {}}), svg(LineChart{"t", {"x"}, {"y"}, {{"s", {}, {}, {}}}, true})}) {
    BOOST_TEST(markup_error(text) == "");
    BOOST_TEST(contains(text, "no data"));
    BOOST_TEST(!contains(text, "nan"));
  }
}

BOOST_AUTO_TEST_CASE(ticks_are_round_and_inside) {
  BOOST_TEST((ticks_of(0, 100) == std::vector<double>{0, 20, 40, 60, 80, 100}));
  for (double low : {-1e6, -3.7, -1e-7, 0.0, 1e-9, 42.0}) {
    for (double span : {1e-9, 0.3, 7.0, 12345.0, 1e12}) {
      auto ticks = ticks_of(low, low + span);
      bool is_tiny = span < 1e-12 * std::abs(low);
      if (is_tiny) continue;
      BOOST_TEST(ticks.size() <= 12u);
      for (double tick : ticks) {
        BOOST_TEST(tick >= low - 1e-6 * span);
        BOOST_TEST(tick <= low + span * (1 + 1e-6));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_range_of_neighbouring_doubles_has_few_ticks) {
  BOOST_TEST(ticks_of(1e17, 1e17 + 16).size() <= 12u);  // the next whole number of steps is no double
  BOOST_TEST(ticks_of(-1e30, std::nextafter(-1e30, 0)).size() <= 12u);
}

BOOST_AUTO_TEST_CASE(labels_are_short) {
  const auto label = [](double high, double tick) {
    return AxisScale({}, {-high, high}, AxisScale::Ends::at_ticks, 0, 1).label(tick);
  };
  BOOST_TEST(label(30000, 20000) == "20000");
  BOOST_TEST(label(0.4, -0.2) == "−0.2");
  BOOST_TEST(label(0.4, 1e-17) == "0");
  BOOST_TEST(label(1, 0.6000000000000001) == "0.6");
}

BOOST_AUTO_TEST_CASE(each_of_several_groups_has_its_name_in_every_format) {
  Folder folder;
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  saved_run(a, "agreement", "global", "1100");
  saved_run(b, "translate", "gaussian", "1110");
  const auto report = [&](const char* format) {
    const Ended made = succeeded(ended("report", {a, b, "--format", format}));
    BOOST_TEST(made.err == "The runs form 2 groups (other program or other test set); each gets its own table.\n");
    return made.out;
  };
  const Json json = Json::parse(report("json"));
  BOOST_TEST_REQUIRE(json.at("tables").size() == 2u);
  BOOST_TEST(json["tables"][0].at("name") == "agreement: some, test: 4 examples");
  BOOST_TEST(json["tables"][0].at("rows").at(0).at("model") == "global");
  BOOST_TEST(json["tables"][1].at("rows").at(0).at("AER") == 0.5);
  BOOST_TEST(
      report("csv").starts_with("table,model,accuracy %,parameters,AER\n"
                                "\"agreement: some, test: 4 examples\",global,50,10,\n"
                                "\"translate: some, test: 4 examples\",gaussian,75,10,0.5\n# Printed 20"));
  const std::string latex = report("latex");
  BOOST_TEST(latex.starts_with(
                 "% The tables need \\usepackage{booktabs}\n% agreement: some, test: 4 examples\n\\begin{tabular}"),
             latex);
  BOOST_TEST(contains(latex, "\n% translate: some, test: 4 examples\n\\begin{tabular}"), latex);
  BOOST_TEST(contains(report("markdown"), "\n## translate: some, test: 4 examples\n\n"));
}

BOOST_AUTO_TEST_CASE(notes_and_captions_are_folded_for_a_terminal_alone) {
  std::string words = "word";
  for (int k = 0; k < 99; ++k) words += fmt::format(" w{}", k);
  Table table({"a"});
  table.row({1});
  const Finding finding{.title = "t", .notes = {words}, .tables = {{"", table, words + "\nsecond line"}}};
  const std::string text = contents_of(finding, Format::text);
  for (const std::string_view line : split_columns(text, '\n')) BOOST_TEST(display_width(line) <= 120u, line);
  BOOST_TEST(contains(text, "\nsecond line\n"), text);
  BOOST_TEST(contains(contents_of(finding, Format::markdown), words + "\nsecond line\n"));
}

BOOST_AUTO_TEST_CASE(damaged_runs_are_refused_and_failed_ones_named) {
  Folder folder;
  saved_run(folder / "good", "agreement", "global", "1100");
  saved_run(folder / "diverged", "sentiment", "gaussian", "");
  const std::string diverged = (folder / "diverged").string() + ": training diverged at update 2\n";
  const Ended all = succeeded(ended("report", {folder.path.string()}));
  BOOST_TEST(contains(all.out, "\nglobal "), all.out);
  BOOST_TEST(all.err == diverged);
  BOOST_TEST(refusal_of(ended("report", {(folder / "diverged").string()})) == "report: " + diverged);
  const Folder others;
  for (const char* name : {"a", "b", "c"}) saved_run(others / name, "sentiment", "gaussian", "");
  const std::string three = refusal_of(ended("report", {others.path.string()}));
  BOOST_TEST(contains(three, "at update 2; "), three);
  BOOST_TEST(!contains(three, "at update 2, "), three);
  saved_run(folder / "truncated", "agreement", "gaussian", "1100");
  std::filesystem::resize_file(folder / "truncated/result.json", 50);
  const Ended damaged = ended("report", {folder.path.string()});
  BOOST_TEST(damaged.status == 2);
  BOOST_TEST(contains(damaged.err, (folder / "truncated/result.json").string() + ": not JSON, or cut short, at line "),
             damaged.err);
  BOOST_TEST(damaged.err.ends_with("report: 1 run is damaged, named above; to have it, delete its result.json and "
                                   "--resume it; the others are complete\n"),
             damaged.err);
  BOOST_TEST(contains(damaged.out, "\nglobal "), damaged.out);
  for (const char* other : {"[]", "5", R"({"number": "x"})", "{}"}) {
    std::ofstream(folder / "truncated/result.json") << other;
    const Ended strange = ended("report", {folder.path.string()});
    BOOST_TEST((strange.status == 2 && contains(strange.out, "\nglobal ")), strange.err);
  }
}

BOOST_AUTO_TEST_CASE(wrong_formats_and_places_are_refused_with_what_would_be_right) {
  Folder folder;
  const std::string run = (folder / "run").string(), out = (folder / "out").string();
  saved_run(run, "agreement", "global", "1100");
  std::ofstream(folder / "animals.tsv") << "a cat\tblue\n";
  std::filesystem::create_directories(out);
  const std::string advice = ": a table is no picture; use text, markdown, latex, csv, json or html\n";
  const std::map<std::vector<std::string>, std::string> mistakes{
      {{run, "--format", "svg"}, "report: --format svg" + advice},
      {{run, "--out", out + "/f.svg"}, "report: --out " + out + "/f.svg" + advice},
      {{run, "--out", out + "/t.tex", "--format", "csv"},
       "report: --out " + out +
           "/t.tex: the ending is that of latex, but --format is csv; leave --format out, or change the ending\n"},
      {{run, "--out", out}, "report: --out " + out + ": names a directory, expected a file\n"},
      {{run, "--out", out + "/"}, "report: --out " + out + "/: names a directory, expected a file\n"},
      {{run, "--out", "/proc/x.csv"}, "report: /proc/x.csv: cannot be written: no file can be made in '/proc'\n"},
      {{(folder / "animals.tsv").string()},
       "report: " + (folder / "animals.tsv").string() + ": is a file, expected the directory of runs\n"}};
  for (const auto& [flags, message] : mistakes) {
    BOOST_TEST(refusal_of(ended("report", flags)) == message);
  }
  BOOST_TEST(std::filesystem::is_empty(out));
  succeeded(ended("report", {run, "--out", out + "/t.tex", "--format", "latex"}));
  succeeded(ended("report", {run, "--out", out + "/t.dat", "--format", "csv"}));
}

BOOST_AUTO_TEST_CASE(a_run_json_of_any_content_stops_no_report) {
  Folder folder;
  saved_run(folder / "a", "agreement", "global", "1100");
  for (const char* content :
       {"3", "{", "{\"started\": {}}", "[3, null, {\"started\": 7, \"machine\": [], \"commit\": null}]"}) {
    std::ofstream(folder / "a/run.json") << content;
    for (const std::vector<std::string>& flags : {std::vector<std::string>{}, {"--format", "html"}}) {
      const Ended done = ended("report", joined({folder.path.string()}, flags));
      BOOST_TEST(done.status == 0, content << ": " << done.err);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_others_are_tested_against_the_row_of_the_run_that_is_named_first) {
  Folder folder;
  saved_run(folder / "a", "agreement", "global", "1100");
  saved_run(folder / "b", "agreement", "gaussian", "");
  saved_run(folder / "c", "agreement", "relative", "1110");
  for (const auto& [first, title] : {std::pair("a", "global"), {"c", "relative"}, {"b", "global"}}) {
    const Ended done = ended("report", {(folder / first).string(), folder.path.string()});
    BOOST_TEST(contains(done.out, fmt::format(" against '{}', two-sided", title)), done.out << done.err);
    BOOST_TEST(count(done.out, "\nrelative ") == 1u, done.out);
  }
}

BOOST_AUTO_TEST_CASE(trials_without_a_test_are_left_out) {
  Folder folder;
  for (const char* name : {"run", "trial"}) {
    std::filesystem::create_directories(folder / name);
    RunResult run{.row = name, .directory = folder / name};
    run.training = {.updates = 4, .score_name = "accuracy", .best_score = 50};
    if (run.row == "run") run.tests = {{.examples = {{.reference = "a", .hypothesis = "a"}}, .metrics = {"accuracy"}}};
    save_result(run);
  }
  const std::vector<RunResult> loaded = load_runs({folder.path}).runs;
  BOOST_TEST_REQUIRE(loaded.size() == 1u);
  BOOST_TEST(loaded[0].row == "run");
}

BOOST_AUTO_TEST_CASE(a_run_without_a_row_is_named_after_its_directory) {
  Folder folder;
  RunResult run{.row = "model", .directory = folder / "b"};
  for (const char* same : {"b", "b/", "b/.", "c/../b"}) {
    run.directory = folder / same;
    BOOST_TEST(title_of(run) == "b", same);
  }
  run.directory = folder / "b" / "model-seed-1", run.number = 1;  // of several
  BOOST_TEST(title_of(run) == "b");
  run.directory = folder / "b", run.number = 0;
  BOOST_TEST(title_of_run(folder.path) == folder.path.filename().string());  // not finished
  run.directory = folder / "b", run.row = "global", run.trial = "rate=1";
  std::filesystem::create_directories(run.directory);
  save_result(run);
  BOOST_TEST(title_of(run) == "global");
  BOOST_TEST(title_of_run(run.directory) == "global rate=1");
}

BOOST_AUTO_TEST_CASE(pictures_of_attentions_are_read_as_they_were_written) {
  Folder folder;
  save_pictures(folder.path, {{"a b", {example_map()}}});
  const std::optional<Finding> section =
      attention_section({{"gaussian", "Seed 1.", folder.path}, {"none", "", "none"}});
  BOOST_TEST_REQUIRE((section && section->sections.size() == 1u));
  BOOST_TEST(section->sections[0].subtitle == "gaussian");
  BOOST_TEST(section->sections[0].sections.at(0).figures.at(0).svg == svg(example_map()));
}

BOOST_AUTO_TEST_CASE(a_drawing_of_its_own_needs_no_browser) {
  const std::string lines =
      file_of(svg(LineChart{.title = "loss", .series = {{.name = "a", .x = {1, 2}, .y = {3, 1}}}}));
  for (const std::string& text : {file_of(svg(example_map())), lines}) {
    BOOST_TEST(text.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg "));
    BOOST_TEST(markup_error(text) == "");
    for (const char* of_browsers : {"var(", "--c", "@media", "color-scheme"})
      BOOST_TEST(!contains(text, of_browsers), of_browsers << " in\n" << text);
    BOOST_TEST(contains(text, "fill=\"#ffffff\"/>"));  // a dark page does not shine through
  }
  BOOST_TEST(contains(lines, ".c0 { color: #0b6fb8; }"), lines);
}

BOOST_AUTO_TEST_CASE(an_axis_does_not_pass_the_bounds_of_what_it_measures) {
  const Axis accuracy{.label = "accuracy", .least = 0, .most = 100};
  const auto range = [&](const std::vector<double>& values) {
    const AxisScale scale(accuracy, values, AxisScale::Ends::at_ticks, 0, 10);
    return std::pair(scale.low(), scale.high());
  };
  BOOST_TEST((range({-4, 71, 103}) == std::pair(0.0, 100.0)));  // as a band of means and deviations may
  BOOST_TEST((range({100, 100}) == std::pair(90.0, 100.0)));
  BOOST_TEST(AxisScale(accuracy, {}, AxisScale::Ends::at_ticks, 0, 10).pixel(103) == 10);
}

BOOST_AUTO_TEST_SUITE_END()
