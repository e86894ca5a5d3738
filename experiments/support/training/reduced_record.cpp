#include "experiments/support/training/reduced_record.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/core.h>
#include <zlib.h>

#include "experiments/support/text/lines.h"
#include "experiments/support/text/number.h"
#include "tensor/error.h"
#include "tensor/support/atomic_file.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

/// The bytes as a gzip file, without a name and a date: equal contents give equal files.
std::string gzipped(const std::string& bytes) {
  z_stream stream{};
  constexpr int window_bits = 15 + 16;  // the largest window, and a gzip header
  require(::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY) == Z_OK,
          "gzip: no memory");
  std::string packed(::deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int ended = ::deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  ::deflateEnd(&stream);
  require(ended == Z_STREAM_END, "gzip: failed with code {}", ended);
  return packed;
}

/// Whole numbers stay exact; others are rounded to four significant digits, which changes sums over a thousand examples
/// in the sixth digit.
Json rounded(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return std::isfinite(value) ? Json(number<double>(fmt::format("{:.4g}", value)).value()) : Json();
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

void save_starts(const RunResult& run, const fs::path& directory) {
  Json starts = Json::array();
  for (const fs::path& place : {run.directory, run.directory.parent_path()})
    if (starts.empty() && fs::exists(place / "run.json"))
      for (const Json& start : load_json(place / "run.json")) {
        Json kept;
        for (const char* key : {"started", "version", "commit", "processor", "threads", "gpu"})
          if (start.contains(key)) kept[key] = start.at(key);
        starts.push_back(kept);
      }
  save_json(directory / "run.json", starts);
}

/// Keeps the lines of the log with evaluations.
void save_log(const RunResult& run, const fs::path& directory) {
  std::string kept;
  std::ifstream log(run.directory / "log.jsonl");
  for (std::string line; std::getline(log, line);)
    if (parse_json(line).contains("dev")) kept += line + "\n";
  write_file_atomically(directory / "log.jsonl", kept);
}

}  // namespace

void save_statistics(const TestResult& test, const fs::path& file) {
  Json head = {{"examples", test.examples.size()}, {"key", test.key()}, {"scores", Json::array()}};
  std::vector<Json> columns;
  const auto add = [&](const auto& value_of) {
    Json& column = columns.emplace_back(Json::array());
    for (std::size_t k = 0; k < test.examples.size(); ++k) column.push_back(value_of(k));
  };
  add([&](std::size_t k) { return test.examples[k].group; });
  for (const TextScore& score : test.scores()) {
    const std::size_t width = score.metric.width;
    head["scores"].push_back({{"name", score.name}, {"width", width}});
    for (std::size_t i = 0; i < width; ++i)
      add([&](std::size_t k) { return rounded(score.metric.statistics[k * width + i]); });
  }
  if (!test.examples.empty() && !test.examples.front().probabilities.empty()) {
    add([&](std::size_t k) { return test.examples[k].reference; });
    add([&](std::size_t k) { return test.examples[k].hypothesis; });
  }
  std::string lines = text_of(head) + "\n";
  for (auto column = columns.begin(); column != columns.end(); ++column) {
    const auto same = std::find(columns.begin(), column, *column);
    lines += (same == column ? text_of(*column) : std::to_string(same - columns.begin())) + "\n";
  }
  write_file_atomically(file, gzipped(lines));
}

void load_statistics(TestResult& test, const fs::path& file) {
  LineReader reader(file);
  std::string text;
  require(reader.next(text), "{}: the file is empty", file.string());
  std::vector<TextScore> kept;
  reading_json(file.string(), [&] {
    const Json head = parse_json(text);
    test.known_key = head.at("key");
    // Examples of one letter make the names and functions of the scores. A mean's function knows their number.
    const TestedExample letter{.reference = "a",
                               .hypothesis = "a",
                               .likelihood = {.negative_log = 1, .tokens = 1, .words = 1, .characters = 1}};
    test.examples.assign(head.at("examples").get<std::size_t>(), letter);
    const std::vector<TextScore> scores = scores_of(test.examples, test.metrics, test.options);
    std::fill(test.examples.begin(), test.examples.end(), TestedExample());
    for (const Json& each : head.at("scores")) {
      auto found =
          std::find_if(scores.begin(), scores.end(), [&](const auto& one) { return one.name == each.at("name"); });
      require(found != scores.end() && found->metric.width == each.at("width").get<std::size_t>(),
              "{}: the score '{}' is not one of the record's metrics", file.string(), text_of(each.at("name")));
      kept.push_back(*found);
    }
  });
  std::vector<Json> columns;
  while (reader.next(text))
    reading_json(fmt::format("{}:{}", file.string(), reader.number()), [&] {
      Json line = parse_json(text);
      columns.push_back(line.is_number() ? columns.at(line.get<std::size_t>()) : std::move(line));
      require(columns.back().size() == test.examples.size(), "{}:{}: {} values for {} examples", file.string(),
              reader.number(), columns.back().size(), test.examples.size());
    });
  std::size_t at = 1;
  for (const TextScore& score : kept) at += score.metric.width;
  require(columns.size() == at || columns.size() == at + 2, "{}: {} columns; expected {}, or two more for the answers",
          file.string(), columns.size(), at);
  reading_json(file.string(), [&] {
    at = 1;
    for (TextScore& score : kept) {
      const std::size_t width = score.metric.width;
      for (std::size_t i = 0; i < width; ++i, ++at)
        for (std::size_t k = 0; k < test.examples.size(); ++k) {
          const Json& value = columns[at][k];
          score.metric.statistics[k * width + i] = value.is_null() ? std::nan("") : value.get<double>();
        }
    }
    for (std::size_t k = 0; k < test.examples.size(); ++k) {
      test.examples[k].group = columns[0][k];
      if (at < columns.size())
        test.examples[k].reference = columns[at][k], test.examples[k].hypothesis = columns[at + 1][k];
    }
  });
  test.known_scores = std::make_shared<const std::vector<TextScore>>(std::move(kept));
}

void save_reduced(const RunResult& run, const fs::path& data, const fs::path& directory) {
  fs::create_directories(directory);
  RunResult reduced = run;
  reduced.directory = directory;
  reduced.configuration = without_places(run.configuration, data.string());
  reduced.goal = without_places(run.goal, data.string());
  save_starts(run, directory);
  save_log(run, directory);
  save_result(reduced, RecordForm::reduced);
}

}  // namespace fovea
