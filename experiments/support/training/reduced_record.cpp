#include "experiments/support/training/reduced_record.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include <fmt/core.h>
#include <zlib.h>

#include "experiments/support/text/lines.h"
#include "experiments/support/text/number.h"
#include "experiments/support/text/vocabulary.h"
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
      for (const Json& start : load_json(place / "run.json")) starts.push_back(start_without_places(start));
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

/// The content of statistics.SET.jsonl.gz: a head with the names of the scores and the number of columns that each has,
/// and the columns, which have a value for each test example.
struct Statistics {
  Json head;
  std::vector<Json> columns;
};

Statistics statistics_of(const TestResult& test) {
  Statistics all{{{"examples", test.examples.size()}, {"key", test.key()}, {"scores", Json::array()}}, {}};
  const auto add = [&](const auto& value_of) {
    Json& column = all.columns.emplace_back(Json::array());
    for (std::size_t k = 0; k < test.examples.size(); ++k) column.push_back(value_of(k));
  };
  add([&](std::size_t k) { return test.examples[k].group; });
  for (const TextScore& score : test.scores()) {
    const std::size_t width = score.metric.width;
    all.head["scores"].push_back({{"name", score.name}, {"width", width}});
    for (std::size_t i = 0; i < width; ++i)
      add([&](std::size_t k) { return rounded(score.metric.statistics[k * width + i]); });
  }
  if (!test.examples.empty() && !test.examples.front().probabilities.empty()) {
    add([&](std::size_t k) { return test.examples[k].reference; });
    add([&](std::size_t k) { return test.examples[k].hypothesis; });
  }
  return all;
}

/// The test as if the model had given empty answers. A column that is the same for it depends on the test set alone,
/// and records of the same test set can share it.
TestResult with_other_answers(TestResult test) {
  test.known_scores = nullptr;
  for (TestedExample& example : test.examples) {
    example.hypothesis.clear();
    example.likelihood.negative_log = 0;
  }
  return test;
}

bool has_whole_numbers(const Json& column) {
  return std::all_of(column.begin(), column.end(), [](const Json& value) { return value.is_number_integer(); });
}

/// Column `k` as a line: the values, or what is to be added to an earlier column, whichever is shorter when compressed.
/// A text of 12 words has 11 pairs of them and 10 triples.
std::string shortest_line(const std::vector<Json>& columns, std::size_t k) {
  std::string best = text_of(columns[k]);
  std::size_t least = gzipped(best).size();
  if (!has_whole_numbers(columns[k])) return best;
  for (std::size_t base = 0; base < k; ++base) {
    if (!has_whole_numbers(columns[base])) continue;
    Json plus = Json::array();
    for (std::size_t n = 0; n < columns[k].size(); ++n)
      plus.push_back(columns[k][n].get<std::int64_t>() - columns[base][n].get<std::int64_t>());
    const std::string line = text_of(Json{{"column", base}, {"plus", std::move(plus)}});
    if (const std::size_t size = gzipped(line).size(); size < least) best = line, least = size;
  }
  return best;
}

constexpr const char* shared_columns = "columns";

fs::path shared_file(const fs::path& record, const std::string& name) {
  return record.parent_path() / shared_columns / (name + ".json.gz");
}

std::string crc_of(const std::string& text) {
  return fmt::format("{:08x}", fovea::checksum_of(std::string_view(text)));
}

/// Writes the text of a column that records share, if it is not there yet, and returns its name.
std::string share(const std::string& text, const fs::path& record) {
  const std::string name = crc_of(text);
  const fs::path file = shared_file(record, name);
  fs::create_directories(file.parent_path());
  if (!fs::exists(file)) write_file_atomically(file, gzipped(text + "\n"));
  return name;
}

/// A line of a statistics file as a column. `origin`: the file and line, for messages.
Json column_of(const Json& line, const std::vector<Json>& columns, const fs::path& record, const std::string& origin) {
  const auto earlier = [&](const Json& number) {
    require(number.is_number_unsigned() && number < columns.size(), "{}: column {} is none of the {} before", origin,
            text_of(number), columns.size());
    return columns[number.get<std::size_t>()];
  };
  if (line.is_number()) return earlier(line);
  if (line.is_object()) {
    Json column = earlier(line.at("column"));
    const Json& plus = line.at("plus");
    require(plus.size() == column.size(), "{}: {} values to be added to {}", origin, plus.size(), column.size());
    for (std::size_t k = 0; k < column.size(); ++k)
      column[k] = column[k].get<std::int64_t>() + plus.at(k).get<std::int64_t>();
    return column;
  }
  if (!line.is_string()) return line;
  const std::string name = line;
  require(hexadecimal<std::uint32_t>(name).has_value(),
          "{}: the name of a shared column is '{}', expected 8 hex digits", origin, name);
  const fs::path file = shared_file(record, name);
  require(fs::exists(file), "{}: needs {}, which is not there; records go together with the directory {} beside them",
          origin, file.string(), shared_columns);
  LineReader reader(file);
  std::string text;
  reader.next(text);
  require(crc_of(text) == name, "{}: damaged: its checksum is {}", file.string(), crc_of(text));
  return parse_json(text);
}

/// The columns in the lines that are left.
std::vector<Json> read_columns(LineReader& reader, const fs::path& file, std::size_t examples) {
  std::vector<Json> columns;
  for (std::string text; reader.next(text);) {
    const std::string origin = fmt::format("{}:{}", file.string(), reader.number());
    reading_json(origin, [&] {
      columns.push_back(column_of(parse_json(text), columns, file.parent_path(), origin));
      require(columns.back().size() == examples, "{}: {} values for {} examples", origin, columns.back().size(),
              examples);
    });
  }
  return columns;
}

}  // namespace

void save_statistics(const TestResult& test, const fs::path& file) {
  const auto [head, columns] = statistics_of(test);
  const bool has_texts = test.known_key.empty();
  const std::vector<Json> others = has_texts ? statistics_of(with_other_answers(test)).columns : std::vector<Json>();
  constexpr std::size_t worth_sharing = 500;  // bytes, compressed
  std::string lines = text_of(head) + "\n";
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const auto same = std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(k), columns[k]);
    const auto first = static_cast<std::size_t>(same - columns.begin());
    const std::string text = text_of(columns[k]);
    const bool is_shared = has_texts && columns[k] == others[k] && gzipped(text).size() >= worth_sharing;
    lines += (first < k   ? std::to_string(first)
              : is_shared ? text_of(Json(share(text, file.parent_path())))
                          : shortest_line(columns, k)) +
             "\n";
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
  const std::vector<Json> columns = read_columns(reader, file, test.examples.size());
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
