#include "experiments/support/record/kept_runs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>
#include <zlib.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/files.h"
#include "experiments/support/text/lines.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

constexpr const char* options_file = "options.json";
constexpr const char* examples_archive = "examples.jsonl.gz";

/// Calls visit(line) for every line of a file, which are JSON. An error names file and line.
void for_lines(const fs::path& file, const std::function<void(const Json&)>& visit) {
  LineReader reader(file);
  for (std::string text; reader.next(text);) {
    const std::string origin = fmt::format("{}:{}", file.string(), reader.number());
    reading_json(origin, [&] { with_flag(origin, [&] { visit(parse_json(text)); }); });
  }
}

/// The files of the directory with a line for each run, sorted.
std::vector<fs::path> run_files(const fs::path& directory) {
  std::vector<fs::path> files;
  if (fs::is_directory(directory))
    for (const auto& entry : fs::directory_iterator(directory))
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// ---- Reading

/// Gives a test the scores of a line of examples.jsonl.gz. The texts of its examples are empty.
void read_scores(TestResult& test, const Json& line) {
  // The names and functions of the scores are those of as many examples of one letter: a mean divides by their number.
  const TestedExample letter{
      .reference = "a", .hypothesis = "a", .likelihood = {.negative_log = 1, .tokens = 1, .words = 1, .characters = 1}};
  const std::vector<TextScore> known =
      scores_of(std::vector<TestedExample>(test.examples.size(), letter), test.metrics, test.options);
  std::vector<TextScore> scores;
  const Json& columns = line.at("columns");
  std::size_t at = 0;
  for (const Json& each : line.at("scores")) {
    const auto found = std::ranges::find_if(known, [&](auto& one) { return one.name == each.at("name"); });
    require(found != known.end() && each.at("width") == found->metric.width,
            "the score '{}' is not one of the run's metrics", text_of(each.at("name")));
    SummedMetric& metric = scores.emplace_back(*found).metric;
    for (std::size_t i = 0; i < metric.width; ++i, ++at) {
      const Json* column = &columns.at(at);
      require(!column->is_number() || *column < at, "column {} stands for column {}, which is not before it", at,
              text_of(*column));
      if (column->is_number()) column = &columns.at(column->get<std::size_t>());
      require(column->size() == test.examples.size(), "column {} has {} values for {} examples", at, column->size(),
              test.examples.size());
      for (std::size_t k = 0; k < column->size(); ++k)
        metric.statistics[k * metric.width + i] = (*column)[k].is_null() ? std::nan("") : (*column)[k].get<double>();
    }
  }
  require(at == columns.size(), "{} columns; the scores have {}", columns.size(), at);
  test.known_scores = std::make_shared<const std::vector<TextScore>>(std::move(scores));
  test.known_lengths = line.value("lengths", std::vector<std::size_t>());
  require(test.known_lengths.empty() || test.known_lengths.size() == test.examples.size(), "{} lengths for {} examples",
          test.known_lengths.size(), test.examples.size());
}

RunResult run_of(const Json& line, const Json& options, const fs::path& directory) {
  RunResult run = result_of(line, [&](TestResult& test) {
    const Json& json = line.at("tests").at(test.set);
    test.examples.resize(json.at("examples").get<std::size_t>());
    test.known_key = json.at("key");
    test.known_scores = std::make_shared<const std::vector<TextScore>>();
  });
  run.name = line.at("run");
  run.made_for = line.at("made_for");
  require(!run.made_for.empty(), "the run {} was made for no row", run.name);
  run.directory = directory / run.name;
  const std::string program = line.at("options").at("program");
  run.configuration = options.value(program, Json::object());
  run.configuration.update(line.at("options"));
  run.log = line.value("evaluations", std::vector<Json>());
  run.starts = line.value("starts", std::vector<Json>());
  return run;
}

// ---- Writing

/// Whole numbers stay exact; others are rounded, to four significant digits for the numbers of examples, which changes
/// sums over a thousand of them in the sixth digit.
Json rounded(double value, int digits = 4) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return std::int64_t(value);
  return std::isfinite(value) ? Json(number<double>(fmt::format("{:.{}g}", value, digits)).value()) : Json();
}

/// The value with paths below the directory of data as {data}/..., and without other absolute paths.
Json without_places(const Json& value, const std::string& data) {
  if (value.is_string()) {
    const std::string text = value;
    if (!data.empty() && text.starts_with(data)) return "{data}" + text.substr(data.size());
    return text.starts_with('/') ? fs::path(text).filename().string() : text;
  }
  Json result = value;
  if (value.is_object())
    for (auto& [key, each] : result.items()) each = without_places(each, data);
  return result;
}

/// The lines of the log with evaluations, without what other lines are for.
Json evaluations_of(const RunResult& run) {
  Json kept = Json::array();
  for (const Json& line : log_of(run)) {
    if (!line.contains("dev")) continue;
    Json& one = kept.emplace_back(Json{{"update", line.at("update")}, {"dev", Json::object()}});
    if (line.value("unsmoothed_loss", Json()).is_number()) one["unsmoothed_loss"] = rounded(line["unsmoothed_loss"], 6);
    for (const auto& [score, value] : line["dev"].items())
      one["dev"][score] = value.is_number() ? rounded(value, 6) : value;
  }
  return kept;
}

/// The options that do not have the values of `common`.
Json differing(const Json& options, const Json& common) {
  Json kept = Json::object();
  for (const auto& [name, value] : options.items())
    if (!common.contains(name) || common[name] != value) kept[name] = value;
  return kept;
}

Json line_of(const RunResult& run, const Json& configuration, const Json& common) {
  Json line{{"run", run.name}, {"made_for", run.made_for}};
  line.update(to_json(run));
  for (const TestResult& test : run.tests) line["tests"][test.set]["key"] = test.key();
  line["options"] = differing(configuration, common);
  line["evaluations"] = evaluations_of(run);
  for (const Json& start : starts_of(run)) line["starts"].push_back(start_without_places(start));
  return line;
}

Json line_of(const RunResult& run, const TestResult& test, const KeepsScore& keeps) {
  Json line{{"run", run.name},
            {"set", test.set},
            {"lengths", test.lengths()},
            {"scores", Json::array()},
            {"columns", Json::array()}};
  std::vector<Json> columns;
  for (const TextScore& score : test.scores()) {
    if (&score != &test.scores().front() && !keeps(run, score.name)) continue;
    const std::size_t width = score.metric.width;
    line["scores"].push_back({{"name", score.name}, {"width", width}});
    for (std::size_t i = 0; i < width; ++i) {
      Json column = Json::array();
      for (std::size_t k = i; k < score.metric.statistics.size(); k += width)
        column.push_back(rounded(score.metric.statistics[k]));
      const auto same = std::ranges::find(columns, column);
      line["columns"].push_back(same == columns.end() ? column : Json(same - columns.begin()));
      columns.push_back(std::move(column));
    }
  }
  return line;
}

std::string text_of_lines(const Json& lines) {
  std::string text;
  for (const Json& line : lines) text += text_of(line) + "\n";
  return text;
}

/// Replaces the file by this text, compressed by gzip.
void write_compressed(const fs::path& file, const std::string& text) {
  const fs::path partial = file.string() + ".partial";
  const gzFile to = ::gzopen(partial.c_str(), "wb9");
  const bool is_written = to && ::gzfwrite(text.data(), 1, text.size(), to) == text.size();
  const bool is_closed = to && ::gzclose(to) == Z_OK;
  require(is_written && is_closed, "{}: cannot be written", partial.string());
  fs::rename(partial, file);
}

/// Adds a line to those of a file, or puts it in the place of that of the same run and test set.
void put(Json& lines, const Json& line) {
  lines[line.at("run").get<std::string>() + " " + line.value("set", "")] = line;
}

}  // namespace

fs::path kept_runs_directory() { return data_directory("results"); }

std::vector<RunResult> load_kept_runs(const fs::path& directory) {
  if (run_files(directory).empty() || !fs::exists(directory / options_file)) return {};
  const Json options = load_json(directory / options_file);
  std::vector<RunResult> runs;
  std::map<std::string, std::size_t> by_name;
  for (const fs::path& file : run_files(directory))
    for_lines(file, [&](const Json& line) {
      runs.push_back(run_of(line, options, directory));
      by_name[runs.back().name] = runs.size() - 1;
    });
  if (fs::exists(directory / examples_archive))
    for_lines(directory / examples_archive, [&](const Json& line) {
      const auto run = by_name.find(line.at("run"));
      require(run != by_name.end(), "the run {} is in no file beside this one", text_of(line.at("run")));
      for (TestResult& test : runs[run->second].tests)
        if (test.set == line.at("set")) read_scores(test, line);
    });
  for (const RunResult& run : runs)
    for (const TestResult& test : run.tests)
      require(!test.scores().empty(), "{}: has no scores of the run {} and the test set {}",
              (directory / examples_archive).string(), run.name, test.set);
  return runs;
}

void save_kept_runs(const std::vector<RunResult>& runs, const fs::path& data, const KeepsScore& keeps,
                    const fs::path& directory) {
  fs::create_directories(directory);
  std::map<fs::path, Json> files;
  Json examples = Json::object();
  for (const fs::path& file : run_files(directory)) for_lines(file, [&](const Json& line) { put(files[file], line); });
  if (fs::exists(directory / examples_archive))
    for_lines(directory / examples_archive, [&](const Json& line) { put(examples, line); });
  Json options = fs::exists(directory / options_file) ? load_json(directory / options_file) : Json::object();
  for (const RunResult& run : runs) {
    Json configuration = without_places(run.configuration, data.string());
    configuration.erase("made-for");
    const std::string program = configuration.at("program");
    if (!options.contains(program)) {
      options[program] = configuration;
      for (const char* own : {"program", "seed"}) options[program].erase(own);
    }
    const std::string& first = run.made_for.at(0);
    const fs::path file = directory / (first.substr(0, first.find_first_of("-,:")) + ".jsonl");
    put(files[file], line_of(run, configuration, options[program]));
    for (const TestResult& test : run.tests) put(examples, line_of(run, test, keeps));
  }
  for (const auto& [file, lines] : files) write_file_atomically(file, text_of_lines(lines));
  write_compressed(directory / examples_archive, text_of_lines(examples));
  save_json(directory / options_file, options);
}

}  // namespace fovea
